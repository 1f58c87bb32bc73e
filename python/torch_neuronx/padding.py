# SPDX-License-Identifier: Apache-2.0
"""Graphs whose symbolic sizes are rounded up to buckets, so that one program serves
many sizes.

Arguments are copied into buffers of the bucket's size and results cut from such: both
are plain copies and views, whose shapes need no program. In between, the program has
the bucket's sizes, and the true ones as numbers that it gets at run time. For each
value it is known which of its elements are padding; an operator that would let padding
into the others is given a neutral element there, or the graph is refused
(padding_rules).
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves, tree_map

from torch_neuronx import _C, control_flow, padding_rules
from torch_neuronx.bucketing import Bucket
from torch_neuronx.graphs import (
    Graph,
    GraphEmitter,
    GraphError,
    Settings,
    Shapes,
    Variant,
    is_dense,
)
from torch_neuronx.lowering import DEVICE, Emitter, Number, Operand, Undecomposable
from torch_neuronx.padding_rules import Axes, Call, Padding, product

aten = torch.ops.aten

_Sizes = tuple[int, ...]

# Shapes whose sizes are remembered; a plan is small.
_MAX_PLANS = 4096


class PaddedEmitter(GraphEmitter):
    """Emits a graph of which some symbols have the bucket's value."""

    def __init__(
        self,
        builder: Any,
        shapes: Shapes,
        buckets: dict[Any, Bucket],
        symbols_first: bool,
    ) -> None:
        super().__init__(builder, shapes)
        self.buckets = buckets
        self.symbols_first = symbols_first
        self.pads: dict[Operand, Padding] = {}
        self.numbers: dict[Any, int] = {}
        self.masks: dict[Axes, Operand] = {}
        self.indices: dict[tuple, Operand] = {}
        self.expressions: dict[Any, Any] = {}

    def region(self, builder: Any) -> Emitter:
        return GraphEmitter(builder, self.shapes)

    # Sizes

    def expression(self, n: Any) -> Any:
        """A size in terms of the symbols that have buckets."""
        if not isinstance(n, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return sympy.sympify(n)
        expression = n.node.expr
        if expression not in self.expressions:
            symbols = self.shapes.symbols.items()
            others = {s: v for s, v in symbols if s not in self.buckets}
            self.expressions[expression] = expression.xreplace(others)
        return self.expressions[expression]

    def is_padded(self, expression: Any) -> bool:
        return not self.buckets.keys().isdisjoint(expression.free_symbols)

    def depends(self, value: Any) -> bool:
        """Whether a number or a tensor's shape has to do with a bucket."""
        if isinstance(value, torch.Tensor):
            return any(self.depends(n) for n in value.shape)
        return isinstance(
            value, (torch.SymInt, torch.SymFloat, torch.SymBool)
        ) and self.is_padded(value.node.expr)

    def size(self, expression: Any) -> int:
        """With padding."""
        return int(expression.xreplace(self.shapes.symbols))

    def guess(self, fake: torch.Tensor) -> Axes:
        """The axes of a tensor of which only the shape is known."""
        return tuple(self.factors(self.expression(n)) for n in fake.shape)

    def factors(self, expression: Any) -> tuple:
        """``4 * s0`` as the sizes that were flattened to it."""
        number, rest = expression.as_coeff_Mul()
        symbols = sorted(rest.as_powers_dict(), key=str)
        if not all(s in self.buckets for s in symbols):
            return padding_rules.normal((expression,), self.is_padded)
        order = [*symbols, number] if self.symbols_first else [number, *symbols]
        return padding_rules.normal(tuple(order), self.is_padded)

    def number(self, expression: Any) -> Operand:
        """A true size or what is computed of it, at run time."""
        floating = not expression.is_integer
        dtype = torch.float32 if floating else torch.int64
        fake = self.fake(lambda: torch.empty((), dtype=dtype, device=DEVICE))
        if not self.is_padded(expression):
            return self.full(fake, float(expression) if floating else int(expression))
        if expression not in self.numbers:
            self.numbers[expression] = self.builder.number_parameter(floating)
        return Operand(self.numbers[expression], fake)

    def fake(self, function: Callable[[], Any]) -> Any:
        with self.mode:
            return function()

    # Operators

    def op(self, op: OpOverload, *args: Any, **kwargs: Any) -> Operand:
        """Adds an operator that the graph does not have."""
        fakes = tree_map(lambda x: x.fake if isinstance(x, Operand) else x, args)
        result = self.fake(lambda: op(*fakes, **kwargs))
        return self.call(op, args, kwargs, result)

    def arange(self, n: int) -> Operand:
        return self.op(
            aten.arange.start_step, 0, n, 1, dtype=torch.int64, device=DEVICE
        )

    def node(self, node: Node, args: Any, kwargs: dict[str, Any], depth: int) -> Any:
        target = node.target
        if depth or not isinstance(target, (OpOverload, HigherOrderOperator)):
            return super().node(node, args, kwargs, depth)
        self.current = node
        if target is aten.copy_.default:
            return self.overwrite(*args[:2])
        if not self.touches(node, args, kwargs):
            return super().node(node, args, kwargs, depth)
        if isinstance(target, HigherOrderOperator):
            if target is control_flow.invoke_subgraph:
                return super().node(node, args, kwargs, depth)
            raise self.refusal(f"{target.name()} gets it")
        value = node.meta.get("val")
        if isinstance(value, (int, float, torch.SymInt, torch.SymFloat, torch.SymBool)):
            return self.shapes.number(value)
        args, kwargs = tree_map(self.shapes.number, (args, kwargs))
        result = padding_rules.apply(Call(self, node, args, kwargs))
        self.verify(node, result)
        return result

    def touches(self, node: Node, args: Any, kwargs: Any) -> bool:
        given = tree_leaves((args, kwargs))
        raw = [n.meta.get("val") for n in node.all_input_nodes]
        made = tree_leaves(node.meta.get("val"))
        return any(isinstance(x, Operand) and x in self.pads for x in given) or any(
            self.depends(x) for x in (*tree_leaves(raw), *made)
        )

    def verify(self, node: Node, result: Any) -> None:
        """What is known of the result has the graph's shape."""
        leaves = tree_leaves(node.meta["val"], is_leaf=lambda x: x is None)
        found = tree_leaves(result, is_leaf=lambda x: x is None)
        for fake, operand in zip(leaves, found, strict=True):
            if not isinstance(fake, torch.Tensor) or not isinstance(operand, Operand):
                continue
            pad = self.pads.get(operand)
            if pad is None:
                if self.depends(fake):
                    raise self.refusal("its result is not followed")
                continue
            for n, axis in zip(fake.shape, pad.axes, strict=True):
                if sympy.expand(self.expression(n) - product(axis)) != 0:
                    raise self.refusal("it moves elements")

    def refusal(self, reason: str) -> Undecomposable:
        values = [
            n.meta.get("val") for n in (self.current, *self.current.all_input_nodes)
        ]
        sizes = [
            n
            for x in tree_leaves(values)
            for n in (x.shape if isinstance(x, torch.Tensor) else (x,))
            if self.depends(n)
        ]
        involved = {s for n in sizes for s in n.node.expr.free_symbols}
        labels = sorted(b.label for s, b in self.buckets.items() if s in involved)
        return Undecomposable(
            f'{" and ".join(labels)} cannot be padded (options={{"buckets": ...}}): '
            f"{reason}"
        )

    def overwrite(self, target: Operand, value: Any) -> Operand:
        given, wanted = self.pads.get(value), self.pads.get(target)
        if wanted is None and given is not None:
            raise self.refusal("padding would be written into an argument")
        if wanted is not None and given is None:
            raise self.refusal("an argument that is padded is overwritten")
        if wanted is not None and given is not None and wanted.axes != given.axes:
            raise self.refusal("it moves elements")
        return self.write(target, value)

    # Padding

    def fill(self, operand: Any, number: bool | int | float) -> Any:
        """``operand`` with ``number`` as padding."""
        pad = self.pads.get(operand)
        if pad is None or pad.fill == number:
            return operand
        dtype = operand.fake.dtype
        if not dtype.is_floating_point and number in (math.inf, -math.inf):
            if dtype is torch.bool:
                number = number > 0
            else:
                info = torch.iinfo(dtype)
                number = info.max if number > 0 else info.min
        result = self.op(
            aten.masked_fill.Scalar, operand, self.invalid(pad.axes), number
        )
        self.pads[result] = Padding(pad.axes, number)
        return result

    def invalid(self, axes: Axes) -> Operand:
        """True where a value of these axes has padding; sizes of 1 broadcast."""
        if axes in self.masks:
            return self.masks[axes]
        mask: Operand | None = None
        for dim, factors in enumerate(axes):
            if not any(map(self.is_padded, factors)):
                continue
            sizes = [self.size(f) for f in factors]
            part: Operand | None = None
            for k, factor in enumerate(factors):
                if not self.is_padded(factor):
                    continue
                index = self.arange(sizes[k])
                outside = self.op(aten.ge.Tensor, index, self.number(factor))
                shape = [1] * len(sizes)
                shape[k] = sizes[k]
                outside = self.op(aten.view.default, outside, shape)
                part = self.either(part, outside)
            assert part is not None
            if len(sizes) > 1:
                part = self.op(aten.expand.default, part, sizes)
            shape = [1] * len(axes)
            shape[dim] = math.prod(sizes)
            part = self.op(aten.reshape.default, part, shape)
            mask = self.either(mask, part)
        assert mask is not None
        self.masks[axes] = mask
        return mask

    def either(self, a: Operand | None, b: Operand) -> Operand:
        return b if a is None else self.op(aten.logical_or.default, a, b)

    # Memory

    def spread(self, flat: Operand, factors: tuple) -> Operand:
        """From true sizes, one element after the other, to padded ones."""
        lead, sizes, inner = self.lead(factors)
        if len(lead) > 1:
            flat = self.rows(flat, self.index(self.spread_index, lead), inner)
        return self.op(aten.view.default, flat, [*sizes, inner])

    def gathered(self, value: Operand, factors: tuple) -> Operand:
        """From padded sizes to true ones, one element after the other; what is behind
        these has no meaning."""
        lead, sizes, inner = self.lead(factors)
        flat = self.op(aten.reshape.default, value, [math.prod(sizes) * inner])
        if len(lead) > 1:
            flat = self.rows(flat, self.index(self.gathered_index, lead), inner)
        return flat

    def index(self, function: Callable[[tuple, list], Operand], lead: tuple) -> Operand:
        """Rows to take; most of a graph's arguments and results share them."""
        key = function.__name__, lead
        if key not in self.indices:
            sizes = [self.size(f) for f in lead]
            count = math.prod(sizes)
            index = self.op(aten.reshape.default, function(lead, sizes), [count])
            index = self.op(aten.clamp.default, index, 0, count - 1)
            self.indices[key] = index
        return self.indices[key]

    def spread_index(self, lead: tuple, sizes: list[int]) -> Operand:
        index: Operand | None = None
        for k, n in enumerate(sizes):
            shape = [1] * len(sizes)
            shape[k] = n
            step = self.number(product(lead[k + 1 :]))
            part = self.op(aten.view.default, self.arange(n), shape)
            part = self.op(aten.mul.Tensor, part, step)
            index = self.sum(index, part)
        assert index is not None
        return index

    def gathered_index(self, lead: tuple, sizes: list[int]) -> Operand:
        rest = self.arange(math.prod(sizes))
        index: Operand | None = None
        for k in range(len(lead) - 1, 0, -1):
            n = self.number(sympy.Max(1, lead[k]))
            at = self.op(aten.remainder.Tensor, rest, n)
            rest = self.op(aten.div.Tensor_mode, rest, n, rounding_mode="floor")
            part = self.op(aten.mul.Scalar, at, math.prod(sizes[k + 1 :]))
            index = self.sum(index, part)
        part = self.op(aten.mul.Scalar, rest, math.prod(sizes[1:]))
        return self.sum(index, part)

    def sum(self, a: Operand | None, b: Operand) -> Operand:
        return b if a is None else self.op(aten.add.Tensor, a, b)

    def lead(self, factors: tuple) -> tuple[tuple, list[int], int]:
        """The sizes down to the last padded one, and the elements behind."""
        last = max(k for k, f in enumerate(factors) if self.is_padded(f))
        lead = factors[: last + 1]
        inner = math.prod(self.size(f) for f in factors[last + 1 :])
        return lead, [self.size(f) for f in lead], inner

    def rows(self, flat: Operand, index: Operand, inner: int) -> Operand:
        count = index.fake.shape[0]
        table = self.op(aten.view.default, flat, [count, inner])
        table = self.op(aten.index_select.default, table, 0, index)
        return self.op(aten.view.default, table, [count * inner])


@dataclass
class _Program:
    """What belongs to one combination of bucketed sizes."""

    native: Any
    numbers: list[Any] = field(default_factory=list)
    # By position: true sizes and strides, and the elements of the padded buffer.
    inputs: dict[int, tuple[list, list, int]] = field(default_factory=dict)
    outputs: dict[int, tuple[list, list]] = field(default_factory=dict)
    integers: dict[int, Any] = field(default_factory=dict)
    returned: dict[int, int] = field(default_factory=dict)
    written: list[int] = field(default_factory=list)


@dataclass
class _Plan:
    """A _Program with the numbers of one combination of true sizes."""

    program: _Program
    numbers: list[int]
    inputs: list[tuple[int, _Sizes, _Sizes, int]]
    outputs: list[tuple[int, _Sizes, _Sizes]]
    integers: list[tuple[int, Any]]


def applies(module: GraphModule, settings: Settings) -> bool:
    """Whether sizes of the graph's arguments have buckets."""
    if not settings.buckets:
        return False
    values = [n.meta.get("val") for n in module.graph.find_nodes(op="placeholder")]
    sizes = [
        n
        for value in values
        for n in (value.shape if isinstance(value, torch.Tensor) else (value,))
        if isinstance(n, torch.SymInt)
    ]
    return any(n.node.expr in settings.buckets for n in sizes)


class PaddedGraph(Graph):
    """A graph with sizes that are padded. Its programs are kept by padded sizes."""

    def __init__(self, module: GraphModule, settings: Settings) -> None:
        super().__init__(module, settings)
        self.sources: dict[Any, tuple[int, int | None]] = {}
        for i, node in enumerate(self.placeholders):
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt):
                self.sources.setdefault(value.node.expr, (i, None))
            elif isinstance(value, torch.Tensor):
                for dim, n in enumerate(value.shape):
                    if isinstance(n, torch.SymInt):
                        self.sources.setdefault(n.node.expr, (i, dim))
        self.sources = {s: at for s, at in self.sources.items() if s.is_Symbol}
        self.buckets = {
            s: bucket for s, bucket in settings.buckets.items() if s in self.sources
        }
        self.programs: dict[_Sizes, _Program] = {}
        self.plans: dict[_Sizes, _Plan] = {}
        self.current = _Program(None)
        self.symbols_first = True

    def compile(self, args: list[Any]) -> Callable[[list[Any]], list[Any]]:
        try:
            self.check()
        except GraphError as error:
            return self.one_by_one(error)

        def call(args: list[Any]) -> list[Any]:
            try:
                return self.run(args)
            except GraphError as error:
                return self.one_by_one(error)(args)

        function = self.with_copies(call) if self.moves_data else call
        function._boxed_call = True  # type: ignore[attr-defined]
        return function

    @torch.no_grad()
    def run(self, args: list[Any]) -> list[Any]:
        sizes = tuple(
            args[i] if dim is None else args[i].shape[dim]
            for i, dim in self.sources.values()
        )
        plan = self.plans.get(sizes) or self.plan(sizes, args)
        given = list(args)
        for i, shape, strides, room in plan.inputs:
            args[i] = _padded(given[i], shape, strides, room)
        args += plan.numbers
        results = plan.program.native(args)
        if results is None:
            self.specialize(given)
            results = plan.program.native(args)
        for k, shape, strides in plan.outputs:
            results[k] = results[k].as_strided(shape, strides)
        for k, number in plan.integers:
            results[k] = number
        for k, i in plan.program.returned.items():
            results[k] = given[i]
        for i in reversed(plan.program.written):
            given[i].copy_(results.pop())
        return results

    def padded_sizes(self, sizes: _Sizes) -> _Sizes:
        return tuple(
            self.buckets[s].size(n) if s in self.buckets else n
            for s, n in zip(self.sources, sizes, strict=True)
        )

    def plan(self, sizes: _Sizes, args: list[Any]) -> _Plan:
        key = self.padded_sizes(sizes)
        if key not in self.programs:
            self.specialize(args)
        program = self.programs[key]
        symbols = {
            s: sympy.Integer(n) for s, n in zip(self.sources, sizes, strict=True)
        }

        def number(expression: Any) -> Any:
            value = sympy.sympify(expression).xreplace(symbols)
            return int(value) if value.is_integer else float(value)

        def layout(shape: list, strides: list) -> tuple[_Sizes, _Sizes]:
            return tuple(map(number, shape)), tuple(map(number, strides))

        plan = _Plan(
            program,
            [number(expression) for expression in program.numbers],
            [(i, *layout(*io[:2]), io[2]) for i, io in program.inputs.items()],
            [(k, *layout(*io)) for k, io in program.outputs.items()],
            [(k, number(expression)) for k, expression in program.integers.items()],
        )
        if len(self.plans) >= _MAX_PLANS:
            self.plans.clear()
        self.plans[sizes] = plan
        return plan

    # Lowering

    def _specialize(self, args: list[Any]) -> None:
        sizes = tuple(
            int(args[i] if dim is None else args[i].shape[dim])
            for i, dim in self.sources.values()
        )
        key = self.padded_sizes(sizes)
        kept = self.native
        known = self.programs.get(key)
        self.current = _Program(known.native if known else _C.Graph())
        self.native = self.current.native
        try:
            try:
                super()._specialize(args)
            except GraphError:
                # A flattened size may also mean the other order.
                self.symbols_first = not self.symbols_first
                self.current = _Program(self.native)
                try:
                    super()._specialize(args)
                except GraphError:
                    self.symbols_first = not self.symbols_first
                    self.current = _Program(self.native)
                    super()._specialize(args)
        finally:
            self.native = kept
        self.programs[key] = self.current

    def emitter(self, builder: Any, shapes: Shapes) -> GraphEmitter:
        return PaddedEmitter(builder, shapes, self.buckets, self.symbols_first)

    def arguments(self, emitter: Any, variant: Variant, args: list[Any]) -> list[Any]:
        self.bind(emitter.shapes, args)
        symbols = emitter.shapes.symbols
        for symbol, bucket in self.buckets.items():
            symbols[symbol] = sympy.Integer(bucket.size(int(symbols[symbol])))
        emitter.shapes.numbers = {
            e: n for e, n in emitter.shapes.numbers.items() if not emitter.is_padded(e)
        }
        return [
            self.argument(emitter, variant, i, node, arg)
            for i, (node, arg) in enumerate(zip(self.placeholders, args, strict=True))
        ]

    def argument(
        self, emitter: Any, variant: Variant, i: int, node: Node, arg: Any
    ) -> Any:
        fake = node.meta.get("val")
        if not emitter.depends(fake):
            return super().argument(emitter, variant, i, node, arg)
        if not isinstance(fake, torch.Tensor) or not node.users:
            variant.inputs.append(("ignored",))
            return (
                None if isinstance(fake, torch.Tensor) else emitter.shapes.number(fake)
            )
        # In the order of memory, then as the graph sees it.
        concrete = emitter.shapes.tensor(fake)
        order = _memory_order(concrete)
        exprs = [emitter.expression(n) for n in fake.shape]
        # Any grouping that has these sizes is right; the forward graph's fits others.
        axes = self.settings.axes.get(node.name, ())
        if [product(axis) for axis in axes] != exprs:
            axes = emitter.guess(fake)
        count = concrete.numel()
        if count == 0:
            raise emitter.refusal("it is an empty tensor")
        variant.inputs.append(("tensor", arg.dtype, [count], [1]))
        variant.tensors.append(i)
        self.current.inputs[i] = (exprs, _strides(exprs, order), count)
        flat = Operand(
            emitter.builder.tensor_parameter(arg.dtype, [count]),
            emitter.fake(lambda: torch.empty(count, dtype=arg.dtype, device=DEVICE)),
        )
        factors = tuple(itertools.chain.from_iterable(axes[d] for d in order))
        value = emitter.spread(flat, factors)
        value = emitter.op(aten.view.default, value, [concrete.shape[d] for d in order])
        back = [order.index(d) for d in range(len(order))]
        if back != sorted(back):
            value = emitter.op(aten.permute.default, value, back)
        emitter.pads[value] = Padding(axes)
        return emitter.fill(value, 0)

    def results(
        self,
        emitter: Any,
        variant: Variant,
        args: list[Any],
        values: list[Any],
        results: Any,
    ) -> tuple[list[int], list[int]]:
        position = {value: i for i, value in enumerate(values) if _is_operand(value)}
        written = [
            (position[target], emitter.written.pop(target))
            for target in list(emitter.written)
            if target in emitter.pads
        ]
        ids, aliases = super().results(emitter, variant, args, values, results)
        for i, value in written:
            self.current.written.append(i)
            self.cut(
                len(variant.outputs), self.placeholders[i], value, emitter, variant
            )
            ids.append(variant.ids.pop())
            aliases.append(-1)
        self.current.numbers = list(emitter.numbers)
        # The program has its numbers in the order in which they were asked for.
        at = {value.id: i for i, value in enumerate(values) if _is_number(value)}
        for expression, number in emitter.numbers.items():
            dtype = torch.int64 if expression.is_integer else torch.float64
            at[number] = len(variant.inputs)
            variant.inputs.append(("number", dtype))
        variant.numbers[:] = [at[number] for number in sorted(at)]
        return ids, aliases

    def output(
        self,
        k: int,
        node: Any,
        value: Any,
        emitter: Any,
        variant: Variant,
        position: dict[Any, int],
        args: list[Any],
        made: dict[Any, int],
    ) -> None:
        fake = node.meta.get("val") if isinstance(node, Node) else None
        if isinstance(fake, torch.SymInt) and emitter.depends(fake):
            variant.outputs.append(("none",))
            self.current.integers[k] = fake.node.expr
        elif isinstance(value, Operand) and value in emitter.pads:
            if value in position:
                variant.outputs.append(("none",))
                self.current.returned[k] = position[value]
            else:
                self.cut(k, node, value, emitter, variant)
        else:
            super().output(k, node, value, emitter, variant, position, args, made)

    def cut(
        self, k: int, node: Node, value: Operand, emitter: Any, variant: Variant
    ) -> None:
        """An output whose memory has the true elements first."""
        fake = node.meta["val"]
        self.settings.axes[node.name] = emitter.pads[value].axes
        order = _memory_order(emitter.shapes.tensor(fake))
        exprs = [emitter.expression(n) for n in fake.shape]
        axes = emitter.pads[value].axes
        if order != sorted(order):
            value = emitter.op(aten.permute.default, value, order)
        flat = emitter.gathered(
            value, tuple(itertools.chain.from_iterable(axes[d] for d in order))
        )
        count = flat.fake.numel()
        variant.outputs.append(("new", fake.dtype, [count], [1]))
        variant.results.append(k)
        variant.ids.append(flat.id)
        self.current.outputs[k] = (exprs, _strides(exprs, order))

    def argument_view(self, node: Node, args: list[Any], emitter: Any) -> tuple | None:
        found = super().argument_view(node, args, emitter)
        if found and found[1] in self.current.inputs:
            return None
        return found


