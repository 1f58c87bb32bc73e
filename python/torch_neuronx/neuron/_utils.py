# SPDX-License-Identifier: Apache-2.0
"""Device arguments as indices."""

from typing import Any

import torch

from torch_neuronx import _C


def _get_device_index(
    device: Any, optional: bool = False, allow_cpu: bool = False
) -> int:
    """The index that ``device`` names.

    Args:
        device: ``torch.device``, ``"neuron"``, ``"neuron:1"``, an int, a
            ``torch.neuron.device`` or None.
        optional: whether a device without an index, or None, means the current
            device. Without it they raise ValueError.
        allow_cpu: whether CPU devices are accepted; they give -1.

    Strings and ints are read here and not through ``torch.device``, whose index
    has eight bits: ``torch.device("neuron", 256)`` is device 0.
    """
    if isinstance(device, bool):
        raise TypeError(f"expected a neuron device or its index, but got: {device}")
    if isinstance(device, int):
        return device
    if isinstance(device, str):
        kind, _, index = device.partition(":")
        if kind == "neuron" and index.isdecimal():
            return int(index)
        device = torch.device(device)
    if isinstance(device, torch.device):
        if allow_cpu and device.type == "cpu":
            return -1
        if device.type != "neuron":
            raise ValueError(f"Expected a neuron device, but got: {device}")
        device = device.index
    elif device is not None:
        index = getattr(device, "idx", None)
        if index is None:
            raise TypeError(f"expected a neuron device or its index, but got: {device}")
        device = index
    if device is not None:
        return device
    if not optional:
        raise ValueError(
            "Expected a neuron device with an index, as in 'neuron:0', or an integer"
        )
    return _C.current_device()
