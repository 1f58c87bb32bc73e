# SPDX-License-Identifier: Apache-2.0
"""Solvers whose C++ form in core runs only outside of graphs."""

import torch
from torch import Tensor

from torch_neuronx.decompositions import decomposition

aten = torch.ops.aten


@decomposition(aten.cholesky_solve.default)
def cholesky_solve(self: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    batch = torch.broadcast_shapes(self.shape[:-2], input2.shape[:-2])
    return aten._cholesky_solve_helper(
        self.expand(*batch, *self.shape[-2:]),
        input2.expand(*batch, *input2.shape[-2:]),
        upper,
    )
