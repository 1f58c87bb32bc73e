# SPDX-License-Identifier: Apache-2.0
"""Models under torch.compile compute what eager computes on the CPU."""

import copy

import pytest
import torch
import torch.nn.functional as F

import digits
from compiled import assert_close, check_training, compiled, llama
from torch_neuronx.neuron_dynamo_backend import get_dynamo_metrics

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def check(reference, inputs, tolerance=1e-4, **options):
    """A step of training, in one forward and one backward graph."""
    check_training(reference, inputs, tolerance=tolerance, **options)
    assert get_dynamo_metrics()["graphs"] == 2


class ResidualBlock(torch.nn.Module):
    """Of a diffusion UNet: GroupNorm, SiLU, convolution, the time's embedding."""

    def __init__(self, inner, outer, time):
        super().__init__()
        self.norm1 = torch.nn.GroupNorm(4, inner)
        self.conv1 = torch.nn.Conv2d(inner, outer, 3, padding=1)
        self.time = torch.nn.Linear(time, outer)
        self.norm2 = torch.nn.GroupNorm(4, outer)
        self.conv2 = torch.nn.Conv2d(outer, outer, 3, padding=1)
        self.skip = (
            torch.nn.Identity() if inner == outer else torch.nn.Conv2d(inner, outer, 1)
        )

    def forward(self, x, time):
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.time(F.silu(time))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(h)))


class Attention(torch.nn.Module):
    def __init__(self, width, context=None, heads=2):
        super().__init__()
        self.heads = heads
        self.q = torch.nn.Linear(width, width, bias=False)
        self.k = torch.nn.Linear(context or width, width, bias=False)
        self.v = torch.nn.Linear(context or width, width, bias=False)
        self.out = torch.nn.Linear(width, width)

    def forward(self, x, context=None):
        context = x if context is None else context
        q, k, v = (
            p.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for p in (self.q(x), self.k(context), self.v(context))
        )
        h = F.scaled_dot_product_attention(q, k, v)
        return self.out(h.transpose(1, 2).flatten(2))


class TransformerBlock(torch.nn.Module):
    """Over the pixels: self attention, attention to the text, gated feed-forward."""

    def __init__(self, width, context):
        super().__init__()
        self.norm = torch.nn.GroupNorm(4, width, eps=1e-6)
        self.enter = torch.nn.Conv2d(width, width, 1)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(3))
        self.self_attention = Attention(width)
        self.cross_attention = Attention(width, context)
        self.gate = torch.nn.Linear(width, 8 * width)
        self.down = torch.nn.Linear(4 * width, width)
        self.leave = torch.nn.Conv2d(width, width, 1)

    def forward(self, x, context):
        batch, width, height, breadth = x.shape
        h = self.enter(self.norm(x))
        h = h.permute(0, 2, 3, 1).reshape(batch, height * breadth, width)
        h = h + self.self_attention(self.norms[0](h))
        h = h + self.cross_attention(self.norms[1](h), context)
        up, gate = self.gate(self.norms[2](h)).chunk(2, dim=-1)
        h = h + self.down(up * F.gelu(gate))
        h = h.reshape(batch, height, breadth, width).permute(0, 3, 1, 2).contiguous()
        return x + self.leave(h)


class UNet(torch.nn.Module):
    """One level down, a middle, one level up, as in latent diffusion."""

    def __init__(self, width=8, context=12):
        super().__init__()
        time = 4 * width
        self.width = width
        self.time = torch.nn.Sequential(
            torch.nn.Linear(width, time), torch.nn.SiLU(), torch.nn.Linear(time, time)
        )
        self.enter = torch.nn.Conv2d(4, width, 3, padding=1)
        self.down = ResidualBlock(width, 2 * width, time)
        self.attend = TransformerBlock(2 * width, context)
        self.shrink = torch.nn.Conv2d(2 * width, 2 * width, 3, stride=2, padding=1)
        self.middle = ResidualBlock(2 * width, 2 * width, time)
        self.grow = torch.nn.Conv2d(2 * width, 2 * width, 3, padding=1)
        self.up = ResidualBlock(4 * width, width, time)
        self.norm = torch.nn.GroupNorm(4, width)
        self.leave = torch.nn.Conv2d(width, 4, 3, padding=1)

    def forward(self, sample, timestep, context):
        half = self.width // 2
        steps = torch.arange(half, dtype=torch.float32, device=sample.device)
        angles = timestep[:, None] * torch.exp(-9.2 * steps / half)[None]
        time = self.time(torch.cat([angles.cos(), angles.sin()], dim=-1))
        x = self.enter(sample)
        skip = self.attend(self.down(x, time), context)
        x = self.middle(self.shrink(skip), time)
        x = self.grow(F.interpolate(x, scale_factor=2.0, mode="nearest"))
        x = self.up(torch.cat([x, skip], dim=1), time)
        return self.leave(F.silu(self.norm(x)))


