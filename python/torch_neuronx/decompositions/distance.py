# SPDX-License-Identifier: Apache-2.0
"""Distances between rows, and their gradients, after ATen's DistanceOpsKernel.cpp."""

import torch
from torch import Tensor

from torch_neuronx.decompositions import decomposition

aten = torch.ops.aten


def _differences(x1: Tensor, x2: Tensor) -> Tensor:
    """[batch..., rows of x1, rows of x2, width]."""
    return x1.unsqueeze(-2) - x2.unsqueeze(-3)


def _norm(difference: Tensor, p: float) -> Tensor:
    magnitude = difference.abs()
    if p == 0:
        return (magnitude != 0).to(magnitude.dtype).sum(-1)
    if p == 1:
        return magnitude.sum(-1)
    if p == 2:
        return (magnitude * magnitude).sum(-1).sqrt()
    if p == torch.inf:
        return magnitude.amax(-1)
    return magnitude.pow(p).sum(-1).pow(1 / p)


def _slope(difference: Tensor, distance: Tensor, p: float) -> Tensor:
    """The distances' derivatives by each difference."""
    distance = distance.unsqueeze(-1)
    magnitude, sign = difference.abs(), difference.sign()
    if p == 0:
        return torch.zeros_like(difference)
    if p == 1:
        return sign
    if p == torch.inf:
        return torch.where(magnitude == distance, sign, 0.0)
    if p == 2:
        slope = difference / distance
    else:
        slope = sign * (magnitude / distance).pow(p - 1)
    return torch.where((distance == 0) | (magnitude == 0), 0.0, slope)


@decomposition(aten._cdist_forward.default)
def cdist_forward(
    x1: Tensor, x2: Tensor, p: float, compute_mode: int | None = None
) -> Tensor:
    if x1.shape[-1] == 0 or x1.shape[-2] == 0 or x2.shape[-2] == 0:
        batch = torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
        return x1.new_zeros([*batch, x1.shape[-2], x2.shape[-2]])
    rows = max(x1.shape[-2], x2.shape[-2])
    if p == 2 and compute_mode != 2 and (compute_mode == 1 or rows > 25):
        # |a - b|^2 = |a|^2 - 2 a.b + |b|^2: one matrix product, as ATen does
        # beyond 25 rows and unless compute_mode forbids it.
        squares1 = (x1 * x1).sum(-1).unsqueeze(-1)
        squares2 = (x2 * x2).sum(-1).unsqueeze(-2)
        square = squares1 + squares2 - 2 * (x1 @ x2.mT)
        return square.clamp(min=0).sqrt()
    return _norm(_differences(x1, x2), p)


@decomposition(aten._cdist_backward.default)
def cdist_backward(
    grad: Tensor, x1: Tensor, x2: Tensor, p: float, cdist: Tensor
) -> Tensor:
    if x1.numel() == 0 or x2.numel() == 0:
        return torch.zeros_like(x1)
    slope = _slope(_differences(x1, x2), cdist, p)
    total = (grad.unsqueeze(-1) * slope).sum(-2)
    return total.sum_to_size(x1.shape) if total.shape != x1.shape else total


@decomposition(aten._pdist_forward.default)
def pdist_forward(self: Tensor, p: float = 2.0) -> Tensor:
    first, second = _pairs(self)
    return _norm(self.index_select(0, first) - self.index_select(0, second), p)


@decomposition(aten._pdist_backward.default)
def pdist_backward(grad: Tensor, self: Tensor, p: float, pdist: Tensor) -> Tensor:
    first, second = _pairs(self)
    difference = self.index_select(0, first) - self.index_select(0, second)
    share = grad.unsqueeze(-1) * _slope(difference, pdist, p)
    return (
        torch.zeros_like(self).index_add(0, first, share).index_add(0, second, -share)
    )


def _pairs(self: Tensor) -> tuple[Tensor, Tensor]:
    """Rows i and j > i of each pair, in order."""
    n = self.shape[0]
    k = torch.arange(n * (n - 1) // 2, device=self.device)

    def start(row: Tensor) -> Tensor:
        """The number of pairs of the rows before."""
        return row * (2 * n - 1 - row) // 2

    # The root of start(row) = k, corrected for its rounding.
    root = ((2 * n - 1) * (2 * n - 1) - 8 * k).to(torch.float32).sqrt()
    row = ((2 * n - 1 - root) / 2).to(torch.int64)
    row = row - (start(row) > k).to(torch.int64)
    row = row + (start(row + 1) <= k).to(torch.int64)
    return row, k - start(row) + row + 1
