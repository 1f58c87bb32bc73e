# SPDX-License-Identifier: Apache-2.0
"""Bags of embeddings: rows, and sums of rows that belong together. What is saved for
the gradient has the form that ATen's CPU kernels give it."""

import torch
from torch import Tensor

from torch_neuronx.decompositions import decomposition

aten = torch.ops.aten

_SUM, _MEAN, _MAX = range(3)


def _wide(x: Tensor) -> Tensor:
    return x.to(torch.float32) if x.dtype.itemsize < 4 else x


def _bag_of(offsets: Tensor, count: int) -> Tensor:
    """The bag of each of ``count`` places: the last that starts before it."""
    places = torch.arange(count, dtype=offsets.dtype, device=offsets.device)
    started = places.unsqueeze(1) >= offsets.unsqueeze(0)
    return started.sum(1, dtype=offsets.dtype) - 1


def _rows(weight: Tensor, indices: Tensor) -> Tensor:
    return aten.embedding(weight, indices.to(torch.int64))


@decomposition(aten._embedding_bag.default)
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    dtype = torch.promote_types(indices.dtype, offsets.dtype)
    indices, offsets = indices.to(dtype), offsets.to(dtype)
    starts = offsets[:-1] if include_last_offset else offsets
    bags, width, count = starts.shape[0], weight.shape[1], indices.shape[0]
    zeros = torch.zeros(bags, width, dtype=torch.float32, device=weight.device)
    none = torch.zeros(bags, dtype=dtype, device=weight.device)
    if count == 0:
        shape = [bags, width] if mode == _MAX else [bags]
        maximum = torch.zeros(shape, dtype=dtype, device=weight.device)
        return zeros.to(weight.dtype), indices, none, maximum
    bag_of = _bag_of(starts, count)
    present = (indices != padding_idx) if padding_idx >= 0 else indices >= 0
    size = none.index_add(0, bag_of, present.to(dtype))
    rows = _wide(_rows(weight, indices))
    if mode == _MAX:
        bag = torch.arange(bags, dtype=dtype, device=weight.device).unsqueeze(1)
        member = (bag == bag_of) & present
        # [bags, places, width]; the first of equals.
        candidates = torch.where(member.unsqueeze(-1), rows, -torch.inf)
        best = candidates.argmax(1)
        empty = (size == 0).unsqueeze(1)
        output = torch.where(empty, 0.0, candidates.amax(1))
        chosen = indices.index_select(0, best.reshape(-1)).reshape(best.shape)
        return output.to(weight.dtype), bag_of, size, torch.where(empty, 0, chosen)
    if per_sample_weights is not None:
        rows = rows * _wide(per_sample_weights).unsqueeze(1)
    rows = torch.where(present.unsqueeze(1), rows, 0.0)
    output = zeros.index_add(0, bag_of, rows)
    if mode == _MEAN:
        output = output / size.clamp(min=1).unsqueeze(1).to(rows.dtype)
        return output.to(weight.dtype), bag_of, size, size
    if padding_idx < 0 and weight.stride(1) == 1 and _is_dense(per_sample_weights):
        bag_of = bag_of[:0]
    return output.to(weight.dtype), bag_of, none, none


def _is_dense(per_sample_weights: Tensor | None) -> bool:
    return per_sample_weights is None or per_sample_weights.stride(0) == 1


@decomposition(aten._embedding_bag_forward_only.default)
def embedding_bag_forward_only(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    output, bag_of, size, maximum = embedding_bag(
        weight,
        indices,
        offsets,
        scale_grad_by_freq,
        mode,
        sparse,
        per_sample_weights,
        include_last_offset,
        padding_idx,
    )
    if mode == _SUM:
        size = maximum = torch.zeros_like(offsets, dtype=size.dtype)
    return output, bag_of, size, maximum


@decomposition(aten._embedding_bag_dense_backward.default)
def embedding_bag_dense_backward(
    grad: Tensor,
    indices: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    maximum_indices: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Tensor:
    dtype = grad.dtype
    grad = _wide(grad)
    zeros = torch.zeros(
        num_weights, grad.shape[1], dtype=grad.dtype, device=grad.device
    )
    if mode == _MAX:
        filled = torch.where((bag_size > 0).unsqueeze(1), grad, 0.0)
        index = maximum_indices.to(torch.int64)
        return zeros.scatter_add(0, index, filled).to(dtype)
    rows = grad.index_select(0, offset2bag)
    if per_sample_weights is not None:
        rows = rows * _wide(per_sample_weights).unsqueeze(1)
    if scale_grad_by_freq:
        once = torch.ones_like(indices)
        counts = torch.zeros_like(indices[:1]).expand(num_weights)
        counts = counts.index_add(0, indices, once)
        rows = rows / counts.index_select(0, indices).unsqueeze(1).to(rows.dtype)
    if mode == _MEAN:
        size = bag_size.index_select(0, offset2bag).unsqueeze(1)
        rows = rows / size.to(rows.dtype)
    if padding_idx >= 0:
        rows = torch.where((indices != padding_idx).unsqueeze(1), rows, 0.0)
    return zeros.index_add(0, indices, rows).to(dtype)


@decomposition(aten._embedding_bag_backward.default)
def embedding_bag_backward(
    grad: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    maximum_indices: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Tensor:
    if sparse:
        return NotImplemented
    return embedding_bag_dense_backward(
        grad,
        indices,
        _bag_of(offsets, indices.shape[0]),
        bag_size,
        maximum_indices,
        num_weights,
        scale_grad_by_freq,
        mode,
        per_sample_weights,
        padding_idx,
    )


@decomposition(aten._embedding_bag_per_sample_weights_backward.default)
def embedding_bag_per_sample_weights_backward(
    grad: Tensor,
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    mode: int,
    padding_idx: int = -1,
) -> Tensor:
    rows = _wide(grad).index_select(0, _bag_of(offsets, indices.shape[0]))
    products = (rows * _wide(_rows(weight, indices))).sum(1)
    if padding_idx >= 0:
        products = torch.where(indices != padding_idx, products, 0.0)
    return products.to(grad.dtype)
