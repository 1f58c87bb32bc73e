# SPDX-License-Identifier: Apache-2.0
"""What the C++ side asks Python for. The modules behind it are imported at the
first question, not at start-up."""

import os
from typing import Any

from torch_neuronx import _C

# Each makes the compile service tell of new programs from the start.
_LISTENING = (
    "TORCH_NEURONX_RECORD",
    "TORCH_NEURONX_LOGS",
    "TORCH_NEURONX_COMPILE_LOG",
)


def install() -> None:
    _C.set_decompose_callback(_decompose)
    _C.set_fallback_callback(_report_fallback)
    _C.set_hlo_converter(_to_hlo)
    _C.set_call_site(_call_site)
    if any(os.environ.get(name) for name in _LISTENING):
        from torch_neuronx import compilation

        compilation.listen_as_environment_says()


def _decompose(builder: Any, name: str, args: tuple, kwargs: dict) -> bool:
    from torch_neuronx import decompose

    return decompose.decompose(builder, name, args, kwargs)


def _report_fallback(name: str, reason: str = "") -> None:
    from torch_neuronx import fallback

    fallback.report(name, reason)


def _to_hlo(stablehlo: str) -> bytes | None:
    from torch_neuronx import compilation

    return compilation.to_hlo(stablehlo)


def _call_site() -> str:
    from torch_neuronx import fallback

    frame = fallback.call_site()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""
