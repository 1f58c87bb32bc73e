# SPDX-License-Identifier: Apache-2.0
"""Records: the programs that a run used, to compile elsewhere.

A record is a text file with a JSON object per program. Several processes may write
to one, and a killed process spoils at most its last line."""

import base64
import hashlib
import json
import os
import warnings
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch_neuronx
from torch_neuronx import _C, compilation

_FORMAT = 1


@dataclass(frozen=True)
class Recorded:
    """A program of a record."""

    name: str  # "aten::add.Tensor"
    operands: str  # "float32[2, 3], float32[2, 3]"
    call_site: str  # "train.py:12", or empty
    scalar_count: int
    program: bytes  # for _C.program_from_bytes


class Recorder:
    """Adds programs to the file at ``path``, each once."""

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = os.path.abspath(path)
        self.programs = 0
        self._known: set[str] = set()
        self._failed = False

    def add(self, event: dict[str, Any]) -> None:
        digest = _digest(event["name"], event["program"])
        if digest in self._known:
            return
        self._known.add(digest)
        line = {
            "format": _FORMAT,
            "package": torch_neuronx.__version__,
            "digest": digest,
            "name": event["name"],
            "operands": event["operands"],
            "call_site": event.get("call_site", ""),
            "scalar_count": event["scalar_count"],
            "program": base64.b64encode(zlib.compress(event["program"])).decode(),
        }
        try:
            compilation.append_line(self.path, json.dumps(line))
            self.programs += 1
        except OSError as error:
            if not self._failed:
                self._failed = True
                warnings.warn(
                    f"the record {self.path} is incomplete: {error}", stacklevel=2
                )


@contextmanager
def record(path: str | os.PathLike) -> Iterator[Recorder]:
    """Adds every program that is used meanwhile to the file at ``path``, also those
    compiled before. ``torch-neuronx compile`` makes NEFFs of the file.

    ``TORCH_NEURONX_RECORD=path`` does the same for a whole process.
    """
    import torch

    recorder = Recorder(path)
    torch.neuron.init()
    for device in range(torch.neuron.device_count()):
        torch.neuron.synchronize(device)
    epoch = _C.next_epoch()
    compilation.listen(recorder.add)
    try:
        yield recorder
    finally:
        compilation.stop(recorder.add)
        for device in range(torch.neuron.device_count()):
            torch.neuron.synchronize(device)
        for executable in _C.executables(epoch=epoch):
            recorder.add(executable)


def read_record(path: str | os.PathLike) -> list[Recorded]:
    """The programs of a record, each once, in order. Lines that a killed process
    left unfinished are skipped with a warning. Raises OSError, and ValueError for a
    file that is no record."""
    found: dict[str, Recorded] = {}
    damaged = 0
    lines = Path(path).read_bytes().splitlines()
    for line in lines:
        try:
            item = json.loads(line)
            if item["format"] != _FORMAT:
                raise ValueError(
                    f"{path} has records of format {item['format']}, written by "
                    f"torch-neuronx {item.get('package')}; this version reads "
                    f"format {_FORMAT}"
                )
            program = zlib.decompress(base64.b64decode(item["program"]))
            if _digest(item["name"], program) != item["digest"]:
                damaged += 1
                continue
            found.setdefault(
                item["digest"],
                Recorded(
                    item["name"],
                    item["operands"],
                    item["call_site"],
                    item["scalar_count"],
                    program,
                ),
            )
        except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError):
            damaged += 1
        except zlib.error:
            damaged += 1
    if lines and not found:
        raise ValueError(f"{path} is not a record of programs")
    if damaged:
        warnings.warn(f"{path}: {damaged} unreadable lines were skipped", stacklevel=2)
    return list(found.values())


@dataclass
class CompileReport:
    """What ``compile_record`` did."""

    compiled: int = 0
    cached: int = 0
    failures: list[tuple[Recorded, str]] = field(default_factory=list)
    seconds: float = 0.0  # of the compilers, added up


def compile_record(
    programs: list[Recorded],
    target: str,
    lnc: int = 2,
    jobs: int | None = None,
    done: Callable[[Recorded, str], None] = lambda program, outcome: None,
) -> CompileReport:
    """Compiles recorded programs into the cache of this machine.

    Args:
        target: "trn2" or "trn3".
        lnc: physical cores per logical core, 1 or 2.
        jobs: compilers at a time; default: as many as cores and memory allow.
        done: called in this thread after each with "compiled", "cached" or
            "failed".
    """
    report = CompileReport()
    jobs = jobs or _C.compile_jobs()

    def compile_one(recorded: Recorded) -> dict[str, Any]:
        program = _C.program_from_bytes(recorded.program)
        return _C.compile_program(program, recorded.name, target, lnc)

    with ThreadPoolExecutor(jobs) as pool:
        running: dict[Future, Recorded] = {
            pool.submit(compile_one, recorded): recorded for recorded in programs
        }
        try:
            while running:
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    recorded = running.pop(future)
                    outcome = _collect(report, recorded, future)
                    done(recorded, outcome)
        except BaseException:
            for future in running:
                future.cancel()
            _C.cancel_compilations()
            raise
    return report


def _collect(report: CompileReport, recorded: Recorded, future: Future) -> str:
    try:
        made = future.result()
    except Exception as error:
        text = str(error)
        if recorded.call_site:
            text = text.replace(
                f"[{recorded.name}]",
                f"[{recorded.name}] recorded from {recorded.call_site}",
                1,
            )
        report.failures.append((recorded, text))
        return "failed"
    if made["compiled"]:
        report.compiled += 1
        report.seconds += made["seconds"]
        return "compiled"
    report.cached += 1
    return "cached"


def _digest(name: str, program: bytes) -> str:
    return hashlib.sha256(name.encode() + b"\0" + program).hexdigest()
