# SPDX-License-Identifier: Apache-2.0
"""Gradients of indexing whose usual form has a size that depends on data."""

from math import prod

import torch
from torch import Tensor

from torch_neuronx.decompositions import decomposition

aten = torch.ops.aten


@decomposition(aten.masked_scatter_backward.default)
def masked_scatter_backward(grad: Tensor, mask: Tensor, sizes: list[int]) -> Tensor:
    """The gradient of the source: element k is that of the k-th true place."""
    count = prod(sizes)
    mask = mask.expand_as(grad).reshape(-1)
    # Places beyond the source's end, and false ones, go to one that is cut off.
    place = torch.where(mask, mask.to(torch.int64).cumsum(0) - 1, count)
    result = torch.zeros(count + 1, dtype=grad.dtype, device=grad.device)
    result = result.scatter_add(0, place.clamp(max=count), grad.reshape(-1))
    return result[:count].reshape(sizes)
