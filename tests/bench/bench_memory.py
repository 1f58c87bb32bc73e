# SPDX-License-Identifier: Apache-2.0
"""Peak memory of forward and backward and of a step with AdamW, compiled and eager.

What ``torch.neuron.max_memory_allocated`` counts beyond parameters and the optimizer's
state, in MiB, with the backward graph as one program and in stages. "ratio" is that of
the stages to eager: at most 1 is the goal. Values inside a program are not counted, on
neither side.

    bench_memory.py [--models NAME ...]
"""

import argparse
import os
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

import torch_neuronx  # noqa: F401

MIB = 1 << 20
Loss = Callable[[Callable[..., object]], torch.Tensor]


def llama(batch: int, length: int) -> tuple[nn.Module, Loss]:
    config = LlamaConfig(
        hidden_size=256,
        intermediate_size=1024,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=4,
        vocab_size=2048,
        use_cache=False,
    )
    model = LlamaForCausalLM(config).to("neuron")
    ids = torch.randint(0, 2048, (batch, length), device="neuron")
    return model, lambda f: f(input_ids=ids, labels=ids).loss


def perceptron(batch: int) -> tuple[nn.Module, Loss]:
    layers = (m for _ in range(8) for m in (nn.Linear(512, 512), nn.ReLU()))
    model = nn.Sequential(*layers).to("neuron")
    x = torch.randn(batch, 512, device="neuron")
    return model, lambda f: f(x).square().mean()


def convolutions(batch: int) -> tuple[nn.Module, Loss]:
    def block(channels: int) -> tuple[nn.Module, ...]:
        conv = nn.Conv2d(channels, 32, 3, padding=1)
        return conv, nn.BatchNorm2d(32), nn.ReLU()

    layers = (m for k in range(5) for m in block(32 if k else 3))
    model = nn.Sequential(*layers).to("neuron")
    x = torch.randn(batch, 3, 64, 64, device="neuron")
    return model, lambda f: f(x).square().mean()


MODELS: dict[str, Callable[[], tuple[nn.Module, Loss]]] = {
    "Llama, 8 layers, 32 tokens": lambda: llama(1, 32),
    "Llama, 8 layers, 4 x 256 tokens": lambda: llama(4, 256),
    "8 linear layers, batch 16": lambda: perceptron(16),
    "8 linear layers, batch 512": lambda: perceptron(512),
    "8 linear layers, batch 4096": lambda: perceptron(4096),
    "5 convolutions, batch 16": lambda: convolutions(16),
}


def peak(
    make: Callable[[], tuple[nn.Module, Loss]], stages: int | None, steps: bool
) -> float:
    """MiB, eager if ``stages`` is None; with the optimizer's work if ``steps``."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    model, loss = make()
    optimizer = torch.optim.AdamW(model.parameters())
    function: Callable[..., object] = model
    if stages is not None:
        os.environ["TORCH_NEURONX_GRAPH_STAGES"] = str(stages)
        function = torch.compile(model, backend="neuron", fullgraph=True)
    for _ in range(3):
        torch.neuron.synchronize()
        torch.neuron.reset_peak_memory_stats()
        before = torch.neuron.memory_allocated()
        loss(function).backward()
        if steps:
            optimizer.step()
        optimizer.zero_grad()
        torch.neuron.synchronize()
    return (torch.neuron.max_memory_allocated() - before) / MIB


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    options = parser.parse_args()
    table = Table(
        *("model", "eager MiB", "one program", "stages", "ratio"),
        *("step: eager MiB", "stages", "ratio"),
    )
    for name in options.models:
        row: list[str] = [name]
        for steps, ways in ((False, (None, 1, 8)), (True, (None, 8))):
            figures = [peak(MODELS[name], stages, steps) for stages in ways]
            row += [f"{x:.1f}" for x in figures]
            row.append(f"{figures[-1] / figures[0]:.3f}")
        table.add_row(*row)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
