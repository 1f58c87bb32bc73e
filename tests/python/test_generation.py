# SPDX-License-Identifier: Apache-2.0
"""Static-cache generation in a bounded number of programs."""

import copy
import math
import subprocess
import sys

import pytest
import torch
from transformers import CompileConfig

import torch_neuronx
from compiled import llama
from torch_neuronx import generation
from torch_neuronx.neuron_dynamo_backend import get_dynamo_metrics

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.usefixtures("fresh_dynamo"),
]
LONGEST = 60


@pytest.fixture(scope="module")
def reference():
    torch.manual_seed(0)
    return llama(
        vocab_size=128,
        max_position_embeddings=256,
        eos_token_id=None,
        bos_token_id=1,
        pad_token_id=0,
    ).eval()


def prompt(length, batch=1):
    return torch.randint(1, 128, (batch, length))


def compilations():
    return (
        get_dynamo_metrics()["programs"],
        torch_neuronx.metrics().get("programs_compiled", 0),
    )


def test_is_an_attribute_of_the_package():
    program = "import torch_neuronx; print(torch_neuronx.generation.buckets(20))"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert result.stdout == "[16, 32]\n", result.stderr


def test_buckets():
    assert generation.buckets(100) == [16, 32, 64, 128]
    assert generation.buckets(16) == [16, 32]
    assert generation.buckets(7) == [16]


def test_prompts_of_many_lengths_need_few_programs(reference):
    model = copy.deepcopy(reference).to("neuron")
    programs = generation.warm_up(model, LONGEST, max_new_tokens=8)
    assert 2 <= programs <= math.ceil(math.log2(LONGEST + 8)) + 3
    # One call for what is no graph: the numbers around the model.
    model.generate(prompt(5), max_new_tokens=8, do_sample=False)
    before = compilations()
    for length in (1, 2, 7, 15, 16, 17, 31, 32, 40, 60):
        ids = prompt(length)
        expected = reference.generate(ids, max_new_tokens=8, do_sample=False)
        actual = model.generate(input_ids=ids, max_new_tokens=8, do_sample=False)
        assert actual.tolist() == expected.tolist(), length
    assert compilations() == before


def test_batches_with_left_padding(reference):
    model = copy.deepcopy(reference).to("neuron")
    generation.warm_up(model, 12, 6, batch_size=3)
    ids = prompt(9, batch=3)
    mask = torch.ones_like(ids)
    mask[0, :4] = 0
    mask[2, :1] = 0
    ids[mask == 0] = 0
    options = {"attention_mask": mask, "max_new_tokens": 6, "do_sample": False}
    before = get_dynamo_metrics()["programs"]
    actual = model.generate(ids, **options)
    assert get_dynamo_metrics()["programs"] == before
    assert actual.tolist() == reference.generate(ids, **options).tolist()


def test_sampling_is_reproducible(reference):
    model = copy.deepcopy(reference).to("neuron")
    generation.warm_up(model, 12, 8, do_sample=True)
    ids = prompt(9)
    results = []
    for _ in range(2):
        torch.manual_seed(5)
        results.append(
            model.generate(ids, max_new_tokens=8, do_sample=True, top_k=20).tolist()
        )
    assert results[0] == results[1]
    assert len(results[0][0]) == 17


def test_beam_search(reference):
    model = copy.deepcopy(reference).to("neuron")
    generation.warm_up(model, 12, 6, num_beams=3)
    ids = prompt(9)
    options = {"max_new_tokens": 6, "do_sample": False, "num_beams": 3}
    actual = model.generate(ids, **options)
    assert actual.tolist() == reference.generate(ids, **options).tolist()


