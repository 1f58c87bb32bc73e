# SPDX-License-Identifier: Apache-2.0
"""What an operator becomes on the device."""

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket

from torch_neuronx import _C

Program = _C.Program


def program(op: str | Callable[..., Any], *args: Any, **kwargs: Any) -> Program:
    """The program that ``op`` becomes for these arguments, to print or read.

    Args:
        op: ``torch.ops.aten.add.Tensor``, ``torch.ops.aten.add``,
            ``"aten::add.Tensor"``, ``"aten::add"``, or a function of ``torch`` of
            the operator's name, such as ``torch.softmax``.
        args, kwargs: example arguments; of tensors only shapes, strides and dtypes
            matter.

    ``print(program)`` shows it; ``program.stablehlo`` is the text that a
    compiler gets.
    """
    return _C.program(_overload_name(op, args, kwargs), args, kwargs)


def _overload_name(op: str | Callable[..., Any], args: tuple, kwargs: dict) -> str:
    if isinstance(op, OpOverload):
        return op.name()
    if isinstance(op, OpOverloadPacket):
        name = op._qualified_op_name
    elif isinstance(op, str):
        name = op if "::" in op else f"aten::{op}"
        if "." in name:
            return name
    else:
        name = f"aten::{getattr(op, '__name__', op)}"
    overload = torch._C._jit_resolve_packet(name, *args, **kwargs)
    return f"{name}.{overload}" if overload and overload != "default" else name
