# SPDX-License-Identifier: Apache-2.0
"""Why a program was compiled although the operator had one."""

import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from torch_neuronx import _C, compilation

# Older programs of an operator that a new one is compared with.
_CANDIDATES = 256
_ARGUMENT = re.compile(r"(\S+)( #\d+)? argument (\d+)")

_Signature = dict[tuple[str, str], str]
_signatures: dict[int, _Signature] = {}


@dataclass(frozen=True)
class Difference:
    """``kind``: "shape", "dtype", "stride", "scalar" or "flag"; "operation" where the
    programs have different ones; "result" where nothing else differs."""

    kind: str
    where: str  # "input 0", "aten.add.Tensor alpha"
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.kind} of {self.where}: {self.old} -> {self.new}"


@dataclass(frozen=True)
class Recompile:
    """A program that was new, and the nearest one of its operator."""

    name: str
    operands: str
    call_site: str
    nearest: str | None  # its operands; None: the operator's first program
    differences: tuple[Difference, ...]

    def __str__(self) -> str:
        where = f", called from {self.call_site}" if self.call_site else ""
        head = f"[{self.name}] on ({self.operands}){where}"
        if self.nearest is None:
            return f"{head}: the operator's first program"
        lines = "".join(f"\n  {difference}" for difference in self.differences)
        return f"{head}: compiled again; nearest is ({self.nearest}){lines}"


@contextmanager
def recompiles() -> Iterator[list[Recompile]]:
    """Collects a ``Recompile`` for each program that is new meanwhile::

    with torch_neuronx.recompiles() as found:
        model(batch)
    print(*found, sep="\\n")
    """
    found: list[Recompile] = []

    def add(event: compilation.Event) -> None:
        found.append(explain(event))

    compilation.listen(add)
    try:
        yield found
    finally:
        compilation.stop(add)


def log() -> None:
    """TORCH_NEURONX_LOGS=recompiles: each to stderr, through the logger
    "torch_neuronx.recompiles"."""
    logger = logging.getLogger("torch_neuronx.recompiles")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    compilation.listen(lambda event: logger.info("%s", explain(event)))


def explain(event: compilation.Event) -> Recompile:
    """Compares a new program with those of its operator in memory."""
    new = _signature(event["program"], event["scalar_count"])
    nearest: dict[str, Any] | None = None
    fewest: list[Difference] = []
    for other in reversed(_C.executables(event["name"])[-_CANDIDATES - 1 :]):
        if other["program"] == event["program"]:
            continue
        old = _signatures.get(other["id"])
        if old is None:
            old = _signature(other["program"], other["scalar_count"])
            _signatures[other["id"]] = old
        differences = _compare(old, new)
        if nearest is None or len(differences) < len(fewest):
            nearest, fewest = other, differences
    return Recompile(
        event["name"],
        event["operands"],
        event["call_site"],
        nearest["operands"] if nearest else None,
        tuple(fewest),
    )


def _signature(program: bytes, scalar_count: int) -> _Signature:
    fields = _C.signature(program, scalar_count)
    return {_named(kind, where): value for kind, where, value in fields}


def _compare(old: _Signature, new: _Signature) -> list[Difference]:
    differences = [
        Difference(*key, old.get(key, "none"), new.get(key, "none"))
        for key in [*new, *(key for key in old if key not in new)]
        if old.get(key) != new.get(key)
    ]
    return [d for d in differences if not _follows(d)] or differences


def _follows(difference: Difference) -> bool:
    """From another difference: what is called for gives result and layout."""
    return difference.kind == "result" or difference.where.startswith("neuronx.")


def _named(kind: str, where: str) -> tuple[str, str]:
    """With the schema's names: "aten.add.Tensor alpha", a scalar."""
    match = _ARGUMENT.fullmatch(where)
    if not match:
        return kind, where
    operator, occurrence, position = match.groups()
    namespace, _, rest = operator.partition(".")
    base, _, overload = rest.partition(".")
    try:
        packet = getattr(getattr(torch.ops, namespace), base)
        schema = getattr(packet, overload or "default")._schema
        argument = schema.arguments[int(position)]
    except (AttributeError, IndexError):
        return kind, where
    if "Scalar" in str(argument.real_type) or str(argument.real_type) == "number":
        kind = "scalar"
    return kind, f"{operator}{occurrence or ''} {argument.name}"
