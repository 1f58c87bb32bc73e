# SPDX-License-Identifier: Apache-2.0
"""Walks FX graphs of ATen operators into a Program under construction: each
operator by its lowering, or by PyTorch's own decompositions where it has none.

An operator without lowering is traced with make_fx over fake tensors; what the
trace still holds of such operators is traced in turn. Nothing is computed.
"""

import functools
import operator
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch._decomp import core_aten_decompositions, decomposition_table
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch._subclasses.functional_tensor import dispatch_functionalize
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from torch_neuronx import _C, _compat, random_operators
from torch_neuronx.decompositions import decompositions

aten = torch.ops.aten
T = TypeVar("T")

# Where the fake tensors are: decompositions may depend on the device's type.
DEVICE = "neuron:0"

# Decompositions nest, as upsampling -> index -> where; a cycle is an error.
_MAX_DEPTH = 12

# The tensor is the result.
_IDENTITIES = {
    aten.alias.default,
    aten.detach.default,
    aten.lift_fresh.default,
    aten.lift_fresh_copy.default,
}
# Programs have no memory to leave uninitialised: these are zeros.
EMPTIES = {
    aten._efficientzerotensor.default,
    aten.empty.memory_format,
    aten.empty_like.default,
    aten.empty_permuted.default,
    aten.empty_strided.default,
    aten.new_empty.default,
    aten.new_empty_strided.default,
}
# References end in this prim, whose own ATen form writes to a tensor.
_CONVERT = torch.ops.prims.convert_element_type.default
# What fake tensors know of themselves.
_METADATA = {
    aten.size.default,
    aten.storage_offset.default,
    aten.stride.default,
    torch.ops.prim.device.default,
}
# Types of schema arguments that say where and how memory is laid out.
_PLACEMENT = ("Device", "Layout", "MemoryFormat", "Generator")

# An operator may decompose to itself on other arguments, but only so often.
_MAX_NESTING = 4
_nesting = threading.local()


class Undecomposable(Exception):
    """No way to express an operator by lowered ones."""


@dataclass(frozen=True)
class Operand:
    """A value of the program under construction, and its type."""

    id: int
    fake: FakeTensor


@dataclass(frozen=True)
class Number:
    """A runtime scalar: what a 0-dim tensor on the CPU holds."""

    id: int
    fake: torch.Tensor


def run_apart(function: Callable[[], T], name: str) -> T:
    """Calls ``function`` in a thread of its own: that one knows no dispatch modes,
    autocast or vmap levels of the caller."""
    result: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            with torch.no_grad():
                result.append(function())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, name=name)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return result[0]


@functools.cache
def lowered() -> frozenset[str]:
    return frozenset(_C.lowered_ops())


@functools.cache
def _all_decompositions() -> dict[OpOverload, Callable[..., Any]]:
    table = {**decomposition_table, **core_aten_decompositions()}
    table.update(decompositions())
    table.update(_compat.prims())
    return {o: _acyclic(o, f) for o, f in table.items() if isinstance(o, OpOverload)}


