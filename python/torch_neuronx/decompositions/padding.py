# SPDX-License-Identifier: Apache-2.0
"""Gradients of padding."""

from collections.abc import Sequence

import torch
from torch import Tensor

from torch_neuronx.decompositions import decomposition

aten = torch.ops.aten


def _fold_edges(grad: Tensor, dim: int, size: int, left: int, right: int) -> Tensor:
    """What was repeated beyond an edge is added to it. Negative padding took
    elements away, which have no gradient."""
    out = grad.shape[dim]
    # Beyond both edges where the padding on one side is more than the rest.
    first, last = min(max(left, 0), out), max(out - max(right, 0), 0)
    middle = grad.narrow(dim, first, max(last - first, 0))
    behind = grad.dim() - 1 - dim
    middle = aten.constant_pad_nd(
        middle, [0, 0] * behind + [max(-left, 0), max(-right, 0)]
    )
    edges = []
    if left > 0:
        edges.append((0, grad.narrow(dim, 0, first)))
    if right > 0:
        edges.append((size - 1, grad.narrow(dim, last, out - last)))
    for at, beyond in edges:
        total = beyond.sum(dim, keepdim=True)
        middle = middle + aten.constant_pad_nd(
            total, [0, 0] * behind + [at, size - 1 - at]
        )
    return middle


@decomposition(
    aten.replication_pad1d_backward.default,
    aten.replication_pad2d_backward.default,
    aten.replication_pad3d_backward.default,
)
def replication_pad_backward(
    grad_output: Tensor, self: Tensor, padding: Sequence[int]
) -> Tensor:
    dtype = grad_output.dtype
    grad = grad_output.to(torch.float32) if dtype.itemsize < 4 else grad_output
    for i in range(len(padding) // 2):
        dim = self.dim() - 1 - i
        left, right = padding[2 * i : 2 * i + 2]
        grad = _fold_edges(grad, dim, self.shape[dim], left, right)
    return grad.to(dtype)
