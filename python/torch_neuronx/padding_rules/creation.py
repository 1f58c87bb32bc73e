# SPDX-License-Identifier: Apache-2.0
"""Tensors made of numbers and sizes."""

from typing import Any

import torch

from torch_neuronx.lowering import Operand
from torch_neuronx.padding_rules.call import Call
from torch_neuronx.padding_rules.table import rule

aten = torch.ops.aten

CREATIONS = {
    "aten::full",
    "aten::full_like",
    "aten::new_full",
    "aten::new_ones",
    "aten::new_zeros",
    "aten::ones",
    "aten::ones_like",
    "aten::scalar_tensor",
    "aten::zeros",
    "aten::zeros_like",
}


def create(call: Call) -> Any:
    guess = call.emitter.guess(call.node.meta["val"])
    like = call.values.get("self")
    if isinstance(like, Operand) and like.fake.shape == call.meta().shape:
        guess = call.axes(like)
    return call.mark(call.emit(), guess, uniform=True)


@rule(
    aten.arange.default,
    aten.arange.start,
    aten.arange.start_step,
    aten.eye.default,
    aten.eye.m,
    sizes=("end", "n", "m"),
)
def _arange(call: Call) -> Any:
    axes = [(call.emitter.expression(n),) for n in call.node.meta["val"].shape]
    return call.mark(call.emit(), axes)
