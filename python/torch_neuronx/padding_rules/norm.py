# SPDX-License-Identifier: Apache-2.0
"""Normalisation over other dimensions than the padded ones."""

from typing import Any

import sympy
import torch

from torch_neuronx.padding_rules.call import Call
from torch_neuronx.padding_rules.table import rule

aten = torch.ops.aten


@rule(aten.native_layer_norm.default)
def _layer_norm(call: Call) -> Any:
    axes = call.axes(call["input"])
    rank = len(call["normalized_shape"])
    if any(map(call.is_padded, axes[len(axes) - rank :])):
        call.refuse("it normalises over the dimension")
    out, mean, rstd = results = call.emit()
    call.mark(out, axes)
    for statistic in (mean, rstd):
        call.mark(statistic, [*axes[: len(axes) - rank], *[()] * rank])
    return results


@rule(aten.native_layer_norm_backward.default)
def _layer_norm_backward(call: Call) -> Any:
    axes = call.axes(call["input"])
    rank = len(call["normalized_shape"])
    if any(map(call.is_padded, axes[len(axes) - rank :])):
        call.refuse("it normalises over the dimension")
    call.align(axes, "grad_out")
    for name in ("grad_out", "input", "mean", "rstd"):
        call.fill(name, 0)
    results = call.emit()
    if results[0] is not None:
        call.mark(results[0], axes)
    return results


@rule(aten.native_group_norm.default, sizes=("N",))
def _group_norm(call: Call) -> Any:
    axes = call.axes(call["input"])
    if any(map(call.is_padded, axes[1:])):
        call.refuse("it normalises over the dimension")
    out, mean, rstd = results = call.emit()
    call.mark(out, axes)
    for statistic in (mean, rstd):
        call.mark(statistic, [axes[0], (sympy.Integer(call["group"]),)])
    return results


@rule(aten._native_batch_norm_legit_no_training.default)
def _batch_norm(call: Call) -> Any:
    call.refuse_padded(("weight", "running_mean"), "channels are padded")
    results = call.emit()
    call.mark(results[0], call.axes(call["input"]))
    return results
