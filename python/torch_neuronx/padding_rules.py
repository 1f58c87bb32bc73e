# SPDX-License-Identifier: Apache-2.0
"""What padding means to each operator: where a padded dimension of the operands is
in the result, and which number as padding leaves the other elements alone.

An operator without a rule here is refused.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import sympy
import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.utils._pytree import tree_leaves

from torch_neuronx import random_operators
from torch_neuronx.lowering import EMPTIES, Operand

aten = torch.ops.aten

# For each dimension the sizes that were flattened to it, outermost first, as
# expressions of true sizes. Of each size the first elements are true.
Axis = tuple[Any, ...]
Axes = tuple[Axis, ...]


@dataclass(frozen=True)
class Padding:
    """What is known of a value that has padding.

    Args:
        fill: the number that all padding has; None if that is not known.
        uniform: padding has what the true elements along it have.
    """

    axes: Axes
    fill: float | None = None
    uniform: bool = False


def product(axis: Axis) -> Any:
    return reduce(lambda a, b: a * b, axis, sympy.Integer(1))


def normal(axis: Axis, is_padded: Callable[[Any], bool]) -> Axis:
    """Neighbours without padding are one, and ones are none."""
    result: list[Any] = []
    for factor in axis:
        if factor == 1:
            continue
        if result and not is_padded(factor) and not is_padded(result[-1]):
            result[-1] = result[-1] * factor
        else:
            result.append(factor)
    return tuple(result)


class Call:
    """One operator of the graph with its operands."""

    def __init__(
        self, emitter: Any, node: Node, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> None:
        self.emitter = emitter
        self.node = node
        self.op: OpOverload = node.target  # type: ignore[assignment]
        self.schema = self.op._schema.arguments
        names = [argument.name for argument in self.schema]
        self.values = {a.name: a.default_value for a in self.schema}
        self.values.update(zip(names, args, strict=False))
        self.values.update(kwargs)
        self.raw = dict(self.values)
        self.raw.update(zip(names, node.args, strict=False))
        self.raw.update(node.kwargs)
        self.given = {*names[: len(args)], *kwargs}

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    # What is known

    def padding(self, value: Any) -> Padding | None:
        return self.emitter.pads.get(value) if isinstance(value, Operand) else None

    def axes(self, value: Operand) -> Axes:
        if pad := self.padding(value):
            return pad.axes
        return tuple(() if n == 1 else (sympy.Integer(n),) for n in value.fake.shape)

    def is_padded(self, axis: Axis) -> bool:
        return any(map(self.emitter.is_padded, axis))

    def padded_dims(self, value: Any) -> list[int]:
        pad = self.padding(value)
        return [d for d, a in enumerate(pad.axes) if self.is_padded(a)] if pad else []

    def size(self, name: str) -> Any:
        """A number of the call as an expression of true sizes; None for None."""
        raw = self.raw[name]
        raw = raw.meta["val"] if isinstance(raw, Node) else raw
        return raw if raw is None else self.emitter.expression(raw)

    def depending(self) -> list[str]:
        """Arguments that are numbers which have to do with padded sizes."""
        return [name for name, raw in self.raw.items() if self.numbers(raw)]

    def numbers(self, raw: Any) -> list[Any]:
        return [
            leaf
            for leaf in tree_leaves(raw)
            if isinstance(leaf, Node)
            and not isinstance(leaf.meta.get("val"), (torch.Tensor, list, tuple))
            and self.emitter.depends(leaf.meta.get("val"))
        ]

    def dims(self, value: Operand, name: str = "dim") -> list[int]:
        """Which dimensions a reduction runs over."""
        dim = self.values.get(name)
        rank = value.fake.dim()
        if dim is None or dim == []:
            return list(range(rank))
        return [d % rank for d in (dim if isinstance(dim, (list, tuple)) else [dim])]

    # What is done

    def refuse(self, reason: str) -> None:
        raise self.emitter.refusal(reason)

    def refuse_padded(self, names: Sequence[str], why: str) -> None:
        for name in names:
            if any(map(self.padded_dims, tree_leaves(self.values.get(name)))):
                self.refuse(why)

    def fill(self, name: str, number: float) -> None:
        self.values[name] = self.emitter.fill(self.values[name], number)

    def adopt(self, name: str, axes: Axes) -> bool:
        """Takes ``axes`` for the operand's, which is allowed if it is uniform."""
        pad = self.padding(self.values[name])
        if pad is None or not pad.uniform:
            return False
        self.emitter.pads[self.values[name]] = Padding(axes, pad.fill, True)
        return True

    def align(self, axes: Axes, *names: str) -> None:
        """Padding is said for several operands at once: it has to be in one place."""
        for name in names:
            if self.axes(self[name]) != axes and not self.adopt(name, axes):
                self.refuse("its operands' dimensions are not the same")

    def emit(self, op: OpOverload | None = None, result: Any = None) -> Any:
        op = op or self.op
        args, kwargs = [], {}
        for argument in op._schema.arguments:
            value = self.values[argument.name]
            if not argument.kwarg_only:
                args.append(value)
            elif argument.name in self.given:
                kwargs[argument.name] = value
        if result is None:
            result = self.meta()
        return self.emitter.call(op, args, kwargs, result)

    def meta(self) -> Any:
        return self.emitter.meta(self.node)

    def mark(
        self, result: Any, axes: Any, fill: float | None = None, uniform: bool = False
    ) -> Any:
        """Says what the result's dimensions are."""
        normals = tuple(normal(tuple(a), self.emitter.is_padded) for a in axes)
        if any(map(self.is_padded, normals)):
            self.emitter.pads[result] = Padding(normals, fill, uniform)
        return result