def test_what_does_not_fit_is_an_error(reference):
    model = copy.deepcopy(reference).to("neuron")
    with pytest.raises(ValueError, match="256 positions"):
        generation.warm_up(model, 250, 10)
    with pytest.raises(ValueError, match="lengths="):
        generation.warm_up(model, 64, 8, lengths=[64])
    with pytest.raises(ValueError, match="max_new_tokens"):
        generation.warm_up(model, 64, 0)
    generation.warm_up(model, 12, 8)
    with pytest.raises(ValueError, match="17 tokens"):
        model.generate(prompt(17), max_new_tokens=4)
    with pytest.raises(ValueError, match="20 new ones"):
        model.generate(prompt(10), max_new_tokens=20)


@pytest.mark.parametrize("config", [None, CompileConfig(backend="neuron")])
def test_transformers_own_static_cache(reference, config):
    """Without ``warm_up``: the default asks for Inductor."""
    model = copy.deepcopy(reference).to("neuron")
    ids = prompt(7)
    options = {"max_new_tokens": 6, "do_sample": False}
    expected = reference.generate(ids, **options)
    static = {"cache_implementation": "static", "compile_config": config}
    for _ in range(2):
        actual = model.generate(ids.to("neuron"), **options, **static)
        assert actual.tolist() == expected.tolist()
    assert get_dynamo_metrics()["programs"] == 1


def test_chunked_prefill(reference):
    """Four chunks need no more programs than two. A length needs none once Dynamo
    has captured the graph with symbolic sizes and seen it there."""
    model = copy.deepcopy(reference).to("neuron")
    options = {"max_new_tokens": 6, "do_sample": False}
    programs = []
    for length in (16, 32, 16, 32, 16, 32):
        ids = prompt(length)
        actual = model.generate(
            ids,
            **options,
            cache_implementation="static",
            max_cache_len=48,
            prefill_chunk_size=8,
            compile_config=CompileConfig(backend="neuron", fullgraph=False),
        )
        assert actual.tolist() == reference.generate(ids, **options).tolist()
        programs.append(get_dynamo_metrics()["programs"])
    assert programs[0] <= 3
    assert programs[1] - programs[0] <= 2
    assert programs[5] == programs[3]


def test_bfloat16(reference):
    """Greedy and sampled: nothing is compiled after ``warm_up``, and the tokens are
    those of eager."""
    eager = copy.deepcopy(reference).to("neuron", torch.bfloat16)
    for sample in (False, True):
        torch._dynamo.reset()
        model = copy.deepcopy(reference).to("neuron", torch.bfloat16)
        generation.warm_up(model, 20, max_new_tokens=8, do_sample=sample)
        options = {"max_new_tokens": 8, "do_sample": sample}
        model.generate(prompt(5), **options)
        before = get_dynamo_metrics()["programs"]
        for length in (3, 9, 20):
            ids = prompt(length)
            torch.manual_seed(2)
            actual = model.generate(ids, **options)
            torch.manual_seed(2)
            expected = eager.generate(ids, **options)
            assert actual.tolist() == expected.tolist(), length
        assert get_dynamo_metrics()["programs"] == before


def test_decoding_with_an_assistant_model(reference):
    """The caches are cropped: eager, with the CPU's tokens."""
    model = copy.deepcopy(reference).to("neuron")
    assistant = copy.deepcopy(reference)
    torch.nn.init.normal_(assistant.lm_head.weight, std=0.05)
    ids = prompt(9)
    options = {"max_new_tokens": 8, "do_sample": False}
    expected = reference.generate(ids, **options)
    actual = model.generate(
        ids.to("neuron"), **options, assistant_model=assistant.to("neuron")
    )
    assert actual.tolist() == expected.tolist()


def test_assisted_decoding(reference):
    """The draft's cache is cropped: eager, with the CPU's tokens."""
    model = copy.deepcopy(reference).to("neuron")
    ids = prompt(9)
    options = {"max_new_tokens": 8, "do_sample": False, "prompt_lookup_num_tokens": 3}
    actual = model.generate(ids.to("neuron"), **options)
    assert actual.tolist() == reference.generate(ids, **options).tolist()
