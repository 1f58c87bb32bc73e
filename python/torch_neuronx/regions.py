# SPDX-License-Identifier: Apache-2.0
"""Graphs with repeated regions (``torch.compiler.nested_compile_region``): a program
for each region, run as often as the graph calls it, and one for each stretch between
them."""

import operator
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._higher_order_ops.invoke_subgraph import invoke_subgraph
from torch.fx import Graph, GraphModule, Node

Compiled = Callable[[list[Any]], Sequence[Any]]
Compile = Callable[[GraphModule, list[Any]], Compiled]


@dataclass
class _Step:
    """A program with the values of the graph that it gets and gives."""

    function: Compiled
    inputs: list[Node]
    outputs: list[Node | None]
    # Values that nothing needs afterwards.
    dead: list[Node] = field(default_factory=list)


def repeated(module: GraphModule) -> set[str]:
    """Names of the regions that the graph calls more than once."""
    calls = Counter(
        str(node.args[0].target)  # type: ignore[union-attr]
        for node in module.graph.nodes
        if node.target is invoke_subgraph
    )
    return {name for name, count in calls.items() if count > 1}


def compile(module: GraphModule, args: list[Any], one: Compile) -> Compiled:
    """The function of a graph with repeated regions.

    Args:
        args: examples, possibly fake.
        one: compiles a graph without repeated regions.
    """
    names = repeated(module)
    placeholders = module.graph.find_nodes(op="placeholder")
    examples = dict(zip(placeholders, args, strict=True))
    made: dict[str, Compiled] = {}
    steps: list[_Step] = []
    stretch: list[Node] = []

    def example(node: Node) -> Any:
        return examples.get(node, node.meta.get("val"))

    def flush() -> None:
        if not stretch:
            return
        part, inputs, outputs = _part(module, stretch)
        if outputs or any(_writes(node) for node in stretch):
            function = one(part, [example(node) for node in inputs])
            steps.append(_Step(function, inputs, list(outputs)))
        stretch.clear()

    for node in module.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        if node.target is operator.getitem and _is_region(node.args[0], names):
            continue
        if node.op == "get_attr" and node.target in names:
            continue
        if not _is_region(node, names):
            stretch.append(node)
            continue
        flush()
        name = node.args[0].target
        inputs = list(node.args[2:])
        if name not in made:
            made[name] = one(getattr(module, name), [example(n) for n in inputs])
        count = len(getattr(module, name).graph.output_node().args[0])
        outputs: list[Node | None] = [None] * count
        for user in node.users:
            outputs[user.args[1]] = user
        steps.append(_Step(made[name], inputs, outputs))
    flush()
    results = list(module.graph.output_node().args[0])
    _find_dead(steps, results)

    def call(args: list[Any]) -> list[Any]:
        values: dict[Any, Any] = dict(zip(placeholders, args, strict=True))
        args.clear()
        for step in steps:
            given = [values[n] if isinstance(n, Node) else n for n in step.inputs]
            for node in step.dead:
                values.pop(node, None)
            made = step.function(given)
            for node, value in zip(step.outputs, made, strict=True):
                if node is not None:
                    values[node] = value
        return [values[n] if isinstance(n, Node) else n for n in results]

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _is_region(node: Any, names: set[str]) -> bool:
    return (
        isinstance(node, Node)
        and node.target is invoke_subgraph
        and node.args[0].target in names  # type: ignore[union-attr]
    )


def _writes(node: Node) -> bool:
    return node.target is torch.ops.aten.copy_.default


def _part(
    module: GraphModule, nodes: list[Node]
) -> tuple[GraphModule, list[Node], list[Node]]:
    """A graph of these nodes, what it needs and what others need of it."""
    inside = set(nodes)
    inputs = list(
        dict.fromkeys(n for x in nodes for n in x.all_input_nodes if n not in inside)
    )
    outputs = [n for n in nodes if not n.users.keys() <= inside]
    graph = Graph()
    copies: dict[Node, Node] = {}
    for node in inputs:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta = dict(node.meta)
    for node in nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[node] for node in outputs))
    return GraphModule(module, graph), inputs, outputs


def _find_dead(steps: list[_Step], results: list[Any]) -> None:
    needed = {node for node in results if isinstance(node, Node)}
    for step in reversed(steps):
        here = {node for node in step.inputs if isinstance(node, Node)}
        step.dead = [node for node in here if node not in needed]
        needed |= here
