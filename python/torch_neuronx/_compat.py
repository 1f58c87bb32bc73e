# SPDX-License-Identifier: Apache-2.0
"""Every difference between PyTorch versions, and every registration that waits
for a part of PyTorch to be imported."""

from types import ModuleType

import torch

from ._import_hooks import after_import

TORCH_VERSION: tuple[int, int] = tuple(
    int(part) for part in torch.__version__.split(".")[:2]
)  # type: ignore[assignment]


def install() -> None:
    # Compiled activation checkpointing with dropout keeps generator states in
    # graphs; the registry imports functorch.
    after_import("torch._functorch._aot_autograd.utils", _register_graphsafe_rng)


def _register_graphsafe_rng(utils: ModuleType) -> None:
    utils.register_graphsafe_rng_device_type("neuron")
