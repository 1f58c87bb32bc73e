# SPDX-License-Identifier: Apache-2.0
"""Which logical NeuronCores there are, which one is current, and the start of
the runtime. Queries start nothing and take no core."""

import os
import threading
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from torch_neuronx import _C

from ._utils import _get_device_index

_initialized = False
_initialized_before_fork = False
_in_bad_fork = False
_initialization_lock = threading.RLock()
_thread = threading.local()


class _QueuedCall(NamedTuple):
    call: Callable[[], None]
    stack: list[str]
    seeds: str


_queued_calls: list[_QueuedCall] = []


class DeviceProperties(NamedTuple):
    """What a logical NeuronCore is.

    ``name`` is the chip (``"trn2"``, ``"trn3"``...), ``total_memory`` is in
    bytes, ``multi_processor_count`` is the number of physical cores behind the
    logical one.
    """

    name: str
    total_memory: int
    arch: str
    multi_processor_count: int
    logical_core_config: int


def is_available() -> bool:
    """Whether there is a device to use. Never throws, starts no runtime."""
    return _C.is_available()


def device_count() -> int:
    """The number of logical NeuronCores that this process may use; 0 when there
    is none or ``NEURON_RT_VISIBLE_CORES`` is malformed. Never throws."""
    return _C.device_count()


def is_initialized() -> bool:
    """Whether the runtime has been started in this process."""
    return _C.is_initialized() and not _in_bad_fork


def init() -> None:
    """Starts the runtime, which else starts at the first use of a device."""
    _lazy_init()


def _is_in_bad_fork() -> bool:
    return _in_bad_fork


def _before_fork() -> None:
    global _initialized_before_fork
    _initialized_before_fork = _C.is_initialized()


def _after_fork_in_child() -> None:
    global _initialized, _in_bad_fork
    if _initialized_before_fork:
        _in_bad_fork = True
        _initialized = False


os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)


def _lazy_call(call: Callable[[], None], *, seeds: str = "") -> None:
    """Calls now if the runtime runs, else when it starts. ``seeds`` tells what
    the call seeds, "current" or "all" devices; it replaces earlier calls that
    seed no more than that."""
    if _initialized or hasattr(_thread, "initializing"):
        call()
        return
    if seeds:
        replaced = ("current", "all") if seeds == "all" else ("current",)
        _queued_calls[:] = [q for q in _queued_calls if q.seeds not in replaced]
    _queued_calls.append(_QueuedCall(call, traceback.format_stack(), seeds))


def _lazy_init() -> None:
    """Starts the runtime and runs the queued calls. PyTorch calls this before
    the first use of the device."""
    global _initialized
    if _initialized or hasattr(_thread, "initializing"):
        return
    with _initialization_lock:
        if _initialized:
            return
        if _in_bad_fork:
            raise RuntimeError(
                "Cannot re-initialize Neuron in forked subprocess. To use Neuron "
                "with multiprocessing, you must use the 'spawn' start method"
            )
        _C.init()
        _thread.initializing = True
        try:
            for call, stack, _ in _queued_calls:
                try:
                    call()
                except Exception as error:
                    raise RuntimeError(
                        f"Neuron call failed lazily at initialization with error: "
                        f"{error}\n\nIt was originally made at:\n\n{''.join(stack)}"
                    ) from error
            _queued_calls.clear()
        finally:
            del _thread.initializing
        _initialized = True


def current_device() -> int:
    """The index of the calling thread's current device."""
    return _C.current_device()


def set_device(device: torch.types.Device) -> None:
    """Makes ``device`` (torch.device, str or int) the calling thread's current
    one. A negative index changes nothing; one that does not exist raises."""
    index = _get_device_index(device, optional=True)
    if index >= 0:
        _C.set_device(index)


def _exchange_device(device: int) -> int:
    """Sets the current device and returns the previous; -1 changes nothing and
    returns -1."""
    return -1 if device < 0 else _C.exchange_device(device)


def _maybe_exchange_device(device: int) -> int:
    return -1 if device < 0 else _C.maybe_exchange_device(device)


class device:
    """Context manager that makes ``device`` current inside it.

    Args:
        device: torch.device, str or int; None or a negative index: no change.
    """

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None else _get_device_index(device, optional=True)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = _exchange_device(self.idx)

    def __exit__(self, *error: object) -> None:
        _maybe_exchange_device(self.prev_idx)


class device_of(device):
    """Context manager that makes the device of a tensor or storage current; no
    change if it is not on a neuron device."""

    def __init__(self, obj: torch.Tensor | torch.UntypedStorage) -> None:
        on_neuron = obj.device.type == "neuron"
        super().__init__(obj.device.index if on_neuron else None)


def _get_device(device: int | str | torch.device) -> torch.device:
    if isinstance(device, int):
        return torch.device("neuron", device)
    return torch.device(device)


def synchronize(device: torch.types.Device = None) -> None:
    """Waits for all work on all streams of ``device`` (default: the current one)
    and raises what failed in it. Does nothing before the runtime has started."""
    index = _get_device_index(device, optional=True)
    if is_initialized():
        _C.synchronize(index)


def get_device_properties(device: torch.types.Device = None) -> DeviceProperties:
    """The properties of ``device`` (default: the current one)."""
    index = _get_device_index(device, optional=True)
    properties = _C.device_properties(index)
    return DeviceProperties(**{k: properties[k] for k in DeviceProperties._fields})


def get_device_name(device: torch.types.Device = None) -> str:
    """The name of ``device``, as in ``"neuron trn2"``. Holds the word "neuron",
    by which TorchTitan finds its peak FLOPS."""
    return f"neuron {get_device_properties(device).name}"


def get_device_capability(device: torch.types.Device = None) -> tuple[int, int] | None:
    """The NeuronCore generation as (major, minor): (3, 0) for Trainium2, (4, 0)
    for Trainium3, or None for another chip."""
    generations = {"trn1": (2, 0), "trn2": (3, 0), "trn3": (4, 0)}
    return generations.get(get_device_properties(device).arch)


def can_device_access_peer(
    device: torch.types.Device, peer_device: torch.types.Device
) -> bool:
    """Whether ``device`` can read ``peer_device``'s memory without the host: it
    cannot, the runtime copies only within a core. Raises for an unknown device."""
    index, peer = _get_device_index(device, True), _get_device_index(peer_device, True)
    for i in (index, peer):
        _C.device_properties(i)
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 computes on the device: always."""
    return True


def ipc_collect() -> None:
    """Nothing to collect: device memory is not shared between processes."""
