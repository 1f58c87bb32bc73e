# SPDX-License-Identifier: Apache-2.0
"""``torch-neuronx cache``. What only reads does without torch."""

import argparse
import os
import re
import sys
import time
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from torch_neuronx_cli import cache

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_TIMES = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def add_parser(commands: Any) -> None:
    """Adds the command to the parser of ``torch-neuronx``."""
    top = commands.add_parser("cache", help="the compile cache on disk")
    top.set_defaults(action="info", directory=None, key=None)
    actions = top.add_subparsers(dest="action")

    def action(name: str, help: str) -> argparse.ArgumentParser:
        parser = actions.add_parser(name, help=help)
        parser.add_argument(
            "--dir",
            dest="directory",
            type=Path,
            help="the cache's folder (TORCH_NEURONX_NEFF_CACHE_DIR)",
        )
        return parser

    listing = action("list", "a line for each compiled program")
    listing.add_argument("--failed", action="store_true", help="failures instead")
    listing.add_argument("filter", nargs="?", help="part of a key or an operator")
    describe = action("info", "where it is and how much it holds")
    describe.add_argument("key", nargs="?", help="the beginning of a program's key")
    verify = action("verify", "read everything and name what is damaged")
    verify.add_argument("--repair", action="store_true", help="remove what is damaged")
    prune = action("prune", "remove what was not used for longest")
    prune.add_argument("--max-size", type=_size, metavar="10G", help="keep this much")
    prune.add_argument("--older-than", type=_age, metavar="30d", help="last used")
    prune.add_argument("--failed", action="store_true", help="forget all failures")
    prune.add_argument("--all", action="store_true", help="remove everything")
    pack = action("pack", "write compiled programs into one file, to ship")
    pack.add_argument("archive", type=Path)
    pack.add_argument("--target", choices=("trn2", "trn3"), help="only of this chip")
    pack.add_argument("filter", nargs="?", help="part of a key or an operator")
    unpack = action("unpack", "add the programs of such a file")
    unpack.add_argument("archive", type=Path)
    action("stats", "by target and compiler")


def run(parsed: argparse.Namespace, console: Console) -> int:
    """Runs the command; errors of files and values are a line on stderr."""
    try:
        directory = parsed.directory or cache.cache_directory()
        return _ACTIONS[parsed.action or "info"](directory, parsed, console)
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, ValueError, RuntimeError) as error:
        print(f"torch-neuronx cache: {error}", file=sys.stderr)
        return 1


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 500M or 10G")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def _age(text: str) -> int:
    match = re.fullmatch(r"(\d+)([smhdw])", text.strip())
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 12h or 30d")
    return int(match[1]) * _TIMES[match[2]]


def _chosen(found: list[cache.Entry], text: str | None) -> list[cache.Entry]:
    if not text:
        return found
    return [e for e in found if text in e.key or text in e.details.get("name", "")]


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).isoformat(" ", "minutes")


def _mib(size: float) -> str:
    return f"{size / 2**20:.1f} MiB"


def cache_list(
    directory: Path, parsed: argparse.Namespace, console: Console, out: Any = None
) -> int:
    """Plain lines, as there may be many."""
    out = out or sys.stdout
    if parsed.failed:
        for entry in _chosen(cache.entries(directory, True), parsed.filter):
            first = entry.failure.partition("\n")[0]
            out.write(f"{entry.key[:12]}  {_when(entry.used)}  {first}\n")
        return 0
    found = _chosen(cache.entries(directory), parsed.filter)
    lines = [f"{'Key':12}  {'Target':6}  {'KiB':>7}  {'Last used':16}  Program"]
    for entry in found:
        details = entry.details
        lines.append(
            f"{entry.key[:12]}  {details.get('target', '?'):4}/"
            f"{details.get('lnc', '?')}  {details.get('bytes', 0) / 1024:7.0f}  "
            f"{_when(entry.used)}  {details.get('name', '?')}"
            f" ({details.get('operands', '')})"
        )
    out.write("\n".join(lines) + "\n")
    return 0


