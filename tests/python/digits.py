# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits, and networks that are trained on them in tests and benchmarks."""

import torch
from sklearn.datasets import load_digits
from torch import nn


def load() -> tuple[torch.Tensor, torch.Tensor]:
    """1797 images, float32[n, 8, 8] from 0 to 1, and their classes."""
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32) / 16
    return images, torch.tensor(data.target)


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 10)
    )


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 8)),
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )
