# SPDX-License-Identifier: Apache-2.0
"""Gradients of the margin losses."""

import torch
from torch import Tensor

from torch_neuronx.decompositions import decomposition

aten = torch.ops.aten

_NONE, _MEAN = 0, 1


def _rows(self: Tensor) -> Tensor:
    wide = self.to(torch.float32) if self.dtype.itemsize < 4 else self
    return wide.reshape(-1, self.shape[-1] if self.dim() else 1)


def _incoming(grad: Tensor, rows: Tensor, reduction: int) -> Tensor:
    """The loss's gradient per row: [rows or 1, 1]."""
    grad = grad.to(rows.dtype).reshape(-1, 1) / rows.shape[1]
    return grad / rows.shape[0] if reduction == _MEAN else grad


def _one_hot(index: Tensor, classes: int) -> Tensor:
    return index.unsqueeze(-1) == torch.arange(classes, device=index.device)


@decomposition(aten.multi_margin_loss_backward.default)
def multi_margin_loss_backward(
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    p: float,
    margin: float,
    weight: Tensor | None = None,
    reduction: int = _MEAN,
) -> Tensor:
    x = _rows(self)
    target = target.reshape(-1)
    is_target = _one_hot(target, x.shape[1])
    excess = margin - x.gather(1, target.unsqueeze(1)) + x
    slope = torch.ones_like(x) if p == 1 else 2 * excess
    share = torch.where((excess > 0) & ~is_target, slope, 0.0)
    if weight is not None:
        share = share * weight.to(x.dtype).index_select(0, target).unsqueeze(1)
    share = torch.where(is_target, -share.sum(1, keepdim=True), share)
    share = share * _incoming(grad_output, x, reduction)
    return share.reshape(self.shape).to(self.dtype)


@decomposition(aten.multilabel_margin_loss_backward.default)
def multilabel_margin_loss_backward(
    grad_output: Tensor, self: Tensor, target: Tensor, reduction: int, is_target: Tensor
) -> Tensor:
    x = _rows(self)
    target = target.reshape(x.shape)
    # A row's targets end at the first -1.
    valid = (target < 0).to(torch.int64).cumsum(1) == 0
    target = torch.where(valid, target, 0)
    other = is_target.reshape(x.shape) == 0
    # [rows, targets, classes]
    excess = 1 - x.gather(1, target).unsqueeze(2) + x.unsqueeze(1)
    active = (excess > 0) & valid.unsqueeze(2) & other.unsqueeze(1)
    active = active.to(x.dtype)
    share = active.sum(1).scatter_add(1, target, -active.sum(2))
    share = share * _incoming(grad_output, x, reduction)
    return share.reshape(self.shape).to(self.dtype)
