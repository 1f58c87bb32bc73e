# SPDX-License-Identifier: Apache-2.0
"""Operators over a dimension: padding gets the neutral element."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from torch_neuronx.lowering import Operand
from torch_neuronx.padding_rules.call import (
    Axes,
    Call,
    Padding,
    broadcast,
    product,
    single,
)
from torch_neuronx.padding_rules.pointwise import pointwise
from torch_neuronx.padding_rules.table import rule

aten = torch.ops.aten

_NEUTRAL = {
    aten.all: 1,
    aten.amax: -math.inf,
    aten.amin: math.inf,
    aten.any: 0,
    aten.argmax: -math.inf,
    aten.argmin: math.inf,
    aten.max: -math.inf,
    aten.min: math.inf,
    aten.prod: 1,
    aten.sum: 0,
}


@rule(
    *(getattr(p, o) for p in _NEUTRAL for o in p.overloads() if "out" not in o),
)
def _reduce(call: Call) -> Any:
    x = call.values.get("self")
    if not isinstance(x, Operand) or "other" in call.values:
        return pointwise(call)
    dims = call.dims(x)
    axes = call.axes(x)
    packet = call.op.overloadpacket
    over = [d for d in dims if call.is_padded(axes[d])]
    if over:
        positions = (
            packet in (aten.argmax, aten.argmin) or len(call.op._schema.returns) > 1
        )
        everywhere = call.values.get("dim") is None and over != [0]
        if positions and (everywhere or any(len(axes[d]) > 1 for d in over)):
            call.refuse("it counts positions over padding")
        call.fill("self", _NEUTRAL[packet])
    results = call.emit()
    _mark_reduced(call, results, axes, dims)
    return results


def _mark_reduced(call: Call, results: Any, axes: Axes, dims: Sequence[int]) -> None:
    keep = call.values.get("keepdim", False)
    left = [() if d in dims else a for d, a in enumerate(axes) if keep or d not in dims]
    for result in results if isinstance(results, list | tuple) else [results]:
        call.mark(result, left)


def true_count(call: Call, axes: Axes, dims: Sequence[int]) -> Operand:
    return call.emitter.number(product([f for d in dims for f in axes[d]]))


@rule(aten.mean.default, aten.mean.dim)
def _mean(call: Call) -> Any:
    x, emitter = call["self"], call.emitter
    dims, axes = call.dims(x), call.axes(x)
    if not any(call.is_padded(axes[d]) for d in dims):
        result = call.emit()
    else:
        meta = call.meta()
        x = emitter.fill(x, 0)
        x = emitter.op(aten._to_copy.default, x, dtype=_wide(meta.dtype))
        result = emitter.op(
            aten.sum.dim_IntList, x, dims, call.values.get("keepdim", False)
        )
        result = emitter.op(aten.div.Tensor, result, true_count(call, axes, dims))
        result = _narrow(call, result, meta)
    _mark_reduced(call, result, axes, dims)
    return result


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def _narrow(call: Call, value: Operand, meta: torch.Tensor) -> Operand:
    if value.fake.dtype == meta.dtype:
        return value
    return call.emitter.op(aten._to_copy.default, value, dtype=meta.dtype)


@rule(aten.var.correction, aten.std.correction, aten.var_mean.correction)
def _variance(call: Call) -> Any:
    x, emitter = call["self"], call.emitter
    dims, axes = call.dims(x), call.axes(x)
    if not any(call.is_padded(axes[d]) for d in dims):
        results = call.emit()
        _mark_reduced(call, results, axes, dims)
        return results
    metas = tree_leaves(call.meta())
    correction = 1 if call["correction"] is None else call["correction"]
    count = true_count(call, axes, dims)
    x = emitter.op(
        aten._to_copy.default, emitter.fill(x, 0), dtype=_wide(metas[0].dtype)
    )
    total = emitter.op(aten.sum.dim_IntList, x, dims, True)
    mean = emitter.op(aten.div.Tensor, total, count)
    apart = emitter.op(aten.sub.Tensor, x, mean)
    emitter.pads[apart] = Padding(axes)
    apart = emitter.fill(apart, 0)
    square = emitter.op(aten.mul.Tensor, apart, apart)
    square = emitter.op(aten.sum.dim_IntList, square, dims, call["keepdim"])
    left = emitter.op(aten.sub.Scalar, count, correction)
    result = emitter.op(
        aten.div.Tensor, square, emitter.op(aten.clamp_min.default, left, 0)
    )
    if call.op is aten.std.correction:
        result = emitter.op(aten.sqrt.default, result)
    results = [_narrow(call, result, metas[0])]
    if len(metas) > 1:
        mean = emitter.op(aten.reshape.default, mean, list(metas[1].shape))
        results.append(_narrow(call, mean, metas[1]))
    _mark_reduced(call, results, axes, dims)
    return results if len(metas) > 1 else results[0]


@rule(aten.linalg_vector_norm.default)
def _norm(call: Call) -> Any:
    x = call["self"]
    dims, axes = call.dims(x), call.axes(x)
    if any(call.is_padded(axes[d]) for d in dims):
        if call["ord"] < 0:
            call.refuse(f"the norm of order {call['ord']} counts zeros")
        call.fill("self", 0)
    result = call.emit()
    _mark_reduced(call, result, axes, dims)
    return result


@rule(
    aten.cumsum.default,
    aten.cumprod.default,
    aten.cummax.default,
    aten.cummin.default,
    aten.logcumsumexp.default,
)
def _cumulative(call: Call) -> Any:
    """An element depends on those before it, and padding is behind."""
    axes = call.axes(call["self"])
    if axes and call.is_padded(axes[call["dim"]]):
        single(call, axes[call["dim"]])
    results = call.emit()
    for result in results if isinstance(results, list | tuple) else [results]:
        call.mark(result, axes)
    return results


@rule(aten._softmax.default, aten._log_softmax.default)
def _softmax(call: Call) -> Any:
    x = call["self"]
    axes = call.axes(x)
    fill = None
    if axes and call.is_padded(axes[call["dim"]]):
        call.fill("self", -math.inf)
        only = call.padded_dims(x) == [call["dim"] % len(axes)]
        fill = 0 if only and call.op is aten._softmax.default else None
    return call.mark(call.emit(), axes, fill)


@rule(aten._softmax_backward_data.default, aten._log_softmax_backward_data.default)
def _softmax_backward(call: Call) -> Any:
    axes = broadcast(call, [call["grad_output"], call["output"]])
    if axes and call.is_padded(axes[call["dim"]]):
        call.fill("grad_output", 0)
        call.fill("output", 0)
    return call.mark(call.emit(), axes)
