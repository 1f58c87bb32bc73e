# SPDX-License-Identifier: Apache-2.0
"""What the C++ side asks Python for. The modules behind it are imported at the
first question, not at start-up."""

from typing import Any

from torch_neuronx import _C


def install() -> None:
    _C.set_decompose_callback(_decompose)
    _C.set_fallback_callback(_report_fallback)
    _C.set_call_site_callback(_call_site)


def _decompose(builder: Any, name: str, args: tuple, kwargs: dict) -> bool:
    from torch_neuronx import decompose

    return decompose.decompose(builder, name, args, kwargs)


def _report_fallback(name: str, reason: str = "") -> None:
    from torch_neuronx import fallback

    fallback.report(name, reason)


def _call_site() -> str:
    from torch_neuronx import fallback

    frame = fallback.call_site()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""