def cache_info(directory: Path, parsed: argparse.Namespace, console: Console) -> int:
    found = cache.entries(directory)
    if parsed.key:
        matching = [entry for entry in found if entry.key.startswith(parsed.key)]
        for entry in matching:
            table = Table("Member", "Value", title=f"{entry.key}-{entry.version}")
            for name, value in entry.details.items():
                text = _when(value) if name == "created" else str(value)
                table.add_row(name, text)
            table.add_row("last used", _when(entry.used))
            console.print(table)
        if not matching:
            raise ValueError(f"no compiled program's key begins with {parsed.key}")
        return 0
    size = sum(entry.details.get("bytes", 0) for entry in found)
    print(f"{directory}: {len(found)} programs, {_mib(size)}")
    for folder in cache.readonly_directories():
        print(f"{folder} (read only): {len(cache.entries(folder))} programs")
    from torch_neuronx import _C

    limit = _C.cache_limit()
    print(f"limit: {_mib(limit) if limit >= 0 else 'none'}")
    return 0


def cache_verify(directory: Path, parsed: argparse.Namespace, console: Console) -> int:
    sound, problems = cache.verify(directory, parsed.repair)
    for name, wrong in problems:
        print(f"{name}: {wrong}" + ("; removed" if parsed.repair else ""))
    print(f"{directory}: {sound} programs are sound, {len(problems)} are not")
    return 0 if parsed.repair or not problems else 1


def cache_prune(directory: Path, parsed: argparse.Namespace, console: Console) -> int:
    from torch_neuronx import _C

    if parsed.all:
        size, age, failures = 0, -1, 0
    else:
        nothing_said = parsed.max_size is None and parsed.older_than is None
        size = parsed.max_size if parsed.max_size is not None else -1
        if nothing_said and not parsed.failed:
            size = _C.cache_limit()
        age = parsed.older_than if parsed.older_than is not None else -1
        failures = 0 if parsed.failed else -1
    pruned = _C.prune_cache(str(directory), size, age, failures)
    print(
        f"{directory}: removed {pruned['programs']} programs, "
        f"{_mib(pruned['bytes'])}; {pruned['kept_programs']} are left, "
        f"{_mib(pruned['kept_bytes'])}"
    )
    return 0


def cache_pack(directory: Path, parsed: argparse.Namespace, console: Console) -> int:
    chosen = _chosen(cache.entries(directory), parsed.filter)
    if parsed.target:
        chosen = [e for e in chosen if e.details.get("target") == parsed.target]
    if not chosen:
        raise ValueError(f"{directory} has no such programs")
    packed, problems = cache.pack(parsed.archive, chosen)
    for name, wrong in problems:
        print(f"{name}: {wrong}; left out")
    size = parsed.archive.stat().st_size
    print(f"{parsed.archive}: {packed} programs, {_mib(size)}")
    return 1 if problems else 0


def cache_unpack(directory: Path, parsed: argparse.Namespace, console: Console) -> int:
    import tarfile

    try:
        result = cache.unpack(parsed.archive, directory)
    except (tarfile.TarError, EOFError) as error:
        raise ValueError(f"{parsed.archive} is no whole archive: {error}") from error
    for name, wrong in result.problems:
        print(f"{name}: {wrong}; left out")
    print(
        f"{directory}: {result.added} programs added, {result.present} were there "
        "already"
    )
    return 1 if result.problems else 0


def cache_stats(directory: Path, parsed: argparse.Namespace, console: Console) -> int:
    found = cache.entries(directory)
    groups: dict[tuple[str, str, str], list[cache.Entry]] = {}
    for entry in found:
        lnc = str(entry.details.get("lnc"))
        key = (entry.details.get("target", "?"), lnc, entry.version)
        groups.setdefault(key, []).append(entry)
    table = Table("Target", "LNC", "Compiler", "Programs", "MiB", "Compile time")
    for key, members in sorted(groups.items()):
        size = sum(e.details.get("bytes", 0) for e in members) / 2**20
        seconds = sum(e.details.get("seconds", 0.0) for e in members)
        table.add_row(*key, str(len(members)), f"{size:.1f}", f"{seconds:.0f} s")
    console.print(table)
    costs: Counter[str] = Counter()
    for entry in found:
        costs[entry.details.get("name", "?")] += entry.details.get("seconds", 0.0)
    slowest = Table("Operator", "Compile time")
    for name, seconds in costs.most_common(10):
        slowest.add_row(name, f"{seconds:.1f} s")
    if costs:
        console.print(slowest)
    failures = cache.entries(directory, True)
    day = time.time() - 86400
    print(
        f"{len(failures)} failures are remembered; "
        f"{sum(entry.used > day for entry in found)} programs were used since yesterday"
    )
    return 0


_ACTIONS = {
    "list": cache_list,
    "info": cache_info,
    "verify": cache_verify,
    "prune": cache_prune,
    "pack": cache_pack,
    "unpack": cache_unpack,
    "stats": cache_stats,
}
