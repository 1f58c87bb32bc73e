# SPDX-License-Identifier: Apache-2.0
"""Representative operators at real sizes against CPU eager's, with the same threads in
one run. A round runs one and then the other, so that a busy machine slows both; the
ratio is the CPU's best time divided by ours, with execution.

    bench_operators.py [--rounds 7] [--threads 2] [--only softmax ...]
"""

import argparse
import math
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table

import torch_neuronx

VOCABULARY = 49_152
SECONDS = 0.3  # of calls per round and device, at least one call


def matmul(device: str) -> Callable:
    x, y = (torch.randn(1024, 1024, device=device) for _ in range(2))
    return lambda: x @ y


def convolution(device: str) -> Callable:
    x = torch.randn(8, 64, 56, 56, device=device)
    w = torch.randn(64, 64, 3, 3, device=device)
    return lambda: F.conv2d(x, w, padding=1)


def softmax(device: str) -> Callable:
    x = torch.randn(4096, 4096, device=device)
    return lambda: x.softmax(-1)


def layer_norm(device: str) -> Callable:
    x = torch.randn(4096, 1024, device=device)
    w, b = torch.randn(1024, device=device), torch.randn(1024, device=device)
    return lambda: F.layer_norm(x, (1024,), w, b)


def attention(device: str) -> Callable:
    q, k, v = (torch.randn(1, 8, 2048, 64, device=device) for _ in range(3))
    return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)


def embedding(device: str) -> Callable:
    w = torch.randn(VOCABULARY, 576, device=device)
    i = torch.randint(VOCABULARY, (8, 512), device=device)
    return lambda: F.embedding(i, w)


def cross_entropy(device: str) -> Callable:
    x = torch.randn(512, VOCABULARY, device=device, requires_grad=True)
    y = torch.randint(VOCABULARY, (512,), device=device)

    def call() -> None:
        x.grad = None
        F.cross_entropy(x, y).backward()

    return call


def adamw(device: str) -> Callable:
    params = [torch.randn(256, 256, device=device).requires_grad_() for _ in range(100)]
    for p in params:
        p.grad = torch.randn_like(p)
    return torch.optim.AdamW(params).step


CALLS = {
    "matmul 1024": matmul,
    "conv 3x3": convolution,
    "softmax 4096x4096": softmax,
    "layer_norm 4096x1024": layer_norm,
    "attention 2k, causal": attention,
    "embedding": embedding,
    "cross entropy 49k, both ways": cross_entropy,
    "AdamW step, 100 tensors": adamw,
}


def seconds(call: Callable, device: str, count: int) -> float:
    if device == "neuron":
        torch.neuron.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        call()
    if device == "neuron":
        torch.neuron.synchronize()
    return (time.perf_counter() - start) / count


def compare(make: Callable, rounds: int) -> dict[str, float]:
    """Seconds per call, the best round of each device."""
    torch.manual_seed(0)
    calls = {device: make(device) for device in ("cpu", "neuron")}
    best = dict.fromkeys(calls, math.inf)
    counts = {}
    for device, call in calls.items():
        seconds(call, device, 1)  # compiles
        counts[device] = max(1, round(SECONDS / seconds(call, device, 1)))
    for _ in range(rounds):
        for device, call in calls.items():
            best[device] = min(best[device], seconds(call, device, counts[device]))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[])
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    table = Table("operator", "cpu ms", "neuron ms", "ratio")
    ratios = []
    for name, make in CALLS.items():
        if arguments.only and not any(part in name for part in arguments.only):
            continue
        best = compare(make, arguments.rounds)
        ratios.append(best["cpu"] / best["neuron"])
        cpu, neuron = (f"{best[d] * 1e3:.2f}" for d in ("cpu", "neuron"))
        table.add_row(name, cpu, neuron, f"{ratios[-1]:.2f}")
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    table.add_row("geometric mean", "", "", f"{mean:.2f}")
    Console(width=100).print(table)
    print(f"threads {torch.get_num_threads()}, {arguments.rounds} rounds")
    print(f"fallbacks: {torch_neuronx.get_fallback_ops() or 'none'}")


if __name__ == "__main__":
    main()