def _padded(
    tensor: torch.Tensor, shape: _Sizes, strides: _Sizes, room: int
) -> torch.Tensor:
    """The elements of ``tensor`` in the order of memory that ``strides`` say, at the
    start of ``room`` elements."""
    count = math.prod(shape)
    as_expected = all(
        n == 1 or a == b
        for n, a, b in zip(shape, tensor.stride(), strides, strict=True)
    )
    if not as_expected:
        tensor = torch.empty_strided(
            shape, strides, dtype=tensor.dtype, device=tensor.device
        ).copy_(tensor)
    flat = tensor.as_strided((count,), (1,))
    if count == room:
        return flat
    buffer = torch.empty(room, dtype=tensor.dtype, device=tensor.device)
    buffer[:count].copy_(flat)
    return buffer


def _memory_order(tensor: torch.Tensor) -> list[int]:
    """Dimensions from the outermost in memory to the innermost."""
    dims = list(range(tensor.dim()))
    if not is_dense(tensor):
        return dims
    return sorted(dims, key=lambda d: (-tensor.stride(d), tensor.shape[d] != 1, d))


def _strides(shape: Sequence[Any], order: list[int]) -> list[Any]:
    strides: list[Any] = [1] * len(shape)
    step: Any = sympy.Integer(1)
    for d in reversed(order):
        strides[d] = step
        step = step * shape[d]
    return strides


def _is_operand(value: Any) -> bool:
    return isinstance(value, Operand)


def _is_number(value: Any) -> bool:
    return isinstance(value, Number)
