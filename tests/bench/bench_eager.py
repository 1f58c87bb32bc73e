# SPDX-License-Identifier: Apache-2.0
"""Cost of eager operators against the CPU's, in one run.

Caller: a burst of 256 calls on an idle stream, best of 30, synchronised outside the
timing. Sustained: 2,000 calls with the synchronisation, best of 5. Tensors are 4x4.
"""

import math
import time

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table

import torch_neuronx


def calls(device: str) -> dict:
    x = torch.randn(4, 4, device=device)
    y = torch.randn(4, 4, device=device)
    bias = torch.randn(4, device=device)
    index = torch.tensor([2, 0, 1], device=device)
    view = torch.randn(8, 8, device=device)[::2, ::2]
    return {
        "add": lambda: x + y,
        "mul scalar": lambda: x * 2.0,
        "relu": lambda: x.relu(),
        "mm": lambda: x.mm(y),
        "addmm": lambda: torch.addmm(bias, x, y),
        "softmax": lambda: x.softmax(-1),
        "layer_norm": lambda: F.layer_norm(x, (4,), bias, bias),
        "cat": lambda: torch.cat((x, y)),
        "index_select": lambda: x.index_select(0, index),
        "add_ strided": lambda: view.add_(y),
    }


def synchronize(device: str) -> None:
    if device == "neuron":
        torch.neuron.synchronize()


def microseconds(call, device: str, count: int, rounds: int, whole: bool) -> float:
    """Per call, best round; ``whole`` counts the execution too."""
    best = math.inf
    for _ in range(rounds):
        synchronize(device)
        start = time.perf_counter()
        for _ in range(count):
            call()
        if whole:
            synchronize(device)
        best = min(best, time.perf_counter() - start)
    synchronize(device)
    return best / count * 1e6


def burst(call, device: str) -> float:
    return microseconds(call, device, count=256, rounds=30, whole=False)


def sustained(call, device: str) -> float:
    return microseconds(call, device, count=2000, rounds=5, whole=True)


@torch.no_grad()
def main() -> None:
    table = Table("operator", "cpu us", "neuron us", "ratio", "sustained us", "ratio")
    cpu, neuron = calls("cpu"), calls("neuron")
    caller, total = [], []
    for name in cpu:
        a, b = burst(cpu[name], "cpu"), burst(neuron[name], "neuron")
        c, d = sustained(cpu[name], "cpu"), sustained(neuron[name], "neuron")
        caller.append(b / a)
        total.append(d / c)
        table.add_row(
            name, f"{a:.2f}", f"{b:.2f}", f"{b / a:.2f}", f"{d:.2f}", f"{d / c:.2f}"
        )
    mean = [math.exp(sum(map(math.log, r)) / len(r)) for r in (caller, total)]
    table.add_row("geometric mean", "", "", f"{mean[0]:.2f}", "", f"{mean[1]:.2f}")
    Console(width=100).print(table)

    # Same keys among many: the cost must not depend on the cache's size.
    x = torch.ones(1, device="neuron")
    few = burst(lambda: x + x, "neuron")
    for n in range(2, 20_002):
        torch.ones(n, device="neuron") + 1
    many = burst(lambda: x + x, "neuron")
    print(f"caller's cost among 1 and 20,000 more keys: {few:.2f} and {many:.2f} us")
    print(torch_neuronx.metrics())


if __name__ == "__main__":
    main()
