# SPDX-License-Identifier: Apache-2.0
"""Copies and scatters into views."""

from collections.abc import Sequence

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


@decomposition(aten.as_strided_scatter.default)
def as_strided_scatter(
    self: torch.Tensor,
    src: torch.Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> torch.Tensor:
    if not self.is_contiguous():
        return NotImplemented
    index = torch.full([1] * len(size), storage_offset or 0, device=self.device)
    for d, (n, step) in enumerate(zip(size, stride, strict=True)):
        shape = [n if i == d else 1 for i in range(len(size))]
        index = index + step * torch.arange(n, device=self.device).reshape(shape)
    values = src.expand(size).reshape(-1)
    flat = self.reshape(-1).scatter(0, index.reshape(-1), values)
    return flat.reshape(self.shape)