def test_diffusion_unet():
    inputs = {
        "sample": torch.randn(2, 4, 8, 8, requires_grad=True),
        "timestep": torch.tensor([3.0, 700.0]),
        "context": torch.randn(2, 5, 12, requires_grad=True),
    }
    check(UNet(), inputs, tolerance=1e-3)


def test_vision_transformer():
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=16,
        patch_size=4,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    inputs = {"pixel_values": torch.randn(2, 3, 16, 16, requires_grad=True)}
    check(ViTModel(config), inputs, result=lambda out: out.pooler_output)


@pytest.fixture(scope="module")
def whisper():
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    torch.manual_seed(0)
    return WhisperForConditionalGeneration(
        WhisperConfig(
            vocab_size=64,
            num_mel_bins=8,
            d_model=32,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=64,
            decoder_ffn_dim=64,
            max_source_positions=20,
            max_target_positions=40,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
            suppress_tokens=None,
            begin_suppress_tokens=None,
            dropout=0.0,
        )
    ).eval()


def test_speech_encoder_decoder(whisper):
    inputs = {
        "input_features": torch.randn(2, 8, 40),
        "decoder_input_ids": torch.randint(3, 64, (2, 6)),
    }
    check(copy.deepcopy(whisper), inputs, result=lambda out: out.logits)


def test_speech_generation_with_a_static_cache(whisper):
    model = copy.deepcopy(whisper).to("neuron")
    options = {"max_new_tokens": 8, "min_new_tokens": 8, "do_sample": False}
    for step in range(2):
        features = torch.randn(1, 8, 40)
        expected = whisper.generate(features, **options)
        actual = model.generate(
            features.to("neuron"), cache_implementation="static", **options
        )
        assert actual.tolist() == expected.tolist()
        if step == 0:
            programs = get_dynamo_metrics()["programs"]
    assert programs == get_dynamo_metrics()["programs"] == 1


def test_minilm_embeddings(minilm):
    tokenizer, model = minilm
    embed = torch.compile(
        copy.deepcopy(model).to("neuron"),
        backend="neuron",
        options={"buckets": {1: [8, 16]}},
    )
    for text in ("Tensors", "A river flows to the sea.", "It rains."):
        inputs = tokenizer([text, "words"], padding=True, return_tensors="pt")
        with torch.no_grad():
            expected = model(**inputs).last_hidden_state
            actual = embed(**inputs.to("neuron")).last_hidden_state
        assert_close(actual, expected, 1e-4)
    assert get_dynamo_metrics()["programs"] == 2


@pytest.mark.parametrize("optimizer", ["eager optimizer", "compiled optimizer"])
@pytest.mark.parametrize("bfloat16", [False, True])
def test_llama_training(bfloat16, optimizer):
    reference = llama()
    ids = torch.randint(0, 64, (2, 12))

    def losses(device, compile):
        model = copy.deepcopy(reference).to(device)
        all_compiled = compile and optimizer == "compiled optimizer"
        options = {"capturable": True} if all_compiled else {}
        adamw = torch.optim.AdamW(model.parameters(), lr=1e-2, **options)
        forward = compiled(model) if compile else model
        update = adamw.step
        if all_compiled:
            update = torch.compile(update, backend="neuron")
        history = []
        for _ in range(4):
            with torch.autocast(device, torch.bfloat16, enabled=bfloat16):
                loss = forward(input_ids=ids.to(device), labels=ids.to(device)).loss
            loss.backward()
            update()
            adamw.zero_grad()
            history.append(loss.item())
        return history

    tolerance = 2e-2 if bfloat16 else 1e-4
    expected = losses("cpu", False)
    assert losses("neuron", True) == pytest.approx(expected, rel=tolerance)
    assert expected[-1] < expected[0] - 0.1
    if optimizer == "eager optimizer":
        assert get_dynamo_metrics()["graphs"] == 2


def test_digits_network():
    images, labels = digits.load()
    reference = digits.cnn()

    def losses(device, compile):
        model = copy.deepcopy(reference).to(device)
        forward = torch.compile(model, backend="neuron") if compile else model
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        history = []
        for step in range(12):
            batch = slice(64 * step, 64 * (step + 1))
            out = forward(images[batch].to(device))
            loss = F.cross_entropy(out, labels[batch].to(device))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            history.append(loss.item())
        return history

    expected = losses("cpu", False)
    assert losses("neuron", True) == pytest.approx(expected, rel=1e-2, abs=1e-3)
    assert get_dynamo_metrics()["programs"] == 2
