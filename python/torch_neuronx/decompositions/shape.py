# SPDX-License-Identifier: Apache-2.0
"""Copies and scatters into views."""

import torch

from torch_neuronx.decompositions import decomposition

aten = torch.ops.aten


@decomposition(aten.copy.default)
def copy(
    self: torch.Tensor, src: torch.Tensor, non_blocking: bool = False
) -> torch.Tensor:
    return src.to(self.dtype).expand(self.shape)


@decomposition(aten.diagonal_scatter.default)
def diagonal_scatter(
    self: torch.Tensor, src: torch.Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> torch.Tensor:
    # PyTorch's writes to a view.
    places = torch.arange(self.numel(), device=self.device).reshape(self.shape)
    index = places.diagonal(offset, dim1, dim2).reshape(-1)
    flat = self.reshape(-1).scatter(0, index, src.reshape(-1))
    return flat.reshape(self.shape)
