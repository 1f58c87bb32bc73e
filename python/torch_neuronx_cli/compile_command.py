# SPDX-License-Identifier: Apache-2.0
"""``torch-neuronx compile``: the programs of a record, ahead of time."""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console


def add_parser(commands: Any) -> None:
    """Adds the command to the parser of ``torch-neuronx``."""
    compile_ = commands.add_parser(
        "compile", help="compile a record (TORCH_NEURONX_RECORD) into the cache"
    )
    compile_.add_argument("record", type=Path, nargs="+")
    compile_.add_argument("--target", choices=("trn2", "trn3"), default="trn2")
    compile_.add_argument("--lnc", type=int, choices=(1, 2), default=2)
    compile_.add_argument(
        "--jobs", type=int, help="compilers at a time; default: as cores and memory fit"
    )
    compile_.add_argument("--dir", dest="directory", type=Path, help="the cache")
    compile_.add_argument(
        "--retry", action="store_true", help="also what is remembered to have failed"
    )


def run(parsed: argparse.Namespace, console: Console) -> int:
    """Runs the command; errors of files and values are a line on stderr."""
    try:
        return compile_record(parsed, console)
    except (OSError, ValueError) as error:
        print(f"torch-neuronx compile: {error}", file=sys.stderr)
        return 1


def compile_record(parsed: argparse.Namespace, console: Console) -> int:
    """Compiles every program of the records; 1 if one failed."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from torch_neuronx import _C, records

    if parsed.jobs is not None:
        if parsed.jobs < 1:
            raise ValueError("--jobs must be at least 1")
        os.environ["TORCH_NEURONX_COMPILE_JOBS"] = str(parsed.jobs)
    if parsed.directory:
        os.environ["TORCH_NEURONX_NEFF_CACHE_DIR"] = str(parsed.directory)
    if parsed.retry:
        os.environ["TORCH_NEURONX_FAILURE_MEMORY"] = "0"
    os.environ.pop("TORCH_NEURONX_CACHE_MISS", None)
    _C.set_compile_progress(False)  # the bar below instead
    programs = {
        (item.name, item.program): item
        for path in parsed.record
        for item in records.read_record(path)
    }
    start = time.monotonic()
    progress = Progress(
        TextColumn("compiling"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )
    with progress:
        task = progress.add_task("", total=len(programs))

        def done(item: records.Recorded, outcome: str) -> None:
            progress.update(task, advance=1, description=f"{item.name} {outcome}")

        report = records.compile_record(
            list(programs.values()), parsed.target, parsed.lnc, parsed.jobs, done
        )
    for _, text in report.failures:
        print(text.rstrip() + "\n", file=sys.stderr)
    print(
        f"{len(programs)} programs for {parsed.target}, LNC {parsed.lnc}: "
        f"{report.compiled} compiled, {report.cached} were in the cache, "
        f"{len(report.failures)} failed, in {time.monotonic() - start:.0f} s"
    )
    return 1 if report.failures else 0
