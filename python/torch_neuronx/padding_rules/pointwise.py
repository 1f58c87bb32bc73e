# SPDX-License-Identifier: Apache-2.0
"""Pointwise operators: padding stays where it is."""

from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from torch_neuronx.lowering import Operand
from torch_neuronx.padding_rules.call import Call, broadcast

aten = torch.ops.aten

POINTWISE = {
    aten._to_copy.default,
    aten.alias.default,
    aten.alias_copy.default,
    aten.clone.default,
    aten.contiguous.default,
    aten.copy.default,
    aten.detach.default,
    aten.fill.Scalar,
    aten.fill.Tensor,
    aten.floor_divide.Scalar,
    aten.floor_divide.default,
    aten.gelu_backward.default,
    aten.hardshrink_backward.default,
    aten.hardswish.default,
    aten.hardtanh_backward.default,
    aten.leaky_relu_backward.default,
    aten.lift_fresh.default,
    aten.lift_fresh_copy.default,
    aten.masked_fill.Scalar,
    aten.masked_fill.Tensor,
    aten.native_dropout_backward.default,
    aten.rsub.Tensor,
    aten.sigmoid_backward.default,
    aten.silu_backward.default,
    aten.softshrink_backward.default,
    aten.tanh_backward.default,
    aten.threshold_backward.default,
    aten.where.Scalar,
    aten.where.ScalarOther,
    aten.where.ScalarSelf,
    aten.where.self,
}
_KEEP_ZERO = {
    aten._to_copy.default,
    aten.abs.default,
    aten.alias.default,
    aten.clone.default,
    aten.detach.default,
    aten.neg.default,
    aten.relu.default,
    aten.tanh.default,
}
# Whose second operand must not be zero where it is padding.
_DIVISIONS = {
    aten.div.Tensor_mode,
    aten.floor_divide.default,
    aten.fmod.Tensor,
    aten.remainder.Tensor,
}


def pointwise(call: Call) -> Any:
    for name in call.depending():
        call.values[name] = _number(call, name)
    if call.op in _DIVISIONS and isinstance(call["other"], Operand):
        call.fill("other", 1)
    operands = [x for x in tree_leaves(call.values) if isinstance(x, Operand)]
    axes = broadcast(call, operands)
    pads = [call.padding(x) for x in operands]
    uniform = all(p is None or p.uniform for p in pads)
    fill = None
    if call.op in _KEEP_ZERO and pads[0] and pads[0].fill == 0:
        fill = 0
    result = call.emit()
    if result in operands:
        return result
    return call.mark(result, axes, fill, uniform)


def _number(call: Call, name: str) -> Operand:
    """A number that depends on a size, as in the derivative of mean."""
    argument = next(a for a in call.schema if a.name == name)
    if "Tensor" not in str(argument.type):
        overload = {"Scalar": "Tensor", "Scalar_mode": "Tensor_mode"}
        other = overload.get(call.op._overloadname)
        if name != "other" or other is None:
            call.refuse(f"its argument {name} depends on the size")
        call.op = getattr(call.op.overloadpacket, other)
    return call.emitter.number(call.size(name))
