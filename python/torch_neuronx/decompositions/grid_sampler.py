# SPDX-License-Identifier: Apache-2.0
"""Sampling at the places of a grid, and its gradients. After ATen's GridSampler.h:
along each dimension a place becomes a few taps (position, weight, slope of the
weight); what is sampled is the sum over all their combinations."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from torch_neuronx.decompositions import decomposition

aten = torch.ops.aten

_BILINEAR, _NEAREST, _BICUBIC = range(3)
_ZEROS, _BORDER, _REFLECTION = range(3)


@dataclass
class Tap:
    """Along one dimension, for all places."""

    position: Tensor  # whole numbers, in floating point
    weight: Tensor
    slope: Tensor  # of the weight by the grid's coordinate


def _unnormalize(grid: Tensor, size: int, align_corners: bool) -> Tensor:
    if align_corners:
        return (grid + 1) / 2 * (size - 1)
    return ((grid + 1) * size - 1) / 2


def _clip(x: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The coordinate moved into the input, and by how much it follows x."""
    inside = (x > 0) & (x < size - 1)
    return x.clamp(0, size - 1), inside.to(x.dtype)


def _reflect(x: Tensor, size: int, align_corners: bool) -> tuple[Tensor, Tensor]:
    low, high = (0, 2 * (size - 1)) if align_corners else (-1, 2 * size - 1)
    if low == high:
        return torch.zeros_like(x), torch.zeros_like(x)
    least, span = low / 2, (high - low) / 2
    distance = x - least
    sign = torch.where(distance < 0, -1.0, 1.0).to(x.dtype)
    distance = distance.abs()
    extra = distance.fmod(span)
    even = (distance / span).floor().fmod(2) == 0
    place = torch.where(even, extra + least, span - extra + least)
    return place, torch.where(even, sign, -sign)


def _pad(
    x: Tensor, size: int, padding: int, align_corners: bool
) -> tuple[Tensor, Tensor]:
    """The coordinate that the padding mode makes of x, and its slope."""
    slope = torch.ones_like(x)
    if padding == _BORDER:
        x, slope = _clip(x, size)
    elif padding == _REFLECTION:
        x, turned = _reflect(x, size, align_corners)
        x, slope = _clip(x, size)
        slope = slope * turned
    # What no integer holds is outside.
    return torch.where(x.abs() < 2.0**31 - 1, x, -100.0), slope


