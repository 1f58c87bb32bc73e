# SPDX-License-Identifier: Apache-2.0
"""The compile cache on disk: what it holds, whether it is sound, and as one file.

``csrc/compiler/neff_cache.h`` has its layout."""

import hashlib
import io
import json
import os
import re
import struct
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_NAME = re.compile(r"([0-9a-f]{64})-([A-Za-z0-9.+]{1,64})\.(json|neff|failed)")
_HEADER = 1024
# The last member of an archive: how many programs there are before it.
_END = "programs.json"


@dataclass(frozen=True, slots=True)
class Entry:
    """A compiled program, or a failure to compile one."""

    directory: Path
    key: str
    version: str  # of the compiler
    used: float  # seconds since the epoch; of a failure, when it happened
    details: dict[str, Any] = field(default_factory=dict)
    failure: str = ""

    @property
    def stem(self) -> str:
        return f"{self.key[:2]}/{self.key}-{self.version}"

    def path(self, suffix: str) -> Path:
        """``suffix``: ".neff", ".json" or ".failed"."""
        return self.directory / (self.stem + suffix)


def cache_directory() -> Path:
    """Where compiled programs are kept."""
    return Path(os.environ.get("TORCH_NEURONX_NEFF_CACHE_DIR") or "/tmp/neff_cache")


def readonly_directories() -> list[Path]:
    """Where they are looked for besides."""
    text = os.environ.get("TORCH_NEURONX_NEFF_CACHE_READONLY_DIRS", "")
    return [Path(part) for part in text.split(":") if part]


def entries(directory: Path, failures: bool = False) -> list[Entry]:
    """The compiled programs of a folder, or the failures it remembers, by last use.
    Unreadable files are left out: ``verify`` names them."""
    suffix = "failed" if failures else "json"
    found = []
    for file, match in _files(directory):
        if match[3] != suffix:
            continue
        try:
            text, used = _read_text(file.path)
            if failures:
                entry = Entry(
                    directory, match[1], match[2], used, {}, text.partition("\n")[2]
                )
            else:
                details = json.loads(text)
                if not isinstance(details, dict):
                    continue
                entry = Entry(directory, match[1], match[2], used, details)
        except (OSError, ValueError):
            continue
        found.append(entry)
    return sorted(found, key=lambda entry: entry.used)


def _read_text(path: str) -> tuple[str, float]:
    """A small file's text and time; a third of the cost of ``open``."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        status = os.fstat(file)
        data = os.read(file, status.st_size)
        return data.decode(errors="replace"), status.st_mtime
    finally:
        os.close(file)


def _files(directory: Path) -> Iterator[tuple[os.DirEntry, re.Match]]:
    try:
        with os.scandir(directory) as found:
            shards = [shard for shard in found if len(shard.name) == 2]
    except FileNotFoundError:
        return
    for shard in shards:
        if not shard.is_dir():
            continue
        with os.scandir(shard.path) as files:
            for file in files:
                if match := _NAME.fullmatch(file.name):
                    yield file, match


def is_neff(data: bytes) -> bool:
    """A header of 1024 bytes, which tells its own and the data's size, then data."""
    if len(data) < _HEADER:
        return False
    header, size = struct.unpack_from("<QQ", data, 8)
    return header == _HEADER and size == len(data) - _HEADER


def problem(sidecar: bytes, neff: bytes | None) -> str | None:
    """What is wrong with an entry's two files; None if nothing."""
    if neff is None:
        return "its .neff is missing"
    try:
        digest = json.loads(sidecar)["sha256"]
    except (ValueError, KeyError, TypeError):
        return "its .json is damaged"
    if hashlib.sha256(neff).hexdigest() != digest:
        return f"the bytes of its .neff have changed ({len(neff)} bytes)"
    if not is_neff(neff):
        return "its .neff is no NEFF"
    return None


