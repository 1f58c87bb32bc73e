# SPDX-License-Identifier: Apache-2.0
"""Every difference between PyTorch versions, and every registration that waits
for a part of PyTorch to be imported."""

from types import ModuleType

from ._import_hooks import after_import


def install() -> None:
    # Compiled activation checkpointing with dropout keeps generator states in
    # graphs; the registry imports functorch.
    after_import("torch._functorch._aot_autograd.utils", _register_graphsafe_rng)


def _register_graphsafe_rng(utils: ModuleType) -> None:
    utils.register_graphsafe_rng_device_type("neuron")
