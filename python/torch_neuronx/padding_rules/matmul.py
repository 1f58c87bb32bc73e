# SPDX-License-Identifier: Apache-2.0
"""Matrix products: contracted dimensions get zeros, on both sides."""

from typing import Any

import torch

from torch_neuronx.padding_rules.call import Axes, Call
from torch_neuronx.padding_rules.table import rule

aten = torch.ops.aten


def _contract(call: Call, a: str, b: str, *extra: str) -> Axes:
    """Of ``[..., m, k] @ [..., k, n]``."""
    left, right = call.axes(call[a]), call.axes(call[b])
    if call.is_padded(left[-1]) or call.is_padded(right[-2 if len(right) > 1 else 0]):
        k = right[-2 if len(right) > 1 else 0]
        same = (
            left[-1] == k
            or call.adopt(a, (*left[:-1], k))
            or call.adopt(b, (*right[:-2], left[-1], *right[-1:]))
        )
        if not same:
            call.refuse("its operands' dimensions are not the same")
        call.fill(a, 0)
        call.fill(b, 0)
    batch = list(left[:-2])
    if len(right) > 2 and tuple(batch) != right[:-2]:
        call.refuse("its operands' dimensions are not the same")
    axes = tuple(batch) + left[-2:-1] + (right[-1:] if len(right) > 1 else ())
    for name in extra:
        given = call.axes(call[name])
        for axis, wanted in zip(reversed(given), reversed(axes), strict=False):
            if axis not in ((), wanted):
                call.refuse("its operands' dimensions are not the same")
    return axes


@rule(aten.mm.default, aten.bmm.default)
def _matmul(call: Call) -> Any:
    axes = _contract(call, "self", "mat2")
    return call.mark(call.emit(), axes)


@rule(aten.addmm.default)
def _addmm(call: Call) -> Any:
    axes = _contract(call, "mat1", "mat2", "self")
    return call.mark(call.emit(), axes)


@rule(aten.baddbmm.default)
def _baddbmm(call: Call) -> Any:
    axes = _contract(call, "batch1", "batch2", "self")
    return call.mark(call.emit(), axes)


@rule(aten.mv.default)
def _mv(call: Call) -> Any:
    return call.mark(call.emit(), _contract(call, "self", "vec"))


@rule(aten.dot.default)
def _dot(call: Call) -> Any:
    if call.axes(call["self"]) != call.axes(call["tensor"]):
        call.refuse("its operands' dimensions are not the same")
    call.fill("self", 0)
    call.fill("tensor", 0)
    return call.emit()
