# SPDX-License-Identifier: Apache-2.0
"""Compiled graphs against CPU eager and Inductor's CPU backend.

    python tests/bench/bench_compile.py [--models]

Each figure is a ratio of two times of one run; 2 threads. Inductor is left out
where it cannot build (it needs a C++ compiler).
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import torch

import torch_neuronx
from torch_neuronx.neuron_dynamo_backend import (
    get_dynamo_metrics,
    reset_dynamo_metrics,
)

REPEATS = 7


def seconds(function: Callable[[], Any], repeats: int = REPEATS) -> float:
    """The fastest of some runs, device work included."""
    times = []
    for _ in range(repeats + 1):
        torch.neuron.synchronize()
        start = time.perf_counter()
        result = function()
        torch.neuron.synchronize()
        times.append(time.perf_counter() - start)
        del result
    return min(times[1:])


def compiled(function: Callable[..., Any], backend: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(function, backend=backend, fullgraph=True, dynamic=False)


def cheap(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    for _ in range(16):
        x = torch.relu(x * 1.01 + y) - 0.2
    return x


def tanh(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    for _ in range(32):
        x = torch.tanh(x)
    return x


def rms_norm(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
    return torch.nn.functional.silu(x * scale) * y


def chains() -> None:
    print("16 MiB float32        CPU eager  Inductor   neuron   eager/  Inductor/")
    x, y = torch.randn(2, 4096, 1024)
    for name, function in {
        "64 cheap operators": cheap,
        "32 tanh": tanh,
        "RMS norm, SiLU, mul": rms_norm,
    }.items():
        eager = seconds(lambda f=function: f(x, y))
        neuron = compiled(function, "neuron")
        on_device = x.to("neuron"), y.to("neuron")
        ours = seconds(lambda f=neuron, a=on_device: f(*a))
        other = compiled(function, "inductor")
        inductor = seconds(lambda f=other: f(x, y))
        print(
            f"{name:<22}{eager * 1e3:7.1f} ms{inductor * 1e3:7.1f} ms"
            f"{ours * 1e3:7.1f} ms{eager / ours:8.2f}{inductor / ours:8.2f}"
        )


def caller() -> None:
    """Of a launch with ten arguments on an idle stream."""

    def function(*tensors: torch.Tensor) -> torch.Tensor:
        return torch.stack(tensors).sum(0)

    def burst(f: Callable[..., Any], args: list[torch.Tensor]) -> float:
        best = float("inf")
        for _ in range(20):
            torch.neuron.synchronize()
            start = time.perf_counter()
            for _ in range(256):
                f(*args)
            best = min(best, (time.perf_counter() - start) / 256)
        return best * 1e6

    cpu = [torch.randn(4, 4) for _ in range(10)]
    device = [x.to("neuron") for x in cpu]
    with torch.no_grad():
        ours = compiled(function, "neuron")
        ours(*device)
        whole = burst(ours, device)
        aot = compiled(function, "aot_eager")
        aot(*cpu)
        other = burst(aot, cpu)
        result = torch.empty_like(device[0])
        nothing = compiled(function, lambda module, example: lambda *args: (result,))
        nothing(*device)
        floor = burst(nothing, device)
        native = native_graph(function, device)
        bare = burst(lambda *args: native(list(args)), device)
    print(f"caller of a launch with 10 arguments: {whole:.1f} us, of which")
    print(f"  Dynamo's guards and AOTAutograd's wrapper: {whole - bare:.1f} us")
    print(f"  a backend that does nothing: {floor:.1f} us")
    print(f"  aot_eager on the CPU, operators included: {other:.1f} us")


def native_graph(function: Callable[..., Any], args: list[torch.Tensor]) -> Any:
    """The graph under what PyTorch wraps around it."""
    from torch_neuronx import graphs

    made = []
    original = graphs.Graph.compile

    def keep(self: graphs.Graph, example: list[Any]) -> Any:
        made.append(original(self, example))
        return made[-1]

    graphs.Graph.compile = keep
    try:
        compiled(function, "neuron")(*args)
    finally:
        graphs.Graph.compile = original
    return made[-1]


def decode(dtype: torch.dtype, tokens: int = 48) -> None:
    """SmolLM2-135M with a static cache, 2 threads."""
    from transformers import AutoModelForCausalLM, CompileConfig

    from smollm2 import model_folder

    def rate(device: str, backend: str | None) -> tuple[float, float]:
        torch._dynamo.reset()
        model = AutoModelForCausalLM.from_pretrained(
            model_folder(), dtype=dtype, device_map=device
        ).eval()
        times: list[float] = []

        class Streamer:
            def put(self, value: Any) -> None:
                times.append(time.perf_counter())

            def end(self) -> None:
                pass

        options: dict[str, Any] = {}
        if backend is not None:
            config = CompileConfig(backend=backend, mode=None, fullgraph=False)
            config._compile_all_devices = True
            options = {"cache_implementation": "static", "compile_config": config}
        ids = torch.arange(1, 33)[None]
        model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            do_sample=False,
            streamer=Streamer(),
            **options,
        )
        return (len(times) - 9) / (times[-1] - times[8]), times[2] - times[0]

    eager, _ = rate("cpu", None)
    aot, aot_first = rate("cpu", "aot_eager")
    inductor, inductor_first = rate("cpu", "inductor")
    reset_dynamo_metrics()
    ours, first = rate("neuron", "neuron")
    lowering = get_dynamo_metrics()["lowering_seconds"]
    print(f"SmolLM2 decode, static cache, {str(dtype)[6:]}")
    print(
        f"  tokens/s: CPU eager {eager:.1f}, Inductor {inductor:.1f}, neuron "
        f"{ours:.1f}: {ours / eager:.2f} and {ours / inductor:.2f} of them"
    )
    print(
        f"  to the first compiled token: aot_eager {aot_first:.1f} s, Inductor "
        f"{inductor_first:.1f} s, neuron {first:.1f} s ({first / aot_first:.2f} of "
        f"aot_eager), {lowering:.2f} s of them from FX to the program"
    )


def llama_step(device: str, dtype: torch.dtype, backend: str | None) -> Any:
    """Forward, backward and AdamW of one Llama layer, 2 x 256 tokens of 512."""
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import (
        LlamaDecoderLayer,
        LlamaRotaryEmbedding,
    )

    torch._dynamo.reset()
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=512,
        intermediate_size=1376,
        num_attention_heads=8,
        num_key_value_heads=4,
        num_hidden_layers=1,
        attn_implementation="sdpa",
    )
    layer = LlamaDecoderLayer(config, 0).to(device)
    x = torch.randn(2, 256, 512).to(device)
    places = torch.arange(256)[None].to(device)
    angles = LlamaRotaryEmbedding(config).to(device)(x, places)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=1e-3)

    def forward(x: torch.Tensor) -> torch.Tensor:
        out = layer(x, position_embeddings=angles)
        return out[0] if isinstance(out, tuple) else out

    run = torch.compile(forward, backend=backend, dynamic=False) if backend else forward

    def step() -> torch.Tensor:
        with torch.autocast(device, dtype, enabled=dtype != torch.float32):
            loss = run(x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    for _ in range(3):
        step()
    return step


def training(dtype: torch.dtype) -> None:
    times = {}
    for name, device, backend in (
        ("CPU eager", "cpu", None),
        ("Inductor", "cpu", "inductor"),
        ("neuron eager", "neuron", None),
        ("neuron", "neuron", "neuron"),
    ):
        times[name] = seconds(llama_step(device, dtype, backend))
    ours = times["neuron"]
    print(f"training step of a Llama layer, {str(dtype)[6:]}")
    print("  ms: " + ", ".join(f"{k} {v * 1e3:.0f}" for k, v in times.items()), end="")
    print(
        f": {times['CPU eager'] / ours:.2f} of eager, "
        f"{times['Inductor'] / ours:.2f} of Inductor"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--models", action="store_true", help="a Llama layer and SmolLM2, minutes"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    chains()
    caller()
    if arguments.models:
        for dtype in (torch.float32, torch.bfloat16):
            training(dtype)
        for dtype in (torch.float32, torch.bfloat16):
            decode(dtype)
    print(f"fallbacks: {torch_neuronx.get_fallback_ops()}")


if __name__ == "__main__":
    main()
