# SPDX-License-Identifier: Apache-2.0
"""Tells once per operator that it ran on the CPU, and from which line."""

import os
import sys
import warnings
from types import FrameType
from typing import Literal

import torch

from torch_neuronx import _C

_LIBRARIES = tuple(
    os.path.dirname(os.path.abspath(path)) + os.sep
    for path in (torch.__file__, __file__)
)
_reported: set[str] = set()


def set_fallback_mode(mode: Literal["warn", "silent", "error"]) -> None:
    """What happens when an operator has no device program: "warn" (the default)
    runs it on the CPU and says so once per operator, "silent" only counts it,
    "error" raises. ``TORCH_NEURONX_FALLBACK`` sets the same at the start."""
    if mode not in ("warn", "silent", "error"):
        raise ValueError(f"expected 'warn', 'silent' or 'error', but got: {mode!r}")
    _C.set_fallback_mode(mode)


def report(name: str, reason: str = "") -> None:
    """Warns that operator ``name`` ran on the CPU, unless it did before."""
    if name in _reported:
        return
    _reported.add(name)
    frame = call_site()
    where = "from a thread without Python code, such as backward's"
    if frame is not None:
        where = f"from {frame.f_code.co_filename}:{frame.f_lineno}"
    message = (
        f"[{name}] is not implemented on neuron and ran on the CPU"
        + (f" ({reason})" if reason else "")
        + f"; called {where}. Further calls are counted in "
        "torch_neuronx.get_fallback_ops(); TORCH_NEURONX_FALLBACK=error raises."
    )
    if frame is None:
        warnings.warn(message, UserWarning, stacklevel=2)
    else:
        warnings.warn_explicit(
            message, UserWarning, frame.f_code.co_filename, frame.f_lineno
        )


def forget() -> None:
    """Each operator is reported anew."""
    _reported.clear()


def call_site() -> FrameType | None:
    """The innermost frame outside PyTorch and this package, or None."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_LIBRARIES) and not file.startswith("<"):
            return frame
        frame = frame.f_back
    return None