def verify(directory: Path, repair: bool = False) -> tuple[int, list[tuple[str, str]]]:
    """Reads every compiled program of a folder. Gives how many are sound, and
    (key-version, what is wrong) of the others, which ``repair`` removes: they are
    compiled again when needed."""
    from torch_neuronx import _C

    sound = 0
    problems = []
    for file, match in list(_files(directory)):
        path = Path(file.path)
        if match[3] == "json":
            neff = path.with_name(path.name.removesuffix("json") + "neff")
            wrong = problem(_read(path) or b"", _read(neff))
        elif match[3] == "neff":
            sidecar = path.with_name(path.name.removesuffix("neff") + "json")
            # One that is being written gets its .json in a moment.
            young = time.time() - file.stat().st_mtime < 60
            if sidecar.exists() or young:
                continue
            wrong = "its .json is missing"
        else:
            continue
        if wrong is None:
            sound += 1
            continue
        if repair and not _C.remove_cached(str(directory), match[1], match[2]):
            wrong += "; it is being compiled"
        problems.append((f"{match[1]}-{match[2]}", wrong))
    return sound, problems


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def pack(archive: Path, chosen: list[Entry]) -> tuple[int, list[tuple[str, str]]]:
    """Writes entries into a tar file. Gives how many, and (key-version, what is
    wrong) of those that are damaged and were left out. Raises OSError and leaves no
    half-written archive."""
    packed = 0
    problems = []
    temporary = archive.with_name(f".{archive.name}.{os.getpid()}.tmp")
    try:
        with tarfile.open(temporary, "w", format=tarfile.PAX_FORMAT) as tar:
            for entry in chosen:
                sidecar, neff = entry.path(".json"), entry.path(".neff")
                if wrong := problem(_read(sidecar) or b"", _read(neff)):
                    problems.append((f"{entry.key}-{entry.version}", wrong))
                    continue
                tar.add(neff, entry.stem + ".neff")
                tar.add(sidecar, entry.stem + ".json")
                packed += 1
            end = json.dumps({"programs": packed}).encode()
            member = tarfile.TarInfo(_END)
            member.size = len(end)
            tar.addfile(member, io.BytesIO(end))
        temporary.replace(archive)
    finally:
        temporary.unlink(missing_ok=True)
    return packed, problems


@dataclass
class Unpacked:
    """What ``unpack`` did."""

    added: int = 0
    present: int = 0  # were there already, sound
    problems: list[tuple[str, str]] = field(default_factory=list)


def unpack(archive: Path, directory: Path) -> Unpacked:
    """Adds the entries of a tar file made by ``pack`` to a folder. Nothing else that
    an archive may hold is touched. Raises OSError and tarfile.TarError."""
    result = Unpacked()
    pending: dict[str, bytes] = {}
    ended = False
    with tarfile.open(archive, "r:") as tar:
        for member in tar:
            if member.name == _END:
                ended = True
                continue
            shard, _, name = member.name.partition("/")
            match = _NAME.fullmatch(name)
            if not member.isreg() or not match or shard != match[1][:2]:
                result.problems.append((member.name, "is no compiled program"))
                continue
            opened = tar.extractfile(member)
            data = opened.read() if opened else b""
            stem = name.rpartition(".")[0]
            if match[3] == "neff":
                pending = {stem: data}  # its .json is next
            elif match[3] == "json":
                _add(result, directory / shard / stem, data, pending.pop(stem, None))
    if not ended:
        result.problems.append((str(archive), "ends early, or is not of 'cache pack'"))
    return result


def _add(result: Unpacked, stem: Path, sidecar: bytes, neff: bytes | None) -> None:
    if wrong := problem(sidecar, neff):
        result.problems.append((stem.name, wrong))
        return
    json_path = stem.with_name(stem.name + ".json")
    neff_path = stem.with_name(stem.name + ".neff")
    there = _read(json_path)
    if there is not None and problem(there, _read(neff_path)) is None:
        result.present += 1
        return
    assert neff is not None
    _write_atomically(neff_path, neff)
    _write_atomically(json_path, sidecar)
    result.added += 1


def _write_atomically(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    file, temporary = tempfile.mkstemp(".tmp", path.name + ".", path.parent)
    try:
        with os.fdopen(file, "wb") as opened:
            opened.write(data)
            opened.flush()
            os.fchmod(opened.fileno(), 0o644)
            os.fsync(opened.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
