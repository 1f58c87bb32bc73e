# SPDX-License-Identifier: Apache-2.0
"""Expresses an operator that has no lowering by ones that have, with PyTorch's own
decompositions. Runs once per cache key, for the result is cached as a Program.

The operator is traced with make_fx over fake tensors; what the trace still holds
of operators without lowering is traced in turn. Nothing is computed.
"""

import functools
import operator
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, decomposition_table
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch._subclasses.functional_tensor import dispatch_functionalize
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from torch_neuronx import _C
from torch_neuronx.decompositions import decompositions

aten = torch.ops.aten

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
    aten.empty.memory_format,
    aten.empty_like.default,
    aten.empty_permuted.default,
    aten.empty_strided.default,
    aten.new_empty.default,
    aten.new_empty_strided.default,
}
# Types of schema arguments that say where and how memory is laid out.
_PLACEMENT = ("Device", "Layout", "MemoryFormat", "Generator")

# An operator may decompose to itself on other arguments, but only so often.
_MAX_NESTING = 4
_nesting = threading.local()

# Why the last decomposition of an operator failed, for the fallback's report.
failures: dict[str, str] = {}


class Undecomposable(Exception):
    """No way to express an operator by lowered ones."""


@dataclass(frozen=True)
class Operand:
    """A value of the program under construction, and its type."""

    id: int
    fake: FakeTensor


def decompose(builder: Any, name: str, args: tuple, kwargs: dict[str, Any]) -> bool:
    """Adds the operator's decomposition to ``builder``.

    Args:
        builder: ``parameter(i)`` is the value of the call's i-th tensor,
            ``call(name, args, result_types)`` adds a lowered operator and gives the
            ids of its results, ``finish(ids)`` ends with those (-1: undefined).
        name: the functional overload, as in ``"aten::lerp.Scalar"``.
        args, kwargs: the call's arguments, with meta tensors in place of tensors.

    Returns False, and notes why in ``failures``, when it cannot.
    """
    failure: list[BaseException] = []

    def run() -> None:
        try:
            with torch.no_grad():
                _Decomposition(builder).run(find_op(name), args, kwargs)
        except BaseException as error:
            failure.append(error)

    # A new thread knows no dispatch modes, autocast or vmap levels of the caller.
    thread = threading.Thread(target=run, name=f"decompose {name}")
    thread.start()
    thread.join()
    if failure:
        failures[name] = str(failure[0]).split("\n")[0] or type(failure[0]).__name__
        if not isinstance(failure[0], Exception):
            raise failure[0]
        return False
    failures.pop(name, None)
    return True


def find_op(name: str) -> OpOverload:
    """The overload that ``"aten::add.Tensor"`` or ``"aten::relu"`` names."""
    namespace, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    return getattr(
        getattr(getattr(torch.ops, namespace), packet), overload or "default"
    )


@functools.cache
def _lowered() -> frozenset[str]:
    return frozenset(_C.lowered_ops())


@functools.cache
def _all_decompositions() -> dict[OpOverload, Callable[..., Any]]:
    table = {**decomposition_table, **core_aten_decompositions()}
    table.update(decompositions())
    # References are written in prims; each prim knows its ATen form.
    for name in torch._prims.__all__:
        prim = getattr(torch._prims, name, None)
        if hasattr(prim, "impl_aten"):
            table[prim] = prim.impl_aten
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
    lowered = _lowered()
    return {o: f for o, f in _all_decompositions().items() if o.name() not in lowered}


def _implementations(op: OpOverload) -> list[Callable[..., Any]]:
    """Ways to compute ``op`` by other operators, best first."""
    found = []
    if op in _all_decompositions():
        found.append(_all_decompositions()[op])
    for key in ("CompositeImplicitAutograd", "CompositeExplicitAutograd"):
        if torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key):
            kernel = functools.partial(op._op_dk, getattr(torch._C.DispatchKey, key))
            found.append(_acyclic(op, kernel))
    return found


