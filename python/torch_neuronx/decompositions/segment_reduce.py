# SPDX-License-Identifier: Apache-2.0
"""Reductions of segments of a dimension, and their gradients."""

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_neuronx.decompositions import decomposition

aten = torch.ops.aten

_NEUTRAL = {"sum": 0, "mean": 0, "prod": 1, "max": -torch.inf, "min": torch.inf}
_SCATTER = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin"}


@dataclass
class Segments:
    """The reduced dimension is the second of three."""

    data: Tensor  # [batch, rows, width]
    segment: Tensor  # of each row: [batch, rows]; ``count`` where in none
    length: Tensor  # [batch, count]
    count: int

    def index(self) -> Tensor:
        return self.segment.unsqueeze(2).expand(self.data.shape)

    def reduce(self, source: Tensor, how: str, initial: float) -> Tensor:
        """[batch, count + 1, width]; the last are the rows of no segment."""
        batch, _, width = self.data.shape
        start = torch.full(
            [batch, self.count + 1, width],
            initial,
            dtype=source.dtype,
            device=source.device,
        )
        return start.scatter_reduce(1, self.index(), source, how)

    def spread(self, values: Tensor) -> Tensor:
        """[batch, count, width] to rows, zero for those of no segment."""
        none = torch.zeros_like(values[:, :1])
        return torch.cat([values, none], 1).gather(1, self.index())


def _segments(
    data: Tensor, lengths: Tensor | None, offsets: Tensor | None, axis: int
) -> Segments:
    if lengths is not None:
        ends = lengths.cumsum(axis)
        starts = ends - lengths
    else:
        starts = offsets.narrow(axis, 0, offsets.shape[axis] - 1)
        ends = offsets.narrow(axis, 1, offsets.shape[axis] - 1)
    rows, count = data.shape[axis], ends.shape[axis]
    flat = data.reshape(data.shape[:axis].numel(), rows, -1)
    starts, ends = starts.reshape(-1, 1, count), ends.reshape(-1, 1, count)
    place = torch.arange(rows, device=data.device).reshape(1, rows, 1)
    segment = (place >= ends).sum(2)
    # Rows before the first segment are in none either.
    segment = torch.where((place >= starts[:, :, :1]).squeeze(2), segment, count)
    return Segments(flat, segment, (ends - starts).squeeze(1), count)


@decomposition(aten.segment_reduce.default)
def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    s = _segments(data, lengths, offsets, axis)
    start = _NEUTRAL[reduce] if initial is None else initial
    result = s.reduce(s.data, _SCATTER[reduce], start)[:, : s.count]
    if reduce == "mean":
        length = s.length.unsqueeze(2)
        mean = result / length.clamp(min=1).to(result.dtype)
        empty = torch.nan if initial is None else initial
        result = torch.where(length > 0, mean, empty)
    return result.reshape([*data.shape[:axis], s.count, *data.shape[axis + 1 :]])


@decomposition(aten._segment_reduce_backward.default)
def segment_reduce_backward(
    grad: Tensor,
    output: Tensor,
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    initial: float | None = None,
) -> Tensor:
    s = _segments(data, lengths, offsets, axis)
    x = s.data
    shape = [x.shape[0], s.count, x.shape[2]]
    grad, output = grad.reshape(shape), output.reshape(shape)
    if reduce == "mean":
        grad = grad / s.length.clamp(min=1).unsqueeze(2).to(grad.dtype)
    result = s.spread(grad)
    if reduce in ("max", "min"):
        # Shared by all that equal the extreme.
        chosen = (x == s.spread(output)) | x.isnan()
        ties = s.reduce(chosen.to(x.dtype), "sum", 0)[:, : s.count]
        result = torch.where(chosen, result / s.spread(ties).clamp(min=1), 0.0)
    elif reduce == "prod":
        # The product of the others, without dividing by zero.
        zero = x == 0
        nonzero = torch.where(zero, 1.0, x)
        start = 1 if initial is None else initial
        product = s.spread(s.reduce(nonzero, "prod", start)[:, : s.count])
        zeros = s.spread(s.reduce(zero.to(x.dtype), "sum", 0)[:, : s.count])
        others_zero = zeros - zero.to(x.dtype) > 0
        result = result * torch.where(others_zero, 0.0, product / nonzero)
    inside = (s.segment < s.count).unsqueeze(2)
    return torch.where(inside, result, 0.0).reshape(data.shape)
