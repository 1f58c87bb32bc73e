# SPDX-License-Identifier: Apache-2.0
"""Parts of a dimension, gathers and scatters."""

from typing import Any

import sympy
import torch

from torch_neuronx.lowering import Operand
from torch_neuronx.padding_rules.call import Axes, Call, Padding, broadcast, single
from torch_neuronx.padding_rules.table import rule

aten = torch.ops.aten


@rule(aten.slice.Tensor, sizes=("start", "end"))
def _slice(call: Call) -> Any:
    x, emitter = call["self"], call.emitter
    axes = list(call.axes(x))
    dim = call["dim"] % len(axes)
    pad = call.padding(x)
    length = emitter.expression(call.node.meta["val"].shape[dim])
    start = call.size("start") or sympy.Integer(0)
    if not call.is_padded(axes[dim]):
        if emitter.is_padded(start):
            if emitter.is_padded(length) or call["step"] != 1:
                call.refuse("it starts where the size says")
            return _pick(call, x, dim, start, length)
        axes[dim] = (length,)
        n, have = emitter.size(length), x.fake.shape[dim] - emitter.size(start)
        if emitter.is_padded(length) and (n - 1) * call["step"] >= have:
            if call["step"] != 1:
                call.refuse("it steps over the end")
            with emitter.mode:
                fake = x.fake.narrow(dim, emitter.size(start), have)
            call.values["end"] = 2**63 - 1
            short = call.emit(result=fake)
            amounts = [0, 0] * (len(axes) - dim)
            amounts[-1] = n - have
            result = emitter.op(aten.constant_pad_nd.default, short, amounts, 0)
        else:
            result = call.emit()
        # True elements of the table are behind the size.
        known = pad is not None and not emitter.is_padded(length)
        return call.mark(result, axes, pad.fill if known else None)
    assert pad is not None
    size = single(call, axes[dim])
    if start.is_negative:
        start = size + start
    if emitter.is_padded(start):
        if emitter.is_padded(length) or call["step"] != 1:
            call.refuse("it starts where the size says")
        return _pick(call, x, dim, start, length)
    axes[dim] = (length,)
    # Cut at the end, true elements become padding.
    to_the_end = call["step"] == 1 and sympy.expand(size - start - length) == 0
    known = to_the_end or not emitter.is_padded(length)
    return call.mark(call.emit(), axes, pad.fill if known else None)


@rule(aten.select.int, sizes=("index",))
def _select(call: Call) -> Any:
    x = call["self"]
    axes = list(call.axes(x))
    dim = call["dim"] % len(axes)
    index = call.size("index")
    if call.is_padded(axes[dim]) and index.is_negative:
        index = single(call, axes[dim]) + index
    if not call.emitter.is_padded(index):
        if call.is_padded(axes[dim]):
            single(call, axes[dim])
        pad = call.padding(x)
        del axes[dim]
        return call.mark(call.emit(), axes, pad.fill if pad else None)
    row = _pick(call, x, dim, index, sympy.Integer(1))
    result = call.emitter.op(aten.squeeze.dim, row, dim)
    del axes[dim]
    return call.mark(result, axes)


def _pick(call: Call, x: Operand, dim: int, start: Any, length: Any) -> Operand:
    """``length`` elements from a start that is known at run time."""
    emitter = call.emitter
    axes = list(call.axes(x))
    index = emitter.arange(int(length))
    index = emitter.op(aten.add.Tensor, index, emitter.number(start))
    axes[dim] = (length,)
    return call.mark(emitter.op(aten.index_select.default, x, dim, index), axes)


@rule(aten.embedding.default)
def _embedding(call: Call) -> Any:
    call.refuse_padded(("weight",), "the table is padded")
    call.fill("indices", 0)
    axes = (*call.axes(call["indices"]), *call.axes(call["weight"])[1:])
    return call.mark(call.emit(), axes)


@rule(aten.embedding_dense_backward.default)
def _embedding_backward(call: Call) -> Any:
    if call["scale_grad_by_freq"]:
        call.refuse("it counts how often an index occurs")
    width = call.axes(call["grad_output"])[-1:]
    call.align((*call.axes(call["indices"]), *width), "grad_output")
    call.fill("indices", 0)
    call.fill("grad_output", 0)
    return call.emit()


