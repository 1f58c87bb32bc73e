# SPDX-License-Identifier: Apache-2.0
"""Convolutions and pooling."""

from typing import Any

import sympy
import torch

from torch_neuronx.padding_rules.call import Call, single
from torch_neuronx.padding_rules.table import rule

aten = torch.ops.aten


@rule(aten.convolution.default)
def _convolution(call: Call) -> Any:
    call.refuse_padded(("weight", "bias"), "weights are padded")
    axes = list(call.axes(call["input"]))
    if call.is_padded(axes[1]):
        call.refuse("channels are padded")
    spatial = [d for d in range(2, len(axes)) if call.is_padded(axes[d])]
    if spatial:
        # The convolution's own padding is of zeros too.
        for d in spatial:
            single(call, axes[d])
        call.fill("input", 0)
    shape = call.node.meta["val"].shape
    made = [axes[0], *((call.emitter.expression(n),) for n in shape[1:])]
    return call.mark(call.emit(), made)


@rule(aten.convolution_backward.default)
def _convolution_backward(call: Call) -> Any:
    call.refuse_padded(("weight",), "weights are padded")
    axes = call.axes(call["input"])
    if call.is_padded(axes[1]):
        call.refuse("channels are padded")
    call.fill("grad_output", 0)
    call.fill("input", 0)
    results = call.emit()
    if results[0] is not None:
        call.mark(results[0], axes)
    return results


@rule(
    aten._adaptive_avg_pool2d.default,
    aten.avg_pool2d.default,
    aten.max_pool2d_with_indices.default,
)
def _pool(call: Call) -> Any:
    axes = call.axes(call["self"])
    if any(map(call.is_padded, axes[-2:])):
        call.refuse("windows would reach into the padding")
    results = call.emit()
    for result in results if isinstance(results, list | tuple) else [results]:
        shape = [(sympy.Integer(n),) for n in result.fake.shape[-2:]]
        call.mark(result, [*axes[:-2], *shape])
    return results


@rule(
    aten._adaptive_avg_pool2d_backward.default,
    aten.avg_pool2d_backward.default,
    aten.max_pool2d_with_indices_backward.default,
)
def _pool_backward(call: Call) -> Any:
    axes = call.axes(call["self"])
    if any(map(call.is_padded, axes[-2:])):
        call.refuse("windows would reach into the padding")
    if "indices" in call.values:
        call.fill("indices", 0)
    return call.mark(call.emit(), axes)
