# SPDX-License-Identifier: Apache-2.0
"""The rules by operator."""

from collections.abc import Callable, Sequence
from typing import Any

from torch._ops import OpOverload

from torch_neuronx.padding_rules.call import Call

Rule = Callable[[Call], Any]
# With the arguments that may be numbers which depend on padded sizes.
RULES: dict[OpOverload, tuple[Rule, frozenset[str]]] = {}


def rule(*ops: OpOverload, sizes: Sequence[str] = ()) -> Callable[[Rule], Rule]:
    def add(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(ops, (function, frozenset(sizes))))
        return function

    return add
