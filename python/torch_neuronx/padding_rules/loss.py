# SPDX-License-Identifier: Apache-2.0
"""Losses: padding is ignored, or not counted."""

from typing import Any

import torch

from torch_neuronx.padding_rules.call import Call, broadcast
from torch_neuronx.padding_rules.reduction import true_count
from torch_neuronx.padding_rules.table import rule

aten = torch.ops.aten


@rule(aten.nll_loss_forward.default)
def _nll_loss(call: Call) -> Any:
    axes = call.axes(call["self"])
    if call.is_padded(axes[-1]):
        call.refuse("classes are padded")
    call.align(axes[:-1], "target")
    call.fill("target", call["ignore_index"])
    loss, total = results = call.emit()
    if call["reduction"] == 0:
        call.mark(loss, axes[:-1])
    return results


@rule(aten.nll_loss_backward.default)
def _nll_loss_backward(call: Call) -> Any:
    axes = call.axes(call["self"])
    call.align(axes[:-1], "target")
    call.fill("target", call["ignore_index"])
    return call.mark(call.emit(), axes)


@rule(aten.mse_loss.default)
def _mse_loss(call: Call) -> Any:
    axes = broadcast(call, [call["self"], call["target"]])
    if call["reduction"] == 0:
        return call.mark(call.emit(), axes)
    call.align(axes, "self", "target")
    call.fill("self", 0)
    call.fill("target", 0)
    mean, call.values["reduction"] = call["reduction"] == 1, 2
    loss = call.emit()
    if mean:
        count = true_count(call, axes, range(len(axes)))
        loss = call.emitter.op(aten.div.Tensor, loss, count)
    return loss


@rule(aten.mse_loss_backward.default)
def _mse_loss_backward(call: Call) -> Any:
    axes = broadcast(call, [call["self"], call["target"]])
    mean = call["reduction"] == 1
    if mean:
        call.values["reduction"] = 2
    result = call.emit()
    if mean:
        count = true_count(call, axes, range(len(axes)))
        result = call.emitter.op(aten.div.Tensor, result, count)
    return call.mark(result, axes)
