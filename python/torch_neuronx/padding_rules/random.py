# SPDX-License-Identifier: Apache-2.0
"""Operators that draw random numbers."""

from typing import Any

import torch

from torch_neuronx.lowering import Operand
from torch_neuronx.padding_rules.call import Call

aten = torch.ops.aten


def draw(call: Call) -> Any:
    """The numbers of the padded shape."""
    like = call.values.get("self", call.values.get("input"))
    if isinstance(like, Operand):
        axes = call.axes(like)
    else:
        axes = call.emitter.guess(call.node.meta["val"])
    if call.op not in _DRAWN_BY_ELEMENT:
        call.refuse("it draws from what may be padding")
    results = call.emit()
    for result in results if isinstance(results, list | tuple) else [results]:
        call.mark(result, axes)
    return results


_DRAWN_BY_ELEMENT = {
    aten.bernoulli.default,
    aten.bernoulli.p,
    aten.native_dropout.default,
    aten.rand.default,
    aten.rand_like.default,
    aten.randn.default,
    aten.randn_like.default,
}
