# SPDX-License-Identifier: Apache-2.0
"""Pretrained models from packages write and embed as on the CPU."""

import sys
from pathlib import Path

import pytest
import torch

import torch_neuronx

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_smollm2_writes_the_cpu_s_text(implementation):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from smollm2 import model_folder

    folder = model_folder()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Name three rivers."}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )
    tokens = 64 if implementation == "sdpa" else 16
    texts = []
    for device in ("cpu", "neuron"):
        model = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=torch.float32,
            device_map=device,
            attn_implementation=implementation,
        )
        torch_neuronx.clear_op_tracking()
        output = model.generate(
            **inputs.to(device),
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            do_sample=False,
        )
        texts.append(output.cpu().tolist())
    assert torch_neuronx.get_fallback_ops() == {}
    assert texts[0] == texts[1]


def test_minilm_embeddings_equal_cpu(minilm):
    tokenizer, model = minilm
    inputs = tokenizer(
        ["A river flows to the sea.", "Tensors"], padding=True, return_tensors="pt"
    )
    with torch.no_grad():
        expected = model(**inputs).last_hidden_state
        actual = model.to("neuron")(**inputs.to("neuron")).last_hidden_state
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-5, atol=1e-5)
