# SPDX-License-Identifier: Apache-2.0
"""One operator of a graph with padded operands: what is known of these, and what a
rule may do with them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import sympy
import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.utils._pytree import tree_leaves

from torch_neuronx.lowering import Operand

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


def single(call: Call, axis: Axis) -> Any:
    if len(axis) != 1:
        call.refuse("the dimension is part of a flattened one")
    return axis[0]
