# SPDX-License-Identifier: Apache-2.0
"""Every difference between PyTorch versions, and every registration that waits
for a part of PyTorch to be imported."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from ._import_hooks import after_import


def install() -> None:
    _print_from_the_host()
    # Compiled activation checkpointing with dropout keeps generator states in
    # graphs; the registry imports functorch.
    after_import("torch._functorch._aot_autograd.utils", _register_graphsafe_rng)
    after_import("torch.nn.attention.flex_attention", _allow_flex_attention)


def _allow_flex_attention(module: ModuleType) -> None:
    """Its list of devices is closed (torch 2.13 and 2.14)."""
    validate = module._validate_device

    def _validate_device(
        query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> None:
        if query.device.type != "neuron":
            validate(query, key, value)

    module._validate_device = _validate_device


def _register_graphsafe_rng(utils: ModuleType) -> None:
    utils.register_graphsafe_rng_device_type("neuron")


def _print_from_the_host() -> None:
    """``print(tensor)`` formats a copy on the CPU: the stock code runs a dozen
    operators in float64 on the tensor's own device (torch 2.13 and 2.14)."""
    from torch import _tensor_str

    format_data = _tensor_str._tensor_str

    def _tensor_str_from_host(self: torch.Tensor, indent: int) -> str:
        if self.device.type == "neuron":
            self = self.detach().cpu()
        return format_data(self, indent)

    _tensor_str._tensor_str = _tensor_str_from_host


def custom_op_body(name: str, device: str) -> Callable[..., Any] | None:
    """What ``torch.library.custom_op`` decorated, if that is for this device: the
    registered kernel hides its operators from a trace (torch 2.13 and 2.14)."""
    from torch._library.custom_ops import OPDEFS

    definition = OPDEFS.get(name)
    if definition is None or not {None, device} & definition._backend_fns.keys():
        return None
    return definition._init_fn
