# SPDX-License-Identifier: Apache-2.0
"""Decompositions that PyTorch lacks, or whose form suits the device better: one
file per family. Each is a function of the operator's own arguments, written in
operators that are lowered or decompose in turn; it is traced, never run.

On the simulator the operator still runs as ATen's CPU kernel of its name; what is
written here is the hardware's program.
"""

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

from torch._ops import OpOverload

Decomposition = Callable[..., Any]

_table: dict[OpOverload, Decomposition] = {}


def decomposition(*ops: OpOverload) -> Callable[[Decomposition], Decomposition]:
    """Registers the decorated function for ``ops``: functional overloads."""

    def register(function: Decomposition) -> Decomposition:
        for op in ops:
            if op in _table:
                raise ValueError(f"{op.name()} has a decomposition already")
            _table[op] = function
        return function

    return register


def decompositions() -> dict[OpOverload, Decomposition]:
    """Of all families."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return _table
