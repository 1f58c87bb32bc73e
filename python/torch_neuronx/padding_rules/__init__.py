# SPDX-License-Identifier: Apache-2.0
"""What padding means to each operator, one file per family: where a padded dimension
of the operands is in the result, and which number as padding leaves the other elements
alone.

An operator without a rule here is refused.
"""

from typing import Any

import torch

from torch_neuronx import random_operators
from torch_neuronx.lowering import EMPTIES
from torch_neuronx.padding_rules import (  # noqa: F401
    attention,
    convolution,
    creation,
    indexing,
    loss,
    matmul,
    norm,
    pointwise,
    random,
    reduction,
    shape,
)
from torch_neuronx.padding_rules.call import Axes, Call, Padding, normal, product
from torch_neuronx.padding_rules.table import RULES

__all__ = ["Axes", "Call", "Padding", "apply", "normal", "product"]


def apply(call: Call) -> Any:
    """Adds the operator to the program: its results."""
    op = call.op
    if op in RULES:
        function, sizes = RULES[op]
    elif op in EMPTIES or op.name() in creation.CREATIONS:
        function, sizes = creation.create, frozenset({"size", "stride"})
    elif op in random_operators.RULES:
        function, sizes = random.draw, frozenset({"size"})
    elif torch.Tag.pointwise in op.tags or op in pointwise.POINTWISE:
        function, sizes = pointwise.pointwise, frozenset(a.name for a in call.schema)
    else:
        raise call.emitter.refusal("there is no rule that makes it safe")
    if more := set(call.depending()) - sizes:
        call.refuse(f"its argument {min(more)} depends on the size")
    return function(call)
