# SPDX-License-Identifier: Apache-2.0
"""Attention: keys that are padding are masked."""

import math
from typing import Any

import torch

from torch_neuronx.lowering import Operand
from torch_neuronx.padding_rules.call import Axes, Call
from torch_neuronx.padding_rules.table import rule

aten = torch.ops.aten


def _attention_operands(call: Call) -> tuple[Axes, Axes]:
    """Makes keys that are padding invisible; the axes of queries and keys."""
    emitter = call.emitter
    query, key, value = (call.axes(call[name]) for name in ("query", "key", "value"))
    if any(call.is_padded(axes[-1]) for axes in (query, key, value)):
        call.refuse("the width of heads is padded")
    heads = call.is_padded(query[1]) or call.is_padded(key[1])
    batch = 2 if heads else 1
    if query[:batch] != key[:batch] or key[:-1] != value[:-1]:
        call.refuse("its operands' dimensions are not the same")
    for axis in (*query[:-1], key[-2]):
        if len(axis) > 1:
            call.refuse("the dimension is part of a flattened one")
    for name in ("query", "key", "value"):
        call.fill(name, 0)
    if not call.is_padded(key[-2]) or (call["is_causal"] and key[-2] == query[-2]):
        # A true query sees no key behind it, so none that is padding.
        if bias := _bias(call):
            call.fill(bias, 0)
        return query, key
    keys = emitter.size(*key[-2])
    hidden = emitter.invalid(((), (), key[-2], ()))
    hidden = emitter.op(aten.view.default, hidden, [1, 1, 1, keys])
    if call["is_causal"]:
        rows = emitter.arange(call["query"].fake.shape[-2])
        rows = emitter.op(aten.view.default, rows, [1, 1, -1, 1])
        behind = emitter.op(aten.gt.Tensor, emitter.arange(keys), rows)
        hidden = emitter.either(hidden, behind)
        call.values["is_causal"] = False
    bias = _bias(call)
    if bias is None:
        with emitter.mode:
            fake = torch.empty(
                hidden.fake.shape, dtype=call["query"].fake.dtype, device="neuron:0"
            )
        given = emitter.full(fake, 0)
    else:
        given = call[bias]
        if given.fake.shape[-1] != 1 and call.axes(given)[-1] != key[-2]:
            call.refuse("its operands' dimensions are not the same")
        given = emitter.fill(given, 0)
    rows = call.axes(given)
    biased = emitter.op(aten.masked_fill.Scalar, given, hidden, -math.inf)
    call.values["attn_bias"] = call.mark(biased, [*rows[:-1], key[-2]])
    return query, key


def _bias(call: Call) -> str | None:
    return "attn_bias" if isinstance(call["attn_bias"], Operand) else None


_ATTENTION_SIZES = ("max_q", "max_k")


@rule(aten._scaled_dot_product_fused_attention_overrideable.default)
def _attention(call: Call) -> Any:
    query, _ = _attention_operands(call)
    value = call.axes(call["value"])
    if call["dropout_p"] > 0:
        call.refuse("its dropout draws by position")
    results = call.emit()
    call.mark(results[0], [*query[:-1], value[-1]])
    call.mark(results[1], query[:-1])
    return results


@rule(
    aten._scaled_dot_product_fused_attention_overrideable_backward.default,
    sizes=_ATTENTION_SIZES,
)
def _attention_backward(call: Call) -> Any:
    query, key = _attention_operands(call)
    value = call.axes(call["value"])
    if call["dropout_p"] > 0:
        call.refuse("its dropout draws by position")
    call.align((*query[:-1], value[-1]), "grad_out", "out")
    for name in ("grad_out", "out", "logsumexp"):
        call.fill(name, 0)
    results = call.emit()
    for result, axes in zip(results, (query, key, value), strict=False):
        if result is not None:
            call.mark(result, axes)
    if len(results) > 3 and results[3] is not None:
        call.mark(results[3], call.axes(call["attn_bias"]))
    return results
