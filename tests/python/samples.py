# SPDX-License-Identifier: Apache-2.0
"""Random operands of the tables of calls."""

import torch
from torch import Tensor


def f(*shape: int) -> Tensor:
    return torch.randn(shape)


def positive(*shape: int) -> Tensor:
    return torch.rand(shape) + 0.5


def unit(*shape: int) -> Tensor:
    return torch.rand(shape) * 1.8 - 0.9


def ints(*shape: int, low: int = -5, high: int = 6) -> Tensor:
    return torch.randint(low, high, shape)


def mask(*shape: int) -> Tensor:
    return torch.rand(shape) > 0.5
