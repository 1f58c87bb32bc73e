# SPDX-License-Identifier: Apache-2.0
"""SmolLM2-135M decoding, dynamic cache, float32: tokens per second on `neuron`
against the CPU with the same threads, in one run, best of 3 after a warm-up."""

import os
import sys
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import torch
from transformers import AutoModelForCausalLM

import torch_neuronx
from smollm2 import model_folder

TOKENS = 32


def rate(device: str) -> float:
    model = AutoModelForCausalLM.from_pretrained(
        model_folder(), dtype=torch.float32, device_map=device
    )
    prompt = torch.arange(100, 145, device=device)[None]
    best = 0.0
    for _ in range(4):
        start = time.perf_counter()
        output = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=TOKENS,
            min_new_tokens=TOKENS,
            do_sample=False,
        )
        output.cpu()
        best = max(best, TOKENS / (time.perf_counter() - start))
    return best


def main() -> None:
    cpu, neuron = rate("cpu"), rate("neuron")
    print(f"threads {torch.get_num_threads()}")
    print(f"cpu {cpu:.1f}, neuron {neuron:.1f} tokens/s, ratio {neuron / cpu:.2f}")
    print(torch_neuronx.metrics())


if __name__ == "__main__":
    main()
