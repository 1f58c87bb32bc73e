# SPDX-License-Identifier: Apache-2.0
"""Contractions of three operands."""

import string
from collections.abc import Sequence

import torch
from torch import Tensor

from torch_neuronx.decompositions import decomposition

aten = torch.ops.aten


@decomposition(aten._trilinear.default)
def trilinear(
    i1: Tensor,
    i2: Tensor,
    i3: Tensor,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Tensor:
    # Operand k lacks the dimensions expand[k] of the product that is summed.
    letters = string.ascii_lowercase[: i1.dim() + len(expand1)]

    def without(dims: Sequence[int]) -> str:
        return "".join(x for d, x in enumerate(letters) if d not in dims)

    terms = ",".join(without(dims) for dims in (expand1, expand2, expand3))
    return torch.einsum(f"{terms}->{without(sumdim)}", i1, i2, i3)
