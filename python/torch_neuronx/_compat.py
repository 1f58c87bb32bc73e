# SPDX-License-Identifier: Apache-2.0
"""Every difference between PyTorch versions, internals of PyTorch that may become
one, and every registration that waits for a part of PyTorch to be imported."""

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

import torch
from torch._ops import OpOverload
from torch.fx import Node

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


def kernel(op: OpOverload, key: str) -> Callable[..., Any] | None:
    """What the dispatcher calls for ``op`` under the dispatch key named ``key``
    (torch 2.13 and 2.14)."""
    if not torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key):
        return None
    return functools.partial(op._op_dk, getattr(torch._C.DispatchKey, key))


def prims() -> dict[Any, Callable[..., Any]]:
    """The prims that PyTorch's references are written in, and the ATen form that each
    of them knows (torch 2.13 and 2.14)."""
    from torch import _prims

    named = (getattr(_prims, name, None) for name in _prims.__all__)
    return {prim: prim.impl_aten for prim in named if hasattr(prim, "impl_aten")}


def source(placeholder: Node) -> str | None:
    """What Dynamo made a graph's input of, as in ``L['x']`` (torch 2.13 and 2.14)."""
    found = getattr(placeholder, "_dynamo_source", None)
    return None if found is None else found.name


def is_marked_static(example: torch.Tensor, dim: int) -> bool:
    """Whether ``torch._dynamo.mark_static`` fixed the size (torch 2.13 and 2.14)."""
    return dim in getattr(example, "_dynamo_static_indices", ())


def make_sizes_symbolic(sizes: dict[str, list[int]]) -> bool:
    """Tells Dynamo that sizes of the frame it captures change, as if it had seen them
    do so (torch 2.13 and 2.14).

    Args:
        sizes: dimensions by the ``source`` of their tensor.

    Returns False if Dynamo knows, or may not make them symbolic.
    """
    from torch._dynamo.pgo import (
        CodeId,
        FrameStateSizeEntry,
        auto_dynamic,
        get_code_state,
    )
    from torch._dynamo.symbolic_convert import InstructionTranslator

    if not torch._dynamo.config.automatic_dynamic_shapes:
        return False
    tx = InstructionTranslator.current_tx()
    state = get_code_state()[CodeId.make(tx.f_code, tx.closure)].automatic_dynamic
    news = False
    for name, dims in sizes.items():
        entry = state.get(name)
        if entry is None or not isinstance(entry.size, tuple):
            continue
        size = list(entry.size)
        for dim in dims:
            news = news or size[dim] is not auto_dynamic
            size[dim] = auto_dynamic
        state[name] = FrameStateSizeEntry(entry.scalar, tuple(size), entry.stride)
    return news


def restart_capture(reason: str) -> NoReturn:
    """Has Dynamo capture the frame again; for a backend that it calls with a graph
    (torch 2.13 and 2.14)."""
    from torch._dynamo.exc import TensorifyScalarRestartAnalysis

    raise TensorifyScalarRestartAnalysis(restart_reason=reason)