@rule(aten.index_select.default)
def _index_select(call: Call) -> Any:
    axes = list(call.axes(call["self"]))
    call.fill("index", 0)
    dim = call["dim"] % len(axes)
    if call.is_padded(axes[dim]):
        single(call, axes[dim])
    axes[dim] = call.axes(call["index"])[0]
    return call.mark(call.emit(), axes)


def _same_elsewhere(call: Call, axes: Axes, index: Axes) -> None:
    """Along other dimensions an index stands for its own position."""
    for d, (a, b) in enumerate(zip(axes, index, strict=True)):
        if call.is_padded(b) and a != b and d != call["dim"] % len(axes):
            call.refuse("its operands' dimensions are not the same")


@rule(aten.gather.default)
def _gather(call: Call) -> Any:
    axes = call.axes(call["self"])
    if axes and call.is_padded(axes[call["dim"]]):
        single(call, axes[call["dim"]])
    _same_elsewhere(call, axes, call.axes(call["index"]))
    call.fill("index", 0)
    return call.mark(call.emit(), call.axes(call["index"]))


@rule(aten.scatter_add.default)
def _scatter_add(call: Call) -> Any:
    if call.axes(call["index"]) != call.axes(call["src"]):
        call.refuse("its operands' dimensions are not the same")
    _same_elsewhere(call, call.axes(call["self"]), call.axes(call["index"]))
    call.fill("index", 0)
    call.fill("src", 0)
    return call.mark(call.emit(), call.axes(call["self"]))


@rule(aten.index.Tensor, aten._unsafe_index.Tensor)
def _index(call: Call) -> Any:
    x, indices = call["self"], call["indices"]
    emitter = call.emitter
    given = [i for i, index in enumerate(indices) if index is not None]
    if any(indices[i].fake.dtype is torch.bool for i in given):
        call.refuse("a mask selects elements")
    axes = call.axes(x)
    fixed = list(indices)
    for i in given:
        if call.is_padded(axes[i]):
            size = emitter.number(single(call, axes[i]))
            before = emitter.op(aten.lt.Scalar, fixed[i], 0)
            around = emitter.op(aten.add.Tensor, fixed[i], size)
            pad = call.padding(fixed[i])
            fixed[i] = emitter.op(aten.where.self, before, around, fixed[i])
            if pad:
                emitter.pads[fixed[i]] = Padding(pad.axes)
        fixed[i] = emitter.fill(fixed[i], 0)
    call.values["indices"] = fixed
    picked = broadcast(call, [fixed[i] for i in given])
    rest = [a for i, a in enumerate(axes) if i not in given]
    together = given == list(range(given[0], given[0] + len(given)))
    at = given[0] if together else 0
    return call.mark(call.emit(), [*rest[:at], *picked, *rest[at:]])


@rule(aten.index_put.default, aten._unsafe_index_put.default)
def _index_put(call: Call) -> Any:
    indices = [i for i in call["indices"] if i is not None]
    if any(map(call.padding, indices)) or call.padding(call["values"]):
        if not call["accumulate"]:
            call.refuse("padding would be written")
        call.fill("values", 0)
        call.values["indices"] = [
            i if i is None else call.emitter.fill(i, 0) for i in call["indices"]
        ]
        shape = broadcast(call, indices)
        free = call["self"].fake.dim() - len(indices)
        if call.padding(call["self"]) or (
            call.axes(call["values"])[: len(shape)] != shape and free >= 0
        ):
            call.refuse("its operands' dimensions are not the same")
        return call.emit()
    for i in call.padded_dims(call["self"]):
        if i < len(call["indices"]) and call["indices"][i] is not None:
            call.refuse("negative indices would count from the padding")
    return call.mark(call.emit(), call.axes(call["self"]))


