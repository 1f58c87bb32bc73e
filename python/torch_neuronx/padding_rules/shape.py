# SPDX-License-Identifier: Apache-2.0
"""Views, concatenation and what else moves elements by their position."""

from collections.abc import Sequence
from typing import Any

import sympy
import torch

from torch_neuronx.padding_rules.call import (
    Axis,
    Call,
    Padding,
    broadcast,
    product,
    single,
)
from torch_neuronx.padding_rules.table import rule

aten = torch.ops.aten


@rule(
    aten._reshape_alias.default,
    aten._reshape_copy.default,
    aten._unsafe_view.default,
    aten.reshape.default,
    aten.view.default,
    aten.view_copy.default,
    sizes=("size", "shape", "stride"),
)
def _view(call: Call) -> Any:
    pad = call.padding(call["self"])
    assert pad is not None
    wanted = [call.emitter.expression(n) for n in call.node.meta["val"].shape]
    axes = _regroup(call, pad, wanted)
    return call.mark(call.emit(), axes, pad.fill, pad.uniform)


def _regroup(call: Call, pad: Padding, wanted: Sequence[Any]) -> list[Axis]:
    """The same sizes in other groups."""
    if pad.uniform:
        return [call.emitter.factors(expression) for expression in wanted]
    queue = [f for axis in pad.axes for f in axis]
    result = []
    for expression in wanted:
        axis: list[Any] = []
        rest = sympy.factor(expression)
        while rest != 1:
            if not queue:
                call.refuse("it splits the dimension")
            factor = queue[0]
            quotient = sympy.cancel(rest / factor)
            if sympy.fraction(quotient)[1] == 1:
                queue.pop(0)
            elif not call.emitter.is_padded(factor):
                # Part of a size without padding.
                part = rest.as_coeff_Mul()[0]
                if part == 1 or factor % part != 0:
                    call.refuse("it splits the dimension")
                queue[0], factor = factor // part, part
                quotient = sympy.cancel(rest / part)
            else:
                call.refuse("it splits the dimension")
            axis.append(factor)
            rest = quotient
        result.append(tuple(axis))
    return result


@rule(aten.permute.default)
def _permute(call: Call) -> Any:
    pad, rank = call.padding(call["self"]), call["self"].fake.dim()
    axes = [pad.axes[d % rank] for d in call["dims"]]
    return call.mark(call.emit(), axes, pad.fill, pad.uniform)


@rule(aten.transpose.int, aten.t.default)
def _transpose(call: Call) -> Any:
    pad = call.padding(call["self"])
    axes = list(pad.axes)
    if axes:
        a, b = call.values.get("dim0", 0), call.values.get("dim1", len(axes) - 1)
        axes[a], axes[b] = axes[b], axes[a]
    return call.mark(call.emit(), axes, pad.fill, pad.uniform)


@rule(aten.unsqueeze.default)
def _unsqueeze(call: Call) -> Any:
    pad = call.padding(call["self"])
    axes = list(pad.axes)
    axes.insert(call["dim"] % (len(axes) + 1), ())
    return call.mark(call.emit(), axes, pad.fill, pad.uniform)


@rule(aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims)
def _squeeze(call: Call) -> Any:
    pad = call.padding(call["self"])
    dims = call.dims(call["self"])
    axes = [a for d, a in enumerate(pad.axes) if d not in dims or a != ()]
    return call.mark(call.emit(), axes, pad.fill, pad.uniform)


@rule(aten.expand.default, aten.expand_copy.default, sizes=("size",))
def _expand(call: Call) -> Any:
    pad = call.padding(call["self"])
    fake = call.node.meta["val"]
    old = call.axes(call["self"])
    axes = list(call.emitter.guess(fake))
    lead = len(axes) - len(old)
    for d, axis in enumerate(old):
        if axis != ():
            axes[lead + d] = axis
    uniform = pad is None or pad.uniform
    same = [a != () or () == b for a, b in zip(old, axes[lead:], strict=True)]
    fill = pad.fill if pad and all(same) else None
    return call.mark(call.emit(), axes, fill, uniform)


@rule(aten.repeat.default)
def _repeat(call: Call) -> Any:
    pad = call.padding(call["self"])
    repeats = call["repeats"]
    lead = len(repeats) - len(pad.axes)
    axes: list[Axis] = [(sympy.Integer(n),) for n in repeats[:lead]]
    for n, axis in zip(repeats[lead:], pad.axes, strict=True):
        if n != 1 and call.is_padded(axis):
            call.refuse("it repeats the dimension")
        axes.append((*axis, sympy.Integer(n)))
    return call.mark(call.emit(), axes, pad.fill)


@rule(aten.cat.default, aten.stack.default)
def _cat(call: Call) -> Any:
    tensors = call["tensors"]
    fake = call.node.meta["val"]
    dim = call["dim"] % fake.dim()
    if call.op is aten.stack.default:
        axes = list(broadcast(call, tensors))
        axes.insert(dim, (sympy.Integer(len(tensors)),))
        return call.mark(call.emit(), axes)
    # Empty lists, 1-D, are no operands.
    tensors = [x for x in tensors if x.fake.dim() == fake.dim()]
    others = [[a for d, a in enumerate(call.axes(x)) if d != dim] for x in tensors]
    if any(other != others[0] for other in others):
        call.refuse("its operands' dimensions are not the same")
    along = [call.axes(x)[dim] for x in tensors]
    if any(map(call.is_padded, along[:-1])):
        call.refuse("it puts elements behind the padding")
    if call.is_padded(along[-1]):
        single(call, along[-1])
    axes = list(others[0])
    axes.insert(dim, (call.emitter.expression(fake.shape[dim]),))
    return call.mark(call.emit(), axes)


@rule(
    aten.split.Tensor,
    aten.split_with_sizes.default,
    aten.unbind.int,
)
def _split(call: Call) -> Any:
    x = call["self"]
    dim = call["dim"] % x.fake.dim()
    if call.is_padded(call.axes(x)[dim]):
        call.refuse("it splits the dimension")
    results = call.emit()
    for result in results:
        axes = list(call.axes(x))
        if call.op is aten.unbind.int:
            del axes[dim]
        else:
            axes[dim] = (sympy.Integer(result.fake.shape[dim]),)
        call.mark(result, axes, call.padding(x).fill)
    return results


@rule(aten.constant_pad_nd.default)
def _constant_pad(call: Call) -> Any:
    x, amounts = call["self"], call["pad"]
    axes = list(call.axes(x))
    for d in call.padded_dims(x):
        behind = 2 * (len(axes) - 1 - d)
        if any(amounts[behind : behind + 2]):
            if any(n < 0 for n in amounts[behind : behind + 2]):
                call.refuse("it cuts the dimension")
            single(call, axes[d])
    call.fill("self", call["value"])
    shape = call.node.meta["val"].shape
    sizes = [call.emitter.expression(n) for n in shape]
    changed = [
        axis if product(axis) == n else (n,)
        for axis, n in zip(axes, sizes, strict=True)
    ]
    # Where another dimension was padded too, its own padding may be anything.
    return call.mark(call.emit(), changed)


@rule(aten.tril.default, aten.triu.default)
def _triangle(call: Call) -> Any:
    pad = call.padding(call["self"])
    for axis in pad.axes[-2:]:
        if call.is_padded(axis):
            single(call, axis)
    return call.mark(call.emit(), pad.axes, 0 if pad.fill == 0 else None)
