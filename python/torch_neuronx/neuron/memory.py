# SPDX-License-Identifier: Apache-2.0
"""Statistics, history and snapshots of the devices' caching allocator. All
answer (with zeros) before the runtime has started, and start none."""

import pickle
from collections import OrderedDict
from typing import Any, Literal

import torch

from torch_neuronx import _C

from ._utils import _get_device_index

_Device = torch.types.Device


def empty_cache() -> None:
    """Gives the memory that no tensor uses back to the device."""
    _C.empty_cache()


def memory_stats_as_nested_dict(device: _Device = None) -> dict[str, Any]:
    """``memory_stats`` as nested dictionaries."""
    index = _get_device_index(device, optional=True)
    if not torch._C._accelerator_isAllocatorInitialized():
        return {}
    return torch._C._accelerator_getDeviceStats(index)


def memory_stats(device: _Device = None) -> OrderedDict[str, int]:
    """The allocator's statistics of ``device``, with ``torch.cuda``'s keys:
    ``"{allocation,segment,active,inactive_split}"`` and
    ``"{allocated,reserved,active,inactive_split}_bytes"``, each with
    ``".{all,large_pool,small_pool}.{current,peak,allocated,freed}"``, and counters
    such as ``"num_alloc_retries"`` and ``"num_ooms"``."""
    flat: list[tuple[str, int]] = []

    def flatten(prefix: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                flatten(f"{prefix}.{key}" if prefix else key, item)
        else:
            flat.append((prefix, value))

    flatten("", memory_stats_as_nested_dict(device))
    return OrderedDict(sorted(flat))


def _stat(key: str, device: _Device) -> int:
    return memory_stats(device).get(key, 0)


def memory_allocated(device: _Device = None) -> int:
    """Bytes that live tensors hold on ``device``."""
    return _stat("allocated_bytes.all.current", device)


def max_memory_allocated(device: _Device = None) -> int:
    """The most bytes that tensors have held since the start or
    ``reset_peak_memory_stats``."""
    return _stat("allocated_bytes.all.peak", device)


def memory_reserved(device: _Device = None) -> int:
    """Bytes that the allocator holds on ``device``, used or cached."""
    return _stat("reserved_bytes.all.current", device)


def max_memory_reserved(device: _Device = None) -> int:
    """The most bytes that the allocator has held."""
    return _stat("reserved_bytes.all.peak", device)


def reset_peak_memory_stats(device: _Device = None) -> None:
    """Sets every "peak" to "current"."""
    index = _get_device_index(device, optional=True)
    if torch._C._accelerator_isAllocatorInitialized():
        torch._C._accelerator_resetPeakStats(index)


def reset_accumulated_memory_stats(device: _Device = None) -> None:
    """Sets every "allocated" and "freed" and the counters to zero."""
    index = _get_device_index(device, optional=True)
    if torch._C._accelerator_isAllocatorInitialized():
        torch._C._accelerator_resetAccumulatedStats(index)


# The older names of torch.cuda.
reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_cached = reset_peak_memory_stats
memory_cached = memory_reserved
max_memory_cached = max_memory_reserved


def mem_get_info(device: _Device = None) -> tuple[int, int]:
    """Free and total bytes of ``device``."""
    free, total = _C.memory_info(_get_device_index(device, optional=True))
    return free, total


def memory_summary(device: _Device = None, abbreviated: bool = False) -> str:
    """A table of ``memory_stats`` to read. ``abbreviated`` leaves the pools out."""
    index = _get_device_index(device, optional=True)
    stats = memory_stats(index)
    rows = [
        ("allocated_bytes", "Allocated memory", _size),
        ("active_bytes", "Active memory", _size),
        ("reserved_bytes", "Reserved memory", _size),
        ("inactive_split_bytes", "Non-releasable memory", _size),
        ("allocation", "Allocations", str),
        ("active", "Active blocks", str),
        ("segment", "Segments", str),
        ("inactive_split", "Non-releasable blocks", str),
    ]
    pools = [("all", "")]
    if not abbreviated:
        pools += [("large_pool", "from large pool"), ("small_pool", "from small pool")]
    columns = ("current", "peak", "allocated", "freed")
    rule = "|" + "-" * 75 + "|"
    lines = [
        rule,
        f"| {f'Neuron memory summary, device {index}':<73} |",
        f"| {'Out of memory: ' + str(stats.get('num_ooms', 0)):<36} "
        f"{'Retries: ' + str(stats.get('num_alloc_retries', 0)):<36} |",
        rule,
        f"| {'':<25}" + "".join(f"{name:>12}" for name in columns) + " |",
    ]
    for key, title, text in rows:
        lines.append(rule)
        for pool, subtitle in pools:
            values = (stats.get(f"{key}.{pool}.{column}", 0) for column in columns)
            name = f"  {subtitle}" if subtitle else title
            lines.append(
                f"| {name:<25}" + "".join(f"{text(v):>12}" for v in values) + " |"
            )
    return "\n".join([*lines, rule]) + "\n"


def _size(count: int) -> str:
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError


def memory_snapshot() -> list[dict[str, Any]]:
    """The allocator's segments and blocks on all devices."""
    return _snapshot()["segments"]


def _record_memory_history(
    enabled: Literal["state", "all"] | bool | None = "all",
    context: str | None = None,
    stacks: str = "python",
    max_entries: int = 100_000,
    **ignored: Any,
) -> None:
    """Keeps the last ``max_entries`` allocations, frees and segment changes for
    ``_snapshot``. None stops. Call stacks are not recorded: ``context``,
    ``stacks`` and further arguments of ``torch.cuda``'s function are accepted."""
    if isinstance(enabled, bool):
        enabled = "all" if enabled else None
    if enabled not in (None, "state", "all"):
        raise ValueError(f"expected None, 'state' or 'all', but got: {enabled!r}")
    _C.record_memory_history(enabled, min(max_entries, 2**31 - 1))


def _snapshot(device: _Device = None, **ignored: Any) -> dict[str, Any]:
    """Segments, blocks and recorded history, in the format of
    ``torch.cuda.memory._snapshot`` that PyTorch's memory viewer opens."""
    snapshot = _C.memory_snapshot()
    if isinstance(snapshot, list):
        return {"segments": snapshot, "device_traces": [], "allocator_settings": {}}
    return snapshot


def _dump_snapshot(filename: str = "dump_snapshot.pickle", **ignored: Any) -> None:
    """Writes ``_snapshot`` as a pickle, for PyTorch's memory viewer."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)
