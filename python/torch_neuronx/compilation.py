# SPDX-License-Identifier: Apache-2.0
"""What the compile service tells Python: a dictionary for each program that is new
to the process, with ``name``, ``operands``, ``program`` (bytes), ``scalar_count``,
``source`` ("simulator", "disk", "compiled" or "failed"), ``key``, ``error``,
``seconds`` and ``call_site``."""

import json
import os
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

from torch_neuronx import _C

Event = dict[str, Any]
Listener = Callable[[Event], None]

LOGS = ("recompiles",)

_listeners: list[Listener] = []
_lock = threading.Lock()


def listen(listener: Listener) -> None:
    """Calls ``listener`` for each new program, in the thread that compiles it."""
    with _lock:
        _listeners.append(listener)
        _C.set_new_program_callback(_tell)


def stop(listener: Listener) -> None:
    """Ends what ``listen`` began."""
    with _lock:
        _listeners.remove(listener)
        if not _listeners:
            _C.set_new_program_callback(None)


def _tell(event: Event) -> None:
    from torch_neuronx import _callbacks

    event["call_site"] = _callbacks._call_site()
    for listener in tuple(_listeners):
        try:
            listener(event)
        except Exception as error:  # no reason to fail the user's operator
            warnings.warn(f"a compile listener failed: {error!r}", stacklevel=2)


def listen_as_environment_says() -> None:
    """TORCH_NEURONX_RECORD, TORCH_NEURONX_LOGS and TORCH_NEURONX_COMPILE_LOG."""
    if path := os.environ.get("TORCH_NEURONX_RECORD"):
        from torch_neuronx.records import Recorder

        listen(Recorder(path).add)
    logs = [log.strip() for log in os.environ.get("TORCH_NEURONX_LOGS", "").split(",")]
    for log in filter(None, logs):
        if log not in LOGS:
            # No error: this runs during `import torch`.
            warnings.warn(
                f"TORCH_NEURONX_LOGS={log} is not valid; accepted: {', '.join(LOGS)}",
                stacklevel=2,
            )
            continue
        from torch_neuronx import recompilation

        recompilation.log()
    if path := os.environ.get("TORCH_NEURONX_COMPILE_LOG"):
        listen(_FileLog(path))


class _FileLog:
    """A JSON object per line, of each new program."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)

    def __call__(self, event: Event) -> None:
        line = {k: v for k, v in event.items() if k != "program"}
        line |= {"time": time.time(), "pid": os.getpid()}
        append_line(self.path, json.dumps(line))


def append_line(path: str, line: str) -> None:
    """Adds a line to a file that several processes may write. What an earlier
    writer left unfinished ends before it. Raises OSError."""
    import fcntl

    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":
            line = "\n" + line
        data = (line + "\n").encode()
        while data:
            data = data[os.write(file, data) :]
    finally:
        os.close(file)


def to_hlo(stablehlo: str) -> bytes | None:
    """A serialised ``HloModuleProto`` of a StableHLO module, or None without
    jaxlib. Raises RuntimeError for text that is no valid module."""
    try:
        from jaxlib._jax import mlir
    except ImportError:
        return None
    try:
        computation = mlir.mlir_module_to_xla_computation(
            stablehlo, use_tuple_args=False, return_tuple=False
        )
    except Exception as error:
        raise RuntimeError(
            f"the program is not valid StableHLO, which is a bug of ours: {error}"
        ) from error
    return computation.as_serialized_hlo_module_proto()