class _Decomposition:
    def __init__(self, builder: Any) -> None:
        self.builder = builder
        self.device = torch.device(DEVICE)
        self.mode = FakeTensorMode(allow_fallback_kernels=False)
        # What failed, or is under way: a decomposition that comes to itself is
        # a cycle, and without this its depth would be the exponent of the work.
        self.refused: dict[tuple, str] = {}

    def run(self, op: OpOverload, args: tuple, kwargs: dict[str, Any]) -> None:
        if op._schema.is_mutable:
            raise Undecomposable(f"{op.name()} writes to its arguments")
        leaves, spec = tree_flatten((args, kwargs))
        count = 0
        for i, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor):
                fake = FakeTensor(self.mode, leaf.detach(), self.device)
                leaves[i] = Operand(self.builder.parameter(count), fake)
                count += 1
        results = self.inline(op, *tree_unflatten(leaves, spec), depth=0)
        leaves, _ = tree_flatten(results, is_leaf=lambda leaf: leaf is None)
        if any(isinstance(leaf, (bool, int, float)) for leaf in leaves):
            raise Undecomposable(f"{op.name()} gives a number")
        self.builder.finish([-1 if leaf is None else leaf.id for leaf in leaves])

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
                graph, operands = self.trace(implementation, args, kwargs)
                results = self.emit(graph, operands, depth)
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
    ) -> tuple[GraphModule, list[Operand]]:
        leaves, spec = tree_flatten((args, kwargs))
        operands = list(dict.fromkeys(x for x in leaves if isinstance(x, Operand)))

        def function(*tensors: torch.Tensor) -> Any:
            values = dict(zip(operands, tensors, strict=True))
            inputs = [values[x] if isinstance(x, Operand) else x for x in leaves]
            inner_args, inner_kwargs = tree_unflatten(inputs, spec)
            result = implementation(*inner_args, **inner_kwargs)
            if result is NotImplemented:
                raise Undecomposable("the decomposition declines these arguments")
            return tuple(result) if isinstance(result, tuple) else result

        fakes = [operand.fake for operand in operands]
        with self.mode:
            graph = make_fx(function, _decompositions())(*fakes)
            if any(_is_mutable(node) for node in graph.graph.nodes):
                functional = dispatch_functionalize(function)
                graph = make_fx(functional, _decompositions())(*fakes)
        graph.graph.eliminate_dead_code()
        return graph, operands

    def emit(self, graph: GraphModule, operands: list[Operand], depth: int) -> Any:
        values: dict[Node, Any] = {}
        inputs = iter(operands)

        def value(argument: Any) -> Any:
            return tree_map(lambda x: values[x] if isinstance(x, Node) else x, argument)

        for node in graph.graph.nodes:
            if node.op == "placeholder":
                values[node] = next(inputs)
            elif node.op == "get_attr":
                values[node] = self.constant(getattr(graph, node.target))
            elif node.op == "output":
                return value(node.args[0])
            elif node.target is operator.getitem:
                values[node] = value(node.args[0])[node.args[1]]
            elif isinstance(node.target, OpOverload):
                values[node] = self.call(
                    node.target,
                    value(node.args),
                    value(dict(node.kwargs)),
                    node.meta.get("val"),
                    depth,
                )
            else:
                raise Undecomposable(f"{node.target} cannot be part of a program")
        raise AssertionError("a graph has an output")

    def call(
        self,
        op: OpOverload,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        result: Any,
        depth: int,
    ) -> Any:
        """Adds one operator of a trace: lowered, or decomposed further."""
        if op in _IDENTITIES:
            return args[0]
        if op in EMPTIES:
            return self.full(result, 0)
        if op._schema.is_mutable:
            raise Undecomposable(f"the decomposition writes to a tensor: {op.name()}")
        if torch.Tag.nondeterministic_seeded in op.tags:
            raise Undecomposable(f"{op.name()} draws random numbers")
        if op.name() in _lowered():
            try:
                return self.lower(op.name(), _positional(op, args, kwargs), result)
            except _C.Unsupported:
                if not _implementations(op):
                    raise
        return self.inline(op, args, kwargs, depth + 1)

    def lower(self, name: str, args: list[Any], result: Any) -> Any:
        """``builder.call`` with Operands in and out."""
        leaves, spec = tree_flatten(result)
        types: list[tuple[torch.dtype | None, list[int]]] = []
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor):
                types.append((leaf.dtype, list(leaf.shape)))
            elif leaf is None:
                types.append((None, []))
            else:
                raise Undecomposable(f"{name} gives a result that is no tensor")
        arguments = tree_map(
            lambda x: _C.Value(x.id) if isinstance(x, Operand) else x, args
        )
        ids = self.builder.call(name, arguments, types)
        results = [
            None if leaf is None else Operand(id_, leaf)
            for id_, leaf in zip(ids, leaves, strict=True)
        ]
        return tree_unflatten(results, spec)

    def full(self, result: FakeTensor, number: bool | int | float) -> Operand:
        args = [list(result.shape), number, result.dtype, None, None, None]
        return self.lower("aten::full", args, result)

    def constant(self, tensor: torch.Tensor) -> Operand:
        """A constant that the decomposition holds."""
        value = getattr(tensor, "constant", tensor)
        if value is None or isinstance(value, FakeTensor) or value.numel() != 1:
            raise Undecomposable("the decomposition holds a constant tensor")
        fake = FakeTensor(self.mode, value.to("meta"), self.device)
        return self.full(fake, value.item())


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


def _positional(
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