@rule(aten.slice_scatter.default, sizes=("start", "end"))
def _slice_scatter(call: Call) -> Any:
    base, source, emitter = call["self"], call["src"], call.emitter
    axes = call.axes(base)
    dim = call["dim"] % len(axes)
    start = call.size("start") or sympy.Integer(0)
    end = call.size("end")
    along = call.axes(source)[dim]
    others = [
        a == b
        for d, (a, b) in enumerate(zip(axes, call.axes(source), strict=True))
        if d != dim
    ]
    if not all(others) or emitter.is_padded(start) or start.is_negative:
        call.refuse("its operands' dimensions are not the same")
    if axes[dim] == along and start == 0 and call["step"] == 1:
        return source
    if not call.is_padded(axes[dim]) and not call.is_padded(along):
        if end is not None and emitter.is_padded(end):
            call.refuse("it ends where the size says")
        return call.mark(call.emit(), axes)
    if call.is_padded(axes[dim]) or call["step"] != 1:
        call.refuse("its operands' dimensions are not the same")
    # The true rows of the source, over those of the base.
    size, room = single(call, along), base.fake.shape[dim] - int(start)
    have = emitter.size(size)
    if have > room:
        source = emitter.op(aten.slice.Tensor, source, dim, 0, room)
    amounts = [0, 0] * (len(axes) - dim)
    amounts[-2:] = [int(start), max(0, room - have)]
    source = emitter.op(aten.constant_pad_nd.default, source, amounts, 0)
    index = emitter.arange(base.fake.shape[dim])
    inside = emitter.op(aten.lt.Tensor, index, emitter.number(start + size))
    if start != 0:
        after = emitter.op(aten.ge.Scalar, index, int(start))
        inside = emitter.op(aten.logical_and.default, inside, after)
    shape = [1] * len(axes)
    shape[dim] = base.fake.shape[dim]
    inside = emitter.op(aten.view.default, inside, shape)
    return call.mark(emitter.op(aten.where.self, inside, source, base), axes)


@rule(aten.slice_backward.default, sizes=("input_sizes", "start", "end"))
def _slice_backward(call: Call) -> Any:
    axes = list(call.axes(call["grad_output"]))
    dim = call["dim"] % len(axes)
    size = call.emitter.expression(call.node.meta["val"].shape[dim])
    start = call.size("start") or sympy.Integer(0)
    if call.is_padded(axes[dim]):
        single(call, axes[dim])
    if call.emitter.is_padded(start) or (
        start.is_negative and call.emitter.is_padded(size)
    ):
        call.refuse("it starts where the size says")
    call.fill("grad_output", 0)
    fill = 0 if call.padded_dims(call["grad_output"]) in ([], [dim]) else None
    if call.is_padded(axes[dim]) and not call.emitter.is_padded(size):
        # Of a table that was cut to the size; the bucket may be larger than it.
        room = int(size - start)
        if start.is_negative or call["step"] != 1:
            call.refuse("it starts where the size says")
        if call["grad_output"].fake.shape[dim] > room:
            call.values["grad_output"] = call.emitter.op(
                aten.slice.Tensor, call["grad_output"], dim, 0, room
            )
            call.values["end"] = int(size)
    axes[dim] = (size,)
    return call.mark(call.emit(), axes, fill)


@rule(aten.select_backward.default, sizes=("input_sizes",))
def _select_backward(call: Call) -> Any:
    axes = list(call.axes(call["grad_output"]))
    fake = call.node.meta["val"]
    dim = call["dim"] % fake.dim()
    size = call.emitter.expression(fake.shape[dim])
    axes.insert(dim, (size,))
    if call["index"] >= 0 or not call.emitter.is_padded(size):
        return call.mark(call.emit(), axes)
    emitter = call.emitter
    index = emitter.arange(emitter.size(size))
    here = emitter.op(aten.eq.Tensor, index, emitter.number(size + call["index"]))
    shape = [1] * fake.dim()
    shape[dim] = emitter.size(size)
    here = emitter.op(aten.view.default, here, shape)
    gradient = emitter.op(aten.unsqueeze.default, call["grad_output"], dim)
    zero = emitter.op(aten.zeros_like.default, gradient)
    return call.mark(emitter.op(aten.where.self, here, gradient, zero), axes)
