# SPDX-License-Identifier: Apache-2.0
"""Which dimensions ``options={"buckets": ...}`` pads, and to which sizes."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from torch_neuronx import _compat

VARIABLE = "TORCH_NEURONX_BUCKETS"
POWERS = "pow2"


@dataclass(frozen=True)
class Bucket:
    """The sizes that a symbolic size is rounded up to.

    Args:
        sizes: ascending; empty for the powers of two.
        label: of the dimension, for messages.
    """

    sizes: tuple[int, ...]
    label: str

    def size(self, n: int) -> int:
        if not self.sizes:
            return max(2, 1 << (n - 1).bit_length())
        for size in self.sizes:
            if size >= n:
                return size
        raise ValueError(
            f"{self.label} is {n}, above the largest of its buckets {self.sizes[-1]}"
        )


@dataclass(frozen=True)
class Rule:
    """``dim`` of the input ``name``, or of every input that has it."""

    name: str | None
    dim: int
    sizes: tuple[int, ...]


def rules(option: Any = None) -> tuple[Rule, ...]:
    """From ``options["buckets"]``, or without one from ``TORCH_NEURONX_BUCKETS``.

    Args:
        option: ``{dim: sizes}`` for every input, ``{name: {dim: sizes}}`` for one;
            sizes are a list of ints, or "pow2".
    """
    if option is None:
        return _from_environment()
    if not isinstance(option, dict):
        raise ValueError(_expected('options["buckets"]', option))
    found = []
    for key, value in option.items():
        name = key if isinstance(key, str) else None
        dims = {key: value} if name is None else value
        if not isinstance(dims, dict) or not all(type(d) is int for d in dims):
            raise ValueError(_expected('options["buckets"]', option))
        found += [Rule(name, dim, _sizes(sizes)) for dim, sizes in dims.items()]
    return tuple(found)


def _expected(what: str, found: Any) -> str:
    return (
        f"{what} is {found!r}; expected {{dimension: sizes}} or "
        '{"input": {dimension: sizes}}, sizes being a list of positive ints or "pow2"'
    )


def _sizes(value: Any) -> tuple[int, ...]:
    if value == POWERS:
        return ()
    if not isinstance(value, (list, tuple)) or not value:
        raise ValueError(_expected("the sizes of a bucket", value))
    if not all(isinstance(n, int) and n > 0 for n in value):
        raise ValueError(_expected("the sizes of a bucket", value))
    return tuple(sorted(set(value)))


def _from_environment() -> tuple[Rule, ...]:
    text = os.environ.get(VARIABLE, "")
    found = []
    for part in filter(None, (part.strip() for part in text.split(";"))):
        match = re.fullmatch(r"(?:(\w+)\.)?(-?\d+)=(pow2|\d+(?:,\d+)*)", part)
        if match is None:
            raise ValueError(
                f'{VARIABLE}={text!r}: expected "dimension=sizes" or '
                '"input.dimension=sizes", with ";" between, as in '
                '"1=pow2" or "input_ids.1=64,128,256"'
            )
        name, dim, sizes = match.groups()
        if sizes != POWERS:
            sizes = [int(n) for n in sizes.split(",")]
        found.append(Rule(name, int(dim), _sizes(sizes)))
    return tuple(found)


def symbols(
    rules: tuple[Rule, ...], graph: GraphModule, warn: Callable[[str], None]
) -> dict[Any, Bucket]:
    """The sizes of ``graph``, of Dynamo, that are padded, as symbols.

    A size that Dynamo took for a constant is made symbolic by capturing the graph
    again: this raises what restarts Dynamo.
    """
    found: dict[Any, Bucket] = {}
    fixed: dict[str, list[int]] = {}
    for node in graph.graph.nodes:
        example = node.meta.get("example_value")
        source = _source(node, example)
        if source is None:
            continue
        name = _name(source) or node.name
        for rule in rules:
            if rule.name not in (None, name):
                continue
            if not -example.dim() <= rule.dim < example.dim():
                continue
            dim = rule.dim % example.dim()
            size = example.shape[dim]
            label = f"dimension {dim} of {name}"
            if isinstance(size, torch.SymInt) and not size.node.expr.is_Integer:
                if size.node.expr.is_Symbol:
                    found.setdefault(size.node.expr, Bucket(rule.sizes, label))
            elif int(size) > 1 and (
                rule.name is not None or not _compat.is_marked_static(example, dim)
            ):
                fixed.setdefault(source, []).append(dim)
    if fixed and _compat.make_sizes_symbolic(fixed):
        _compat.restart_capture("buckets")
    for source, dims in fixed.items():
        warn(
            f"dimension {dims[0]} of {source} has buckets, but its size is a constant "
            "of the captured graph: each size has a program of its own"
        )
    return found


def _source(node: Node, example: Any) -> str | None:
    """Of a tensor that the caller passes: neither parameter nor buffer."""
    if node.op != "placeholder" or not isinstance(example, torch.Tensor):
        return None
    if example.dim() == 0 or isinstance(example, torch.nn.Parameter):
        return None
    source = _compat.source(node)
    if source is None or re.search(r"_parameters|_buffers|^G\[", source):
        return None
    return source


def _name(source: str) -> str | None:
    """Of ``L['inputs']['x']`` the last key."""
    parts = re.findall(r"\['(\w+)'\]|\.(\w+)$", source)
    return next(filter(None, parts[-1]), None) if parts else None