Rule = Callable[[Call], Any]
# With the arguments that may be numbers which depend on padded sizes.
_RULES: dict[OpOverload, tuple[Rule, frozenset[str]]] = {}


def rule(*ops: OpOverload, sizes: Sequence[str] = ()) -> Callable[[Rule], Rule]:
    def add(function: Rule) -> Rule:
        _RULES.update(dict.fromkeys(ops, (function, frozenset(sizes))))
        return function

    return add


def apply(call: Call) -> Any:
    op = call.op
    if op in _RULES:
        function, sizes = _RULES[op]
    elif op in EMPTIES or op.name() in _CREATIONS:
        function, sizes = _create, frozenset({"size", "stride"})
    elif op in random_operators.RULES:
        function, sizes = _draw, frozenset({"size"})
    elif torch.Tag.pointwise in op.tags or op in _POINTWISE:
        function, sizes = _pointwise, frozenset(a.name for a in call.schema)
    else:
        raise call.emitter.refusal("there is no rule that makes it safe")
    if more := set(call.depending()) - sizes:
        call.refuse(f"its argument {min(more)} depends on the size")
    return function(call)


# Pointwise

_POINTWISE = {
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


def _pointwise(call: Call) -> Any:
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


def broadcast(call: Call, operands: Sequence[Operand]) -> Axes:
    """The axes of a pointwise operator's result."""
    rank = max((x.fake.dim() for x in operands), default=0)
    result: list[Axis] = [()] * rank
    certain = [False] * rank
    for operand in operands:
        pad = call.padding(operand)
        uniform = pad is not None and pad.uniform
        axes = call.axes(operand)
        for d, axis in enumerate(axes, rank - len(axes)):
            axis = normal(axis, call.emitter.is_padded)
            if axis == () or (certain[d] and uniform):
                continue
            if certain[d] and result[d] != axis:
                call.refuse("its operands' dimensions are not the same")
            result[d] = axis
            certain[d] = not uniform
    return tuple(result)


# Creation

_CREATIONS = {
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


def _create(call: Call) -> Any:
    guess = call.emitter.guess(call.node.meta["val"])
    like = call.values.get("self")
    if isinstance(like, Operand) and like.fake.shape == call.meta().shape:
        guess = call.axes(like)
    return call.mark(call.emit(), guess, uniform=True)


def _draw(call: Call) -> Any:
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


# Shapes


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


def _single(call: Call, axis: Axis) -> Any:
    if len(axis) != 1:
        call.refuse("the dimension is part of a flattened one")
    return axis[0]


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
    size = _single(call, axes[dim])
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
        index = _single(call, axes[dim]) + index
    if not call.emitter.is_padded(index):
        if call.is_padded(axes[dim]):
            _single(call, axes[dim])
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
        _single(call, along[-1])
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
            _single(call, axes[d])
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
            _single(call, axis)
    return call.mark(call.emit(), pad.axes, 0 if pad.fill == 0 else None)


# Reductions

_NEUTRAL = {
    aten.all: 1,
    aten.amax: -math.inf,
    aten.amin: math.inf,
    aten.any: 0,
    aten.argmax: -math.inf,
    aten.argmin: math.inf,
    aten.max: -math.inf,
    aten.min: math.inf,
    aten.prod: 1,
    aten.sum: 0,
}


@rule(
    *(getattr(p, o) for p in _NEUTRAL for o in p.overloads() if "out" not in o),
)
def _reduce(call: Call) -> Any:
    x = call.values.get("self")
    if not isinstance(x, Operand) or "other" in call.values:
        return _pointwise(call)
    dims = call.dims(x)
    axes = call.axes(x)
    packet = call.op.overloadpacket
    over = [d for d in dims if call.is_padded(axes[d])]
    if over:
        positions = (
            packet in (aten.argmax, aten.argmin) or len(call.op._schema.returns) > 1
        )
        everywhere = call.values.get("dim") is None and over != [0]
        if positions and (everywhere or any(len(axes[d]) > 1 for d in over)):
            call.refuse("it counts positions over padding")
        call.fill("self", _NEUTRAL[packet])
    results = call.emit()
    _mark_reduced(call, results, axes, dims)
    return results


def _mark_reduced(call: Call, results: Any, axes: Axes, dims: Sequence[int]) -> None:
    keep = call.values.get("keepdim", False)
    left = [() if d in dims else a for d, a in enumerate(axes) if keep or d not in dims]
    for result in results if isinstance(results, list | tuple) else [results]:
        call.mark(result, left)


def _count(call: Call, axes: Axes, dims: Sequence[int]) -> Operand:
    return call.emitter.number(product([f for d in dims for f in axes[d]]))


@rule(aten.mean.default, aten.mean.dim)
def _mean(call: Call) -> Any:
    x, emitter = call["self"], call.emitter
    dims, axes = call.dims(x), call.axes(x)
    if not any(call.is_padded(axes[d]) for d in dims):
        result = call.emit()
    else:
        meta = call.meta()
        x = emitter.fill(x, 0)
        x = emitter.op(aten._to_copy.default, x, dtype=_wide(meta.dtype))
        result = emitter.op(
            aten.sum.dim_IntList, x, dims, call.values.get("keepdim", False)
        )
        result = emitter.op(aten.div.Tensor, result, _count(call, axes, dims))
        result = _narrow(call, result, meta)
    _mark_reduced(call, result, axes, dims)
    return result


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def _narrow(call: Call, value: Operand, meta: torch.Tensor) -> Operand:
    if value.fake.dtype == meta.dtype:
        return value
    return call.emitter.op(aten._to_copy.default, value, dtype=meta.dtype)


@rule(aten.var.correction, aten.std.correction, aten.var_mean.correction)
def _variance(call: Call) -> Any:
    x, emitter = call["self"], call.emitter
    dims, axes = call.dims(x), call.axes(x)
    if not any(call.is_padded(axes[d]) for d in dims):
        results = call.emit()
        _mark_reduced(call, results, axes, dims)
        return results
    metas = tree_leaves(call.meta())
    correction = 1 if call["correction"] is None else call["correction"]
    count = _count(call, axes, dims)
    x = emitter.op(
        aten._to_copy.default, emitter.fill(x, 0), dtype=_wide(metas[0].dtype)
    )
    total = emitter.op(aten.sum.dim_IntList, x, dims, True)
    mean = emitter.op(aten.div.Tensor, total, count)
    apart = emitter.op(aten.sub.Tensor, x, mean)
    emitter.pads[apart] = Padding(axes)
    apart = emitter.fill(apart, 0)
    square = emitter.op(aten.mul.Tensor, apart, apart)
    square = emitter.op(aten.sum.dim_IntList, square, dims, call["keepdim"])
    left = emitter.op(aten.sub.Scalar, count, correction)
    result = emitter.op(
        aten.div.Tensor, square, emitter.op(aten.clamp_min.default, left, 0)
    )
    if call.op is aten.std.correction:
        result = emitter.op(aten.sqrt.default, result)
    results = [_narrow(call, result, metas[0])]
    if len(metas) > 1:
        mean = emitter.op(aten.reshape.default, mean, list(metas[1].shape))
        results.append(_narrow(call, mean, metas[1]))
    _mark_reduced(call, results, axes, dims)
    return results if len(metas) > 1 else results[0]


@rule(aten.linalg_vector_norm.default)
def _norm(call: Call) -> Any:
    x = call["self"]
    dims, axes = call.dims(x), call.axes(x)
    if any(call.is_padded(axes[d]) for d in dims):
        if call["ord"] < 0:
            call.refuse(f"the norm of order {call['ord']} counts zeros")
        call.fill("self", 0)
    result = call.emit()
    _mark_reduced(call, result, axes, dims)
    return result


@rule(
    aten.cumsum.default,
    aten.cumprod.default,
    aten.cummax.default,
    aten.cummin.default,
    aten.logcumsumexp.default,
)
def _cumulative(call: Call) -> Any:
    """An element depends on those before it, and padding is behind."""
    axes = call.axes(call["self"])
    if axes and call.is_padded(axes[call["dim"]]):
        _single(call, axes[call["dim"]])
    results = call.emit()
    for result in results if isinstance(results, list | tuple) else [results]:
        call.mark(result, axes)
    return results


@rule(aten._softmax.default, aten._log_softmax.default)
def _softmax(call: Call) -> Any:
    x = call["self"]
    axes = call.axes(x)
    fill = None
    if axes and call.is_padded(axes[call["dim"]]):
        call.fill("self", -math.inf)
        only = call.padded_dims(x) == [call["dim"] % len(axes)]
        fill = 0 if only and call.op is aten._softmax.default else None
    return call.mark(call.emit(), axes, fill)


@rule(aten._softmax_backward_data.default, aten._log_softmax_backward_data.default)
def _softmax_backward(call: Call) -> Any:
    axes = broadcast(call, [call["grad_output"], call["output"]])
    if axes and call.is_padded(axes[call["dim"]]):
        call.fill("grad_output", 0)
        call.fill("output", 0)
    return call.mark(call.emit(), axes)


# Contractions


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
            _single(call, axes[d])
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


# Normalisation


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


# Gathers and scatters


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
        _single(call, axes[dim])
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
        _single(call, axes[call["dim"]])
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
            size = emitter.number(_single(call, axes[i]))
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
    size, room = _single(call, along), base.fake.shape[dim] - int(start)
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
        _single(call, axes[dim])
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


# Losses


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
        count = _count(call, axes, range(len(axes)))
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
        count = _count(call, axes, range(len(axes)))
        result = call.emitter.op(aten.div.Tensor, result, count)
    return call.mark(result, axes)


# Attention


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
