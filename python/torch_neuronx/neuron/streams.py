# SPDX-License-Identifier: Apache-2.0
"""Streams and events of neuron devices."""

from typing import Any

import torch

from torch_neuronx import _C

from . import devices
from ._utils import _get_device_index


class Stream(torch.Stream):
    """A queue of work on one device, independent of its other streams.

    Args:
        device: torch.device, str or int; None: the current device.
        priority: lower numbers run first; out of range values are clamped.

    ``Stream(stream_id=..., device_index=..., device_type=...)`` names an existing
    stream.
    """

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> "Stream":
        if "stream_id" in kwargs:
            return super().__new__(cls, priority=priority, **kwargs)
        devices._lazy_init()
        index = _get_device_index(device, optional=True)
        _C.device_properties(index)  # raises for a device that does not exist
        return super().__new__(cls, torch.device("neuron", index), priority=priority)

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        """Records ``event``, a new one by default, and returns it."""
        if event is None:
            event = Event(device=self.device)
        event.record(self)
        return event

    def wait_stream(self, stream: torch.Stream) -> None:
        """Makes later work of this stream wait for what ``stream`` holds now."""
        self.wait_event(stream.record_event())

    def __repr__(self) -> str:
        return f"torch.neuron.Stream(device={self.device}, id={self.stream_id:#x})"


class Event(torch.Event):
    """A point in a stream, to wait for and to measure time with.

    Args:
        enable_timing: whether ``elapsed_time`` may be asked (milliseconds).
        blocking: accepted; waiting always sleeps.
        interprocess: unsupported, raises if True.
        device: torch.device, str or int; None: the current device.
    """

    def __new__(
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        *,
        device: Any = None,
    ) -> "Event":
        if interprocess:
            raise NotImplementedError("neuron events cannot be shared by processes")
        devices._lazy_init()
        index = _get_device_index(device, optional=True)
        return super().__new__(
            cls,
            torch.device("neuron", index),
            enable_timing=enable_timing,
            blocking=blocking,
        )

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Milliseconds from this event to ``end_event``, both recorded and done.

        torch 2.13's own method takes exact torch.Event objects only.
        """
        return _C.elapsed_time(self.event_id, end_event.event_id)

    def __repr__(self) -> str:
        return f"torch.neuron.Event(device={self.device})"


def _stream(stream_id: int, device_index: int, device_type: int) -> Stream:
    return Stream(
        stream_id=stream_id, device_index=device_index, device_type=device_type
    )


def current_stream(device: torch.types.Device = None) -> Stream:
    """The calling thread's current stream of ``device``."""
    devices._lazy_init()
    return _stream(*_C.current_stream(_get_device_index(device, optional=True)))


def default_stream(device: torch.types.Device = None) -> Stream:
    """The default stream of ``device``."""
    devices._lazy_init()
    return _stream(*_C.default_stream(_get_device_index(device, optional=True)))


def set_stream(stream: torch.Stream | None) -> None:
    """Makes ``stream`` and its device current in the calling thread. Prefer the
    context manager ``stream``. None changes nothing."""
    if stream is not None:
        _set_stream_by_id(stream.stream_id, stream.device_index, stream.device_type)


def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
    devices._lazy_init()
    _C.set_stream(stream_id, device_index, device_type)


class StreamContext:
    """Context manager that makes ``stream`` and its device current inside it.
    None: no change."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is None:
            return
        self.previous_device = _C.current_device()
        self.previous_stream = current_stream(self.stream.device)
        set_stream(self.stream)

    def __exit__(self, *error: object) -> None:
        if self.stream is None:
            return
        set_stream(self.previous_stream)
        _C.set_device(self.previous_device)


def stream(stream: torch.Stream | None) -> StreamContext:
    """Context manager that makes ``stream`` current. None: no change."""
    return StreamContext(stream)
