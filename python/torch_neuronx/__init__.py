# SPDX-License-Identifier: Apache-2.0
"""AWS Trainium as the PyTorch device ``neuron``.

Importing this package is not needed: ``import torch`` loads it through the
``torch.backends`` entry point. Its own names (operator tracking, metrics,
programs, memory statistics) are listed in ``__all__``.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

__version__ = "2.13.0"


def _autoload() -> None:
    """Entry point of ``import torch``. Defined before ``import torch`` below,
    which may call it while this module is still half imported."""
    from torch_neuronx import _startup

    _startup.autoload()


import torch as _torch  # noqa: E402

from torch_neuronx import _startup  # noqa: E402

if not _startup.is_importing(_torch):
    _startup.start()

# Public name -> module that defines it, imported at first use.
_EXPORTS = {
    "get_executed_ops": "tracking",
    "get_fallback_ops": "tracking",
    "clear_op_tracking": "tracking",
    "set_fallback_mode": "fallback",
    "metrics": "metrics",
    "reset_metrics": "metrics",
    "record": "records",
    "recompiles": "recompilation",
    "program": "programs",
    "Program": "programs",
    "Stream": "neuron.streams",
    "Event": "neuron.streams",
    "empty_cache": "neuron.memory",
    "mem_get_info": "neuron.memory",
    "memory_allocated": "neuron.memory",
    "memory_reserved": "neuron.memory",
    "memory_snapshot": "neuron.memory",
    "memory_stats": "neuron.memory",
    "memory_stats_as_nested_dict": "neuron.memory",
    "memory_summary": "neuron.memory",
    "max_memory_allocated": "neuron.memory",
    "max_memory_reserved": "neuron.memory",
    "reset_accumulated_memory_stats": "neuron.memory",
    "reset_peak_memory_stats": "neuron.memory",
}

# Modules to be reached by attribute, imported at first use.
_MODULES = ("generation", "neuron_dynamo_backend")

__all__ = ["__version__", *_EXPORTS, *_MODULES]


def __getattr__(name: str) -> _Any:
    if name in _MODULES:
        _startup.start()
        return _import_module(f"{__name__}.{name}")
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _startup.start()
    home = _import_module(f"{__name__}.{_EXPORTS[name]}")
    # All of its names: the import has put the module `metrics` in the place of the
    # function.
    for other, where in _EXPORTS.items():
        if where == _EXPORTS[name]:
            globals()[other] = getattr(home, other)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS, *_MODULES})
