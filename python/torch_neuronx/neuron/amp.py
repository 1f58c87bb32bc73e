# SPDX-License-Identifier: Apache-2.0
"""``torch.neuron.amp``: ``torch.amp`` with the device type filled in."""

import functools
from typing import Any

import torch

custom_fwd = functools.partial(torch.amp.custom_fwd, device_type="neuron")
custom_bwd = functools.partial(torch.amp.custom_bwd, device_type="neuron")


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that ``torch.autocast("neuron", dtype)`` takes. float32 is one:
    TorchTitan runs its router under it inside a bfloat16 region."""
    return [torch.bfloat16, torch.float16, torch.float32]


class autocast(torch.amp.autocast_mode.autocast):
    """``torch.autocast("neuron", ...)``."""

    def __init__(
        self,
        enabled: bool = True,
        dtype: torch.dtype = torch.bfloat16,
        cache_enabled: bool = True,
    ) -> None:
        super().__init__(
            "neuron", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled
        )


class GradScaler(torch.amp.GradScaler):
    """``torch.amp.GradScaler("neuron", ...)``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("neuron", **kwargs)
