# SPDX-License-Identifier: Apache-2.0
"""Which operators ran on the device and which fell back to the CPU."""

from torch_neuronx import _C


def get_executed_ops() -> dict[str, int]:
    """Calls per operator, as in ``{"aten::add.Tensor": 3}``, that ran on the
    device since the start or ``clear_op_tracking``."""
    return _C.executed_ops()


def get_fallback_ops() -> dict[str, int]:
    """Calls per operator that ran on the CPU instead."""
    return _C.fallback_ops()


def clear_op_tracking() -> None:
    """Forgets both counts; each operator that falls back is warned of again."""
    from torch_neuronx import fallback

    _C.clear_op_tracking()
    fallback.forget()