def _acyclic(op: OpOverload, function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, refusing to go round in circles: the reference of erfc is the
    prim erfc, whose ATen form is erfc."""

    def guarded(*args: Any, **kwargs: Any) -> Any:
        counts = _nesting.__dict__
        if counts.get(op.name(), 0) == _MAX_NESTING:
            raise Undecomposable(f"{op.name()} has no decomposition")
        counts[op.name()] = counts.get(op.name(), 0) + 1
        try:
            return function(*args, **kwargs)
        finally:
            counts[op.name()] -= 1

    return guarded


@functools.cache
def _decompositions() -> dict[OpOverload, Callable[..., Any]]:
    """For operators that have no lowering."""
    return {
        op: function
        for op, function in _all_decompositions().items()
        if op.name() not in lowered() and op not in EMPTIES
    }


def _implementations(op: OpOverload) -> list[Callable[..., Any]]:
    """Ways to compute ``op`` by other operators, best first."""
    found = []
    if op in _all_decompositions():
        found.append(_all_decompositions()[op])
    if written := _compat.custom_op_body(op.name(), "neuron"):
        found.append(_acyclic(op, written))
    for key in ("CompositeImplicitAutograd", "CompositeExplicitAutograd"):
        if kernel := _compat.kernel(op, key):
            found.append(_acyclic(op, kernel))
    return found


class _Untaped(Exception):
    """Only make_fx can trace it."""


class Tape(TorchDispatchMode):
    """The operators that ``function`` of fake tensors calls, in order: what make_fx
    gives, without a graph, in a third of its time.

    ``result`` is what the function gives. Raises what the function raises, and if it
    writes to tensors, reads or holds one.
    """

    def __init__(
        self, mode: FakeTensorMode, function: Callable[..., Any], fakes: Sequence[Any]
    ) -> None:
        super().__init__()
        self.calls: list[tuple[OpOverload, tuple, dict[str, Any], Any]] = []
        self.known = {id(fake) for fake in fakes}
        with mode, self:
            self.result = function(*fakes)
        self.calls = self.needed()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in _METADATA:
            return func(*args, **kwargs)
        function = _decompositions().get(func)
        with self:
            result = NotImplemented
            if function is not None:
                result = function(*args, **kwargs)
            if result is NotImplemented:
                result = func.decompose(*args, **kwargs)
        if result is not NotImplemented:
            return result
        if func._schema.is_mutable or torch.Tag.data_dependent_output in func.tags:
            raise _Untaped
        result = func(*args, **kwargs)
        # The list keeps the tensors, so that no id comes twice.
        self.calls.append((func, args, kwargs, result))
        new = _tensor_ids(result)
        if new & self.known:
            raise _Untaped
        self.known |= new
        return result

    def needed(self) -> list[tuple[OpOverload, tuple, dict[str, Any], Any]]:
        """The calls whose results the function's result depends on."""
        wanted = _tensor_ids(self.result)
        calls = []
        for call in reversed(self.calls):
            if wanted & _tensor_ids(call[3]):
                wanted |= _tensor_ids(call[1:3])
                calls.append(call)
        if not wanted <= self.known:
            raise _Untaped
        return calls[::-1]


def _tensor_ids(tree: Any) -> set[int]:
    return {id(x) for x in tree_leaves(tree) if isinstance(x, torch.Tensor)}


class Emitter:
    """Adds FX graphs to ``builder``.

    Args:
        builder: a ``_C.GraphBuilder``.
        mode: the one that fake tensors of the graphs belong to.
        whole: the graph is a program of its own. It may draw random numbers, and
            operators without lowering stay visible in it, as composites with their
            decompositions.
    """

    def __init__(self, builder: Any, mode: FakeTensorMode, whole: bool = False) -> None:
        self.builder = builder
        self.mode = mode
        self.whole = whole
        self.device = torch.device(DEVICE)
        # What failed, or is under way: a decomposition that comes to itself is
        # a cycle, and without this its depth would be the exponent of the work.
        self.refused: dict[tuple, str] = {}

    def region(self, builder: Any) -> "Emitter":
        """For a branch or a loop's body of the graph."""
        return Emitter(builder, self.mode, self.whole)

    # Graphs

    def emit(self, graph: GraphModule, operands: Sequence[Any], depth: int = 0) -> Any:
        """The graph's results: a tree of Operands."""
        values: dict[Node, Any] = {}
        inputs = iter(operands)

        def value(argument: Any) -> Any:
            return tree_map(lambda x: values[x] if isinstance(x, Node) else x, argument)

        for node in graph.graph.nodes:
            if node.op == "placeholder":
                values[node] = next(inputs)
            elif node.op == "get_attr":
                values[node] = self.attribute(getattr(graph, node.target))
            elif node.op == "output":
                return value(node.args[0])
            else:
                args, kwargs = value(node.args), value(dict(node.kwargs))
                values[node] = self.node(node, args, kwargs, depth)
        raise AssertionError("a graph has an output")

    def node(self, node: Node, args: Any, kwargs: dict[str, Any], depth: int) -> Any:
        target = node.target
        if target is operator.getitem:
            return args[0][args[1]]
        if isinstance(target, OpOverload):
            return self.call(target, args, kwargs, self.meta(node), depth)
        if isinstance(target, HigherOrderOperator):
            from torch_neuronx import control_flow

            return control_flow.emit(self, target, args, kwargs, self.meta(node))
        raise Undecomposable(f"{target} cannot be part of a program")

    def meta(self, node: Node) -> Any:
        """The node's result, as fake tensors."""
        return node.meta.get("val")

    def attribute(self, value: Any) -> Any:
        return self.constant(value) if isinstance(value, torch.Tensor) else value

    # Operators

    def call(
        self,
        op: OpOverload,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        result: Any,
        depth: int = 0,
    ) -> Any:
        """Adds one operator of a trace: lowered, or decomposed further."""
        if op in _IDENTITIES:
            return args[0]
        if op in EMPTIES:
            return self.full(result, 0)
        if op is _CONVERT:
            op, args, kwargs = aten._to_copy.default, args[:1], {"dtype": args[1]}
        if op._schema.is_mutable:
            raise Undecomposable(f"it writes to a tensor: {op.name()}")
        if draw := random_operators.find(op, positional(op, args, kwargs)):
            return self.draw(*draw, result)
        if torch.Tag.nondeterministic_seeded in op.tags and not self.whole:
            raise Undecomposable(f"{op.name()} draws random numbers")
        if op.name() in lowered():
            try:
                return self.lower(op.name(), positional(op, args, kwargs), result)
            except _C.Unsupported:
                if not _implementations(op):
                    raise
        if self.whole and depth == 0 and not op._schema._is_view_op():
            return self.composite(op, args, kwargs, result)
        return self.inline(op, args, kwargs, depth + 1)

    def lower(self, name: str, args: list[Any], result: Any) -> Any:
        return self.add(self.builder.call, name, args, result)

    def draw(
        self,
        name: str,
        args: list[Any],
        result: Any,
        generator: Any = -1,
        blocks: int = -1,
    ) -> Any:
        """Adds an operator that draws random numbers (random_operators.py).

        Args:
            generator: the position of one among the graph's arguments.
            blocks: the id of a number of the program, known at run time: how many
                Philox blocks a call uses up, where that is not said by the shapes.
        """
        return self.add(self.builder.draw, name, args, result, generator, blocks)

    def add(
        self,
        method: Callable[..., list[int]],
        name: str,
        args: list[Any],
        result: Any,
        *more: Any,
    ) -> Any:
        """``method(name, args, result_types, *more)`` with Operands in and out."""
        leaves, spec = tree_flatten(result, is_leaf=_is_none)
        # Numbers among the results are sizes, which the fake result knows.
        types: list[tuple[torch.dtype | None, list[int]]] = []
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor):
                types.append((leaf.dtype, list(leaf.shape)))
            elif leaf is None:
                types.append((None, []))
            elif not isinstance(leaf, int):
                raise Undecomposable(f"{name} gives a result that is no tensor")
        ids = iter(method(name, tree_map(_to_builder, args), types, *more))
        results: list[Any] = []
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor):
                results.append(Operand(next(ids), leaf))
            elif leaf is None:
                next(ids)
                results.append(None)
            else:
                results.append(leaf)
        return tree_unflatten(results, spec)

    def composite(
        self, op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any], result: Any
    ) -> Any:
        arguments = positional(op, args, kwargs)
        operands = [x for x in tree_leaves(arguments) if isinstance(x, Operand)]

        def body(builder: Any, ids: list[int]) -> list[int]:
            inner = {
                operand: Operand(id_, operand.fake)
                for operand, id_ in zip(operands, ids, strict=True)
            }
            inside = tree_map(
                lambda x: inner[x] if isinstance(x, Operand) else x, (args, kwargs)
            )
            results = Emitter(builder, self.mode).inline(op, *inside, depth=1)
            leaves = tree_leaves(results, is_leaf=_is_none)
            return [
                -1 if leaf is None else leaf.id
                for leaf in leaves
                if leaf is None or isinstance(leaf, Operand)
            ]

        return self.add(self.builder.composite, op.name(), arguments, result, body)

    def inline(
        self, op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any], depth: int
    ) -> Any:
        """The results of ``op`` by its own decomposition: a tree of Operands."""
        if depth > _MAX_DEPTH:
            raise Undecomposable(f"{op.name()} does not end in lowered operators")
        call = _signature(op, args, kwargs)
        if call in self.refused:
            raise Undecomposable(self.refused[call])
        reason = f"{op.name()} has no decomposition"
        self.refused[call] = f"{op.name()} decomposes to itself"
        for implementation in _implementations(op):
            try:
                results = self.trace(implementation, args, kwargs, depth)
                del self.refused[call]
                return results
            except Exception as error:
                reason = str(error)
        self.refused[call] = reason
        raise Undecomposable(reason)

    def trace(
        self,
        implementation: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        depth: int = 1,
    ) -> Any:
        """Adds what ``implementation``, a function of tensors, computes."""
        leaves, spec = tree_flatten((args, kwargs))
        operands = list(dict.fromkeys(x for x in leaves if isinstance(x, Operand)))
        if any(isinstance(leaf, Number) for leaf in leaves):
            raise Undecomposable("decompositions are traced with constants")

        def function(*tensors: torch.Tensor) -> Any:
            values = dict(zip(operands, tensors, strict=True))
            inputs = [values[x] if isinstance(x, Operand) else x for x in leaves]
            inner_args, inner_kwargs = tree_unflatten(inputs, spec)
            result = implementation(*inner_args, **inner_kwargs)
            if result is NotImplemented:
                raise Undecomposable("the decomposition declines these arguments")
            return tuple(result) if isinstance(result, tuple) else result

        fakes = [operand.fake for operand in operands]
        try:
            tape = Tape(self.mode, function, fakes)
        except Exception:
            tape = None
        if tape is not None:
            return self.replay(tape, operands, depth)
        with self.mode:
            graph = make_fx(function, _decompositions())(*fakes)
            if any(_is_mutable(node) for node in graph.graph.nodes):
                functional = dispatch_functionalize(function)
                graph = make_fx(functional, _decompositions())(*fakes)
        graph.graph.eliminate_dead_code()
        return self.emit(graph, operands, depth)

    def replay(self, tape: Tape, operands: Sequence[Operand], depth: int) -> Any:
        """Adds the tape's calls: its result, a tree of Operands."""
        values: dict[int, Any] = {id(operand.fake): operand for operand in operands}

        def value(x: Any) -> Any:
            return values[id(x)] if isinstance(x, torch.Tensor) else x

        for op, args, kwargs, fakes in tape.calls:
            results = self.call(
                op, tree_map(value, args), tree_map(value, kwargs), fakes, depth
            )
            for fake, result in zip(
                tree_leaves(fakes, is_leaf=_is_none),
                tree_leaves(results, is_leaf=_is_none),
                strict=True,
            ):
                values[id(fake)] = result
        return tree_map(value, tape.result)

    # Constants

    def full(self, result: FakeTensor, number: bool | int | float) -> Operand:
        args = [list(result.shape), number, result.dtype, None, None, None]
        return self.lower("aten::full", args, result)

    def constant(self, tensor: torch.Tensor) -> Operand:
        """A constant that a trace holds."""
        value = getattr(tensor, "constant", tensor)
        if value is None or isinstance(value, FakeTensor):
            raise Undecomposable("the decomposition holds a constant tensor")
        fake = FakeTensor(self.mode, value.to("meta"), self.device)
        if value.numel() == 1:
            return self.full(fake, value.item())
        data = value.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()
        return Operand(
            self.builder.constant(value.dtype, list(value.shape), data), fake
        )


def positional(
    op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
) -> list[Any]:
    """All arguments in the schema's order; None for what concerns placement."""
    arguments = []
    for i, argument in enumerate(op._schema.arguments):
        if argument.is_out:
            continue
        if any(kind in str(argument.real_type) for kind in _PLACEMENT):
            arguments.append(None)
        elif i < len(args):
            arguments.append(args[i])
        elif argument.name in kwargs:
            arguments.append(kwargs[argument.name])
        else:
            arguments.append(argument.default_value)
    return arguments


def _is_none(x: Any) -> bool:
    return x is None


def _to_builder(x: Any) -> Any:
    if isinstance(x, Operand):
        return _C.Value(x.id)
    if isinstance(x, Number):
        return _C.Number(x.id, x.fake.dtype)
    return x


def _signature(op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple:
    """The call up to the values of its operands."""
    leaves, spec = tree_flatten((args, kwargs))
    types = [
        (x.fake.dtype, tuple(x.fake.shape)) if isinstance(x, Operand) else repr(x)
        for x in leaves
    ]
    return (op, str(spec), *types)


def _is_mutable(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target._schema.is_mutable
