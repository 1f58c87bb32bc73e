# SPDX-License-Identifier: Apache-2.0
"""The compile cache on disk: the time of a hit for a small program (legalisation,
key, read, check), and of the command that lists 10,000 entries. A stand-in compiler
makes the entries; its own time is not measured."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

import torch_neuronx
from torch_neuronx import _C
from torch_neuronx_cli import cache

ENTRIES = 10_000
STAND_IN = """#!/bin/sh
[ "$1" = --version ] && { echo 1.0; exit; }
while [ "$1" != --output ]; do shift; done
{ printf '\\0\\0\\0\\0\\0\\0\\0\\0\\0\\004\\0\\0\\0\\0\\0\\0\\0\\200\\0\\0\\0\\0\\0\\0'
  head -c 33768 /dev/zero; } > "$2"
"""


def prepare(folder: Path) -> None:
    program = folder / "compiler"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    os.environ["TORCH_NEURONX_CC"] = str(program)
    os.environ["TORCH_NEURONX_NEFF_CACHE_DIR"] = str(folder / "cache")
    os.environ["TORCH_NEURONX_CC_INPUT"] = "stablehlo"


def hit_ms() -> float:
    x = torch.ones(64, 64, device="neuron")
    program = torch_neuronx.program("aten::add.Tensor", x, x)

    def get() -> dict:
        return _C.compile_program(program, "aten::add.Tensor", "trn2", 2)

    assert get()["compiled"]
    times = []
    for _ in range(200):
        start = time.perf_counter()
        made = get()
        times.append(time.perf_counter() - start)
        assert not made["compiled"]
    return 1e3 * statistics.median(times)


def list_seconds(folder: Path) -> float:
    (entry,) = cache.entries(folder / "cache")
    sidecar = entry.path(".json").read_bytes()
    many = folder / "many"
    for i in range(ENTRIES):
        key = f"{i * 2654435761 % 2**32:08x}".ljust(64, "0")
        shard = many / key[:2]
        shard.mkdir(parents=True, exist_ok=True)
        (shard / f"{key}-1.0.json").write_bytes(sidecar)
        (shard / f"{key}-1.0.neff").touch()
    command = [sys.executable, "-m", "torch_neuronx_cli", "cache", "list"]
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        listed = subprocess.check_output([*command, "--dir", many])
        best = min(best, time.perf_counter() - start)
        assert len(listed.splitlines()) == ENTRIES + 1
    return best


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        prepare(folder)
        hit, listing = hit_ms(), list_seconds(folder)
    print(f"disk cache hit, add of 64x64: {hit:.2f} ms (goal: under 2)")
    print(
        f"torch-neuronx cache list, {ENTRIES} programs: {listing:.2f} s (goal: under 1)"
    )
    sys.exit(hit >= 2 or listing >= 1)


if __name__ == "__main__":
    main()
