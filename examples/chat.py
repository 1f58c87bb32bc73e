# SPDX-License-Identifier: Apache-2.0
"""SmolLM2-135M-Instruct answers a prompt on device `neuron`. Exits with 1 if an
operator ran on the CPU instead.

    python examples/chat.py "Why is the sky blue?" --dtype bfloat16
"""

import argparse
import os
import sys
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, TextStreamer

import torch_neuronx
from smollm2 import model_folder


class TimedStreamer(TextStreamer):
    """Prints the answer and notes when each token came."""

    def __init__(self, tokenizer: object) -> None:
        super().__init__(tokenizer, skip_prompt=True, skip_special_tokens=True)
        self.times: list[float] = []

    def put(self, value: torch.Tensor) -> None:
        self.times.append(time.perf_counter())  # the first is the prompt's
        super().put(value)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prompt", nargs="?", default="What is a tensor?")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--tokens", type=int, default=128, help="at most so many")
    parser.add_argument("--device", default="neuron")
    parser.add_argument("--sample", action="store_true", help="draw the words")
    parser.add_argument(
        "--compile",
        action="store_true",
        help="static cache and torch.compile, warmed up beforehand",
    )
    arguments = parser.parse_args()

    print("Loading SmolLM2-135M-Instruct (converted once) ...", flush=True)
    folder = model_folder()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=getattr(torch, arguments.dtype),
        device_map=arguments.device,
    ).eval()
    inputs = tokenizer.apply_chat_template(
        [{"role": "user", "content": arguments.prompt}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )
    if arguments.compile:
        warm_up(model, inputs["input_ids"].shape[1], arguments)
    else:
        inputs = inputs.to(arguments.device)

    torch_neuronx.clear_op_tracking()
    print(f"\n> {arguments.prompt}\n", flush=True)
    streamer = TimedStreamer(tokenizer)
    model.generate(
        **inputs,
        max_new_tokens=arguments.tokens,
        do_sample=arguments.sample,
        streamer=streamer,
    )
    return report(arguments.device, streamer.times)


def warm_up(model: object, prompt: int, arguments: argparse.Namespace) -> None:
    """Compiles the prompt's length and the step of decoding."""
    from torch_neuronx import generation

    print("Compiling ...", flush=True)
    start = time.perf_counter()
    programs = generation.warm_up(
        model,
        prompt,
        arguments.tokens,
        lengths=generation.buckets(prompt)[-1:],
        do_sample=arguments.sample,
    )
    print(f"{programs} programs in {time.perf_counter() - start:.0f} s")


def report(device: str, times: list[float]) -> int:
    """Prints what happened; 1 if something fell back, else 0."""
    start, first, last = times[0], times[1], times[-1]
    tokens = len(times) - 1
    rate = (tokens - 1) / (last - first) if tokens > 1 else 0.0
    executed = torch_neuronx.get_executed_ops()
    fallen_back = torch_neuronx.get_fallback_ops()
    rows = {
        "Tokens": f"{tokens}, {rate:.1f} per second, first after {first - start:.2f} s",
    }
    if torch.device(device).type == "neuron":
        compiled = torch_neuronx.metrics().get("programs_compiled", 0)
        peak = torch.neuron.max_memory_allocated() / 2**20
        rows |= {
            "Peak device memory": f"{peak:.0f} MiB",
            "Programs compiled": str(compiled),
            "Operators executed": f"{sum(executed.values())} ({len(executed)} kinds)",
            "Operators fallen back": str(sum(fallen_back.values())),
        }
    print()
    for name, value in rows.items():
        print(f"{name + ':':<24}{value}")
    for name, count in sorted(fallen_back.items()):
        print(f"  {name}: {count}")
    return 1 if fallen_back else 0


if __name__ == "__main__":
    sys.exit(main())
