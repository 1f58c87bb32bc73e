# SPDX-License-Identifier: Apache-2.0
"""Fused attention against the CPU's, forward and backward: time and peak memory.

One process per figure, so that each peak is its own: resident memory at its highest
less what the process held before, in MiB, of operands, results, gradients and all
that the backend holds besides. The last rows say how the peak grows from one length
to the next: by the ratio of the lengths where memory is linear, by its square where
scores are kept. Times are the best of several rounds after one that is not counted,
from 32k tokens on of a single round, first call and all; "ratio" is the CPU's time
divided by ours.

    bench_attention.py [--lengths 2048 8192 32768] [--causal] [--threads 2]
"""

import argparse
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table

import torch_neuronx  # noqa: F401

HEADS, WIDTH = 1, 64
LENGTHS = (2048, 8192, 32768)
# Tokens from which one round has to do: its products alone are 10^12 operations.
LONG = 32768
TIMEOUT = 1800


def resident(field: str) -> int:
    """Bytes of "VmRSS" (now) or "VmHWM" (highest since the last reset)."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def synchronize(device: str) -> None:
    if device == "neuron":
        torch.neuron.synchronize()


def measure(device: str, length: int, causal: bool) -> tuple[float, float, int]:
    """Seconds of forward and of backward, and the peak in bytes."""

    def step(n: int) -> tuple[float, float]:
        q, k, v, g = (torch.randn(1, HEADS, n, WIDTH, device=device) for _ in range(4))
        for x in (q, k, v):
            x.requires_grad_()
        synchronize(device)
        start = time.perf_counter()
        out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        synchronize(device)
        middle = time.perf_counter()
        out.backward(g)
        synchronize(device)
        return middle - start, time.perf_counter() - middle

    step(64)
    with open("/proc/self/clear_refs", "w") as references:
        references.write("5")
    before = resident("VmRSS")
    if length >= LONG:
        rounds = [step(length)]
    else:
        rounds = [step(length) for _ in range(2 + 2 * (length < 8192))][1:]
    peak = max(resident("VmHWM") - before, 0)
    return min(r[0] for r in rounds), min(r[1] for r in rounds), peak


def measure_apart(device: str, length: int, arguments) -> list[float]:
    command = [sys.executable, __file__, "--one", device, str(length)]
    command += ["--causal"] * arguments.causal
    command += ["--threads", str(arguments.threads)] * (arguments.threads > 0)
    result = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT
    )
    return [float(x) for x in result.stdout.split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", type=int, nargs="*", default=LENGTHS)
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    if arguments.one:
        device, length = arguments.one
        print(*measure(device, int(length), arguments.causal))
        return
    table = Table(title=f"attention, {HEADS} head of {WIDTH}, float32")
    for column in (
        *("tokens", "forward ms", "CPU", "ratio", "backward ms", "CPU", "ratio"),
        *("peak MiB", "CPU", "scores MiB"),
    ):
        table.add_column(column, justify="right")
    peaks = {}
    for length in arguments.lengths:
        ours, cpu = (measure_apart(d, length, arguments) for d in ("neuron", "cpu"))
        row = [f"{length:,}"]
        for i in range(2):
            row += [f"{ours[i] * 1e3:.1f}", f"{cpu[i] * 1e3:.1f}"]
            row.append(f"{cpu[i] / ours[i]:.2f}")
        row += [f"{ours[2] / 2**20:.0f}", f"{cpu[2] / 2**20:.0f}"]
        row.append(f"{HEADS * length**2 * 4 / 2**20:,.0f}")
        table.add_row(*row)
        print(f"{length:,} tokens measured", file=sys.stderr, flush=True)
        peaks[length] = ours[2], cpu[2]
    Console(width=100).print(table)
    for a, b in zip(arguments.lengths, arguments.lengths[1:], strict=False):
        ours, cpu = (peaks[b][i] / max(peaks[a][i], 1) for i in range(2))
        print(f"peak, {a:,} to {b:,} tokens ({b / a:g}x): {ours:.2f}x, CPU {cpu:.2f}x")


if __name__ == "__main__":
    main()