def _cubic(t: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Weights and slopes of the four neighbours, the second at distance t."""
    a = -0.75

    def near(x: Tensor) -> tuple[Tensor, Tensor]:
        value = ((a + 2) * x - (a + 3)) * x * x + 1
        return value, (3 * (a + 2) * x - 2 * (a + 3)) * x

    def far(x: Tensor) -> tuple[Tensor, Tensor]:
        value = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return value, (3 * a * x - 10 * a) * x + 8 * a

    left, right = [far(t + 1), near(t)], [near(1 - t), far(2 - t)]
    weights = [value for value, _ in left + right]
    slopes = [slope for _, slope in left] + [-slope for _, slope in right]
    return weights, slopes


def _taps(
    grid: Tensor, size: int, mode: int, padding: int, align_corners: bool
) -> list[Tap]:
    x = _unnormalize(grid, size, align_corners)
    scale = (size - 1 if align_corners else size) / 2
    if mode == _BICUBIC:
        first = x.floor()
        weights, slopes = _cubic(x - first)
        return [
            Tap(_pad(first + k - 1, size, padding, align_corners)[0], w, s * scale)
            for k, (w, s) in enumerate(zip(weights, slopes, strict=True))
        ]
    x, slope = _pad(x, size, padding, align_corners)
    slope = slope * scale
    if mode == _NEAREST:
        return [Tap(x.round(), torch.ones_like(x), torch.zeros_like(x))]
    first = x.floor()
    return [Tap(first, first + 1 - x, -slope), Tap(first + 1, x - first, slope)]


@dataclass
class Samples:
    """All combinations of taps: [batch, combinations, places]."""

    index: Tensor  # into the flattened input
    weight: Tensor
    slopes: list[Tensor]  # by each coordinate of the grid


def _samples(
    grid: Tensor, sizes: Sequence[int], mode: int, padding: int, align_corners: bool
) -> Samples:
    n = len(sizes)
    places = grid.reshape(grid.shape[0], -1, n)
    # The grid's last coordinate is the input's first dimension.
    taps = [
        _taps(places[:, :, n - 1 - d], sizes[d], mode, padding, align_corners)
        for d in range(n)
    ]
    indices, weights = [], []
    slopes: list[list[Tensor]] = [[] for _ in range(n)]
    for corner in itertools.product(*taps):
        index, inside = 0, True
        for tap, size in zip(corner, sizes, strict=True):
            inside = (tap.position >= 0) & (tap.position < size) & inside
            index = index * size + tap.position.clamp(0, size - 1).to(torch.int64)
        indices.append(index)
        factors = [tap.weight for tap in corner]
        weights.append(torch.where(inside, math.prod(factors), 0.0))
        for d in range(n):
            others = [f for i, f in enumerate(factors) if i != d]
            slope = math.prod(others, start=corner[d].slope)
            slopes[n - 1 - d].append(torch.where(inside, slope, 0.0))
    return Samples(
        torch.stack(indices, 1),
        torch.stack(weights, 1),
        [torch.stack(slope, 1) for slope in slopes],
    )


def _gather(input: Tensor, index: Tensor) -> Tensor:
    """[batch, channels, combinations, places]."""
    n, c = input.shape[:2]
    flat = index.reshape(n, 1, -1).expand(n, c, -1)
    return input.reshape(n, c, -1).gather(2, flat).reshape(n, c, *index.shape[1:])


def _wide(x: Tensor) -> Tensor:
    return x.to(torch.float32) if x.dtype.itemsize < 4 else x


def _not_finite_where_unused(values: Tensor, weight: Tensor) -> Tensor:
    # A corner outside of the input is clamped to one that may hold infinity.
    return torch.where(weight.unsqueeze(1) == 0, 0.0, values)


@decomposition(aten.grid_sampler_2d.default, aten.grid_sampler_3d.default)
def grid_sampler(
    input: Tensor,
    grid: Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> Tensor:
    sizes = input.shape[2:]
    s = _samples(_wide(grid), sizes, interpolation_mode, padding_mode, align_corners)
    values = _not_finite_where_unused(_gather(_wide(input), s.index), s.weight)
    result = (values * s.weight.unsqueeze(1)).sum(2)
    return result.reshape(*input.shape[:2], *grid.shape[1:-1]).to(input.dtype)


@decomposition(
    aten.grid_sampler_2d_backward.default, aten.grid_sampler_3d_backward.default
)
def grid_sampler_backward(
    grad_output: Tensor,
    input: Tensor,
    grid: Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor]:
    n, c = input.shape[:2]
    sizes = input.shape[2:]
    s = _samples(_wide(grid), sizes, interpolation_mode, padding_mode, align_corners)
    grad = _wide(grad_output).reshape(n, c, 1, -1)
    grad_input = None
    if output_mask[0]:
        index = s.index.reshape(n, 1, -1).expand(n, c, -1)
        shares = (grad * s.weight.unsqueeze(1)).reshape(n, c, -1)
        zeros = torch.zeros_like(_wide(input)).reshape(n, c, -1)
        grad_input = zeros.scatter_add(2, index, shares)
        grad_input = grad_input.reshape(input.shape).to(input.dtype)
    products = (grad * _gather(_wide(input), s.index)).sum(1)
    slopes = [torch.where(slope == 0, 0.0, products * slope) for slope in s.slopes]
    grad_grid = torch.stack([slope.sum(1) for slope in slopes], -1)
    return grad_input, grad_grid.reshape(grid.shape).to(grid.dtype)
