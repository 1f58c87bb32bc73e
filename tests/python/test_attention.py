# SPDX-License-Identifier: Apache-2.0
"""Scaled dot product attention: values and gradients as float64 on the CPU gives them,
dropout by seed, the hardware's program in XLA, memory linear in the length."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass, replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import torch_neuronx
import xla

aten = torch.ops.aten
FORWARD = aten._scaled_dot_product_fused_attention_overrideable.default
BACKWARD = aten._scaled_dot_product_fused_attention_overrideable_backward.default
FUSED, MATH = SDPBackend.OVERRIDEABLE, SDPBackend.MATH
# Relative to the largest value.
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 3e-2, torch.float16: 4e-3}


@dataclass
class Case:
    """``bool_mask`` and ``float_mask`` are shapes, ``dead`` query rows see no key."""

    batch: int = 2
    heads: int = 4
    key_heads: int = 4
    queries: int = 7
    keys: int = 10
    width: int = 8
    value_width: int = 8
    causal: bool = False
    scale: float | None = None
    bool_mask: tuple | None = None
    float_mask: tuple | None = None
    mask_gradient: bool = False
    dead: int = 0
    dropout: float = 0.0
    rank: int = 4

    def tensors(self) -> list[Tensor]:
        """Query, key, value, the output's gradient and the mask or None; float32."""
        # Leaves the device's generator, which dropout uses, alone.
        seeded = {"generator": torch.Generator().manual_seed(0)}
        queries = (self.batch, self.heads, self.queries)
        keys = (self.batch, self.key_heads, self.keys)
        q = torch.randn(*queries, self.width, **seeded)
        k = torch.randn(*keys, self.width, **seeded)
        v = torch.randn(*keys, self.value_width, **seeded)
        g = torch.randn(*queries, self.value_width, **seeded)
        mask = None
        if self.bool_mask:
            mask = torch.rand(self.bool_mask, **seeded) > 0.4
            mask[..., : self.dead, :] = False
        elif self.float_mask:
            mask = torch.randn(self.float_mask, **seeded)
            mask[..., : self.dead, :] = -torch.inf
        if self.rank == 3:
            q, k, v, g = q[0], k[0], v[0], g[0]
        return [q, k, v, g, mask]


CASES = {
    "plain": Case(queries=10),
    "causal": Case(causal=True),
    "causal, more queries than keys": Case(queries=12, keys=5, causal=True),
    "scale": Case(scale=0.3),
    "narrow value": Case(value_width=3),
    "wide value, causal": Case(value_width=16, causal=True),
    "one query": Case(queries=1, key_heads=2),
    "grouped": Case(key_heads=2),
    "grouped, causal": Case(key_heads=2, causal=True),
    "one key head": Case(key_heads=1, causal=True),
    "3-D": Case(batch=1, heads=3, key_heads=3, rank=3, causal=True),
    "3-D mask": Case(
        batch=1,
        heads=3,
        key_heads=3,
        rank=3,
        float_mask=(3, 7, 10),
        mask_gradient=True,
    ),
    "bool mask": Case(bool_mask=(7, 10)),
    "bool mask, causal": Case(bool_mask=(7, 10), causal=True),
    "bool mask by batch": Case(bool_mask=(2, 1, 7, 10), key_heads=2),
    "padding mask": Case(bool_mask=(2, 1, 1, 10)),
    "bool mask, dead rows": Case(bool_mask=(7, 10), dead=2),
    "float mask, dead rows": Case(float_mask=(2, 1, 7, 10), dead=3),
    "dead rows, mask gradient": Case(
        float_mask=(2, 1, 7, 10), dead=3, mask_gradient=True
    ),
    "float mask": Case(float_mask=(7, 10), mask_gradient=True),
    "float mask by head": Case(float_mask=(4, 7, 10), key_heads=2, mask_gradient=True),
    "float mask of all": Case(float_mask=(2, 4, 7, 10), mask_gradient=True),
    "float mask by key": Case(float_mask=(2, 1, 1, 10), mask_gradient=True),
    "float mask by query": Case(float_mask=(1, 4, 7, 1), mask_gradient=True),
    "float mask, grouped, causal": Case(float_mask=(7, 10), key_heads=2, causal=True),
    # More scores than one block holds: loops with and without a smaller last block.
    "heads in blocks": Case(queries=300, keys=1100, causal=True),
    "queries in blocks": Case(
        batch=1, heads=2, key_heads=1, queries=1100, keys=1027, causal=True
    ),
    "mask in blocks": Case(
        batch=1,
        heads=2,
        key_heads=2,
        queries=1100,
        keys=1027,
        float_mask=(1100, 1027),
        mask_gradient=True,
    ),
}


def attend(
    case: Case,
    device: str,
    dtype: torch.dtype,
    backend: SDPBackend,
    rounded: torch.dtype = torch.float32,
) -> list[Tensor]:
    """The output and the gradients of query, key, value and, if asked for, mask, of
    operands that are rounded to ``rounded`` first."""
    *tensors, g, mask = case.tensors()
    *tensors, g = (x.to(rounded) for x in (*tensors, g))
    inputs = [x.to(device, dtype).requires_grad_() for x in tensors]
    causal = case.causal
    if mask is not None:
        mask = mask.to(device)
        if case.float_mask:
            mask = mask.to(rounded).to(dtype).requires_grad_(case.mask_gradient)
    mask_of_call = mask
    if causal and backend == MATH and mask is not None:
        # Math refuses what flash and the fused program take: both at once.
        seen = torch.ones(case.queries, case.keys, dtype=torch.bool).tril()
        mask_of_call = (
            mask & seen if case.bool_mask else mask.masked_fill(~seen, -torch.inf)
        )
        causal = False
    with sdpa_kernel(backend):
        out = F.scaled_dot_product_attention(
            *inputs,
            attn_mask=mask_of_call,
            dropout_p=case.dropout,
            is_causal=causal,
            scale=case.scale,
            enable_gqa=case.key_heads != case.heads,
        )
    out.backward(g.to(device, dtype))
    inputs += [mask] * case.mask_gradient
    gradients = [x.grad for x in inputs]
    return [x.detach() for x in (out, *gradients)]


def assert_near(actual: list, expected: list, tolerance: float) -> None:
    assert len(actual) == len(expected)
    for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
        e = e.cpu().double()
        atol = tolerance * (1 + e.abs().max().item())
        torch.testing.assert_close(
            a.cpu().double(),
            e,
            rtol=0,
            atol=atol,
            msg=lambda m, i=i: f"result {i}: {m}",
        )


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_equal_cpu(name, dtype, no_fallback):
    case = CASES[name]
    rounded = attend(case, "neuron", dtype, FUSED)
    assert all(x.dtype == dtype and x.device.type == "neuron" for x in rounded)
    expected = attend(case, "cpu", torch.float64, MATH, rounded=dtype)
    assert_near(rounded, expected, TOLERANCE[dtype])


DROPOUT_CASES = {
    "plain": Case(dropout=0.3),
    "grouped, causal": Case(dropout=0.5, key_heads=2, causal=True),
    "odd sizes, mask": Case(
        dropout=0.2,
        queries=5,
        keys=9,
        float_mask=(5, 9),
        mask_gradient=True,
        value_width=3,
    ),
    "all dropped": Case(dropout=1.0),
    "queries in blocks": Case(
        batch=1, heads=2, key_heads=1, queries=1100, keys=1027, dropout=0.3, causal=True
    ),
    "heads in blocks": Case(queries=300, keys=1101, dropout=0.3),
}


@pytest.mark.parametrize("name", DROPOUT_CASES)
def test_dropout_is_that_of_the_unfused_softmax(name):
    """Score i draws word i, so the whole score matrix through F.dropout agrees."""
    case = DROPOUT_CASES[name]
    torch.neuron.manual_seed(7)
    fused = attend(case, "neuron", torch.float32, FUSED)
    torch.neuron.manual_seed(7)
    math = attend(case, "neuron", torch.float32, MATH)
    assert_near(fused, math, 5e-5)


def test_dropout_by_seed(no_fallback):
    case = DROPOUT_CASES["grouped, causal"]
    runs = []
    for seed in (1, 1, 2):
        torch.neuron.manual_seed(seed)
        runs.append(attend(case, "neuron", torch.float32, FUSED))
    assert all(torch.equal(a, b) for a, b in zip(runs[0], runs[1], strict=True))
    assert not torch.equal(runs[0][0], runs[2][0])
    # The generator moves on.
    again = attend(case, "neuron", torch.float32, FUSED)
    assert not torch.equal(again[0], runs[2][0])


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_statistics(p):
    """Equal scores and the identity as value: the output is the dropped softmax."""
    n = 256
    zero = torch.zeros(2, 4, n, 8, device="neuron")
    eye = torch.eye(n).expand(2, 4, n, n).contiguous().to("neuron")
    out = F.scaled_dot_product_attention(zero, zero, eye, dropout_p=p).cpu() * n
    kept = out != 0
    torch.testing.assert_close(out[kept], torch.full_like(out[kept], 1 / (1 - p)))
    deviation = (p * (1 - p) / out.numel()) ** 0.5
    assert abs(kept.double().mean().item() - (1 - p)) < 5 * deviation
    # Neighbours are independent: both kept with the product's probability.
    for both in (kept[..., 1:] & kept[..., :-1], kept[..., 1:, :] & kept[..., :-1, :]):
        assert abs(both.double().mean().item() - (1 - p) ** 2) < 0.005


SEED, OFFSET = 11, 5


def direct(case: Case) -> tuple[list, Tensor, list[Tensor]]:
    """Arguments of the forward operator, the output's gradient, seed and offset."""
    q, k, v, g, mask = case.tensors()
    if case.bool_mask:
        mask = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)
    seeds = [torch.tensor(SEED), torch.tensor(OFFSET)]
    return [q, k, v, mask, case.dropout, case.causal], g, seeds


def on_device(arguments: list) -> list:
    return [x.to("neuron") if isinstance(x, Tensor) else x for x in arguments]


def given(arguments: list) -> list[Tensor]:
    return [x for x in arguments if isinstance(x, Tensor)]


def uniform(case: Case) -> Tensor:
    """A number in [0, 1) for each score: the stream of SEED from block OFFSET on."""
    generator = torch.Generator("neuron").manual_seed(SEED)
    torch.empty(4 * OFFSET, device="neuron").uniform_(generator=generator)
    scores = torch.empty(case.batch, case.heads, case.queries, case.keys)
    return scores.to("neuron").uniform_(generator=generator).cpu()


XLA_CASES = {name: CASES[name] for name in CASES if CASES[name].rank == 4} | {
    f"dropout, {name}": case for name, case in DROPOUT_CASES.items() if case.dropout < 1
}


@pytest.mark.parametrize("name", XLA_CASES)
def test_hardware_program_equals_cpu(name):
    case = replace(XLA_CASES[name], scale=None)
    arguments, g, seeds = direct(case)
    program = torch_neuronx.program(FORWARD, *on_device(arguments))
    inputs = given(arguments) + (seeds if case.dropout else [])
    out, log_sum, *rest = xla.run(program.stablehlo, inputs)
    if case.dropout:
        assert [x.item() for x in rest[-2:]] == [SEED, OFFSET]
    backward = [g, *arguments[:4], [True, True, True, case.mask_gradient], out, log_sum]
    backward += [None, None, case.queries, case.keys, case.dropout, case.causal, *seeds]
    program_2 = torch_neuronx.program(BACKWARD, *on_device(backward))
    gradients = xla.run(program_2.stablehlo, given(backward))
    count = 4 if case.mask_gradient else 3
    assert_near([out, *gradients[:count]], reference(case, g), 2e-5)
    blocks = case.batch * case.heads * case.queries * case.keys > 1 << 20
    assert ("stablehlo.while" in program.stablehlo) == blocks
    assert ("stablehlo.while" in program_2.stablehlo) == blocks


def reference(case: Case, g: Tensor) -> list[Tensor]:
    """The definition in float64, dropout by the same uniform numbers."""
    q, k, v, _, mask = case.tensors()
    q, k, v = (x.double().requires_grad_() for x in (q, k, v))
    group = case.heads // case.key_heads
    keys, values = (x.repeat_interleave(group, 1) for x in (k, v))
    s = q @ keys.transpose(-2, -1) / case.width**0.5
    if mask is not None and mask.dtype == torch.bool:
        s = s.masked_fill(~mask, -torch.inf)
    elif mask is not None:
        mask = mask.double().requires_grad_(case.mask_gradient)
        s = s + mask
    if case.causal:
        seen = torch.ones(case.queries, case.keys, dtype=torch.bool).tril()
        s = s.masked_fill(~seen, -torch.inf)
    p = aten._safe_softmax(s, -1)
    if case.dropout:
        p = p * (uniform(case) >= case.dropout) / (1 - case.dropout)
    out = p @ values
    out.backward(g.double())
    inputs = [q, k, v] + [mask] * case.mask_gradient
    return [out.detach(), *(x.grad for x in inputs)]


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_hardware_program_holds_a_block_of_scores(dropout):
    n, heads = 4096, 2
    q = torch.zeros(1, heads, n, 16, device="neuron")
    log_sum = torch.zeros(1, heads, n, device="neuron")
    seed = torch.zeros((), dtype=torch.long, device="neuron")
    forward = torch_neuronx.program(FORWARD, q, q, q, None, dropout, False)
    backward = torch_neuronx.program(
        BACKWARD,
        *(q, q, q, q, None, [True, True, True, False], q, log_sum, None, None),
        *(n, n, dropout, False, seed, seed),
    )
    for program in (forward, backward):
        sizes = re.findall(r"tensor<((?:\d+x)+)", program.stablehlo)
        largest = max(
            torch.Size(map(int, s.strip("x").split("x"))).numel() for s in sizes
        )
        assert largest <= (1 << 20) + 4


def test_decomposed_numerics_agree(in_decomposed_numerics):
    """The table once more, with the simulator running the hardware's program."""
    in_decomposed_numerics(
        __file__, "test_values_and_gradients or test_dropout_is or test_dropout_by"
    )


def qkv(*shape: int, device: str = "neuron") -> list[Tensor]:
    seeded = {"generator": torch.Generator().manual_seed(0)}
    return [torch.randn(shape, **seeded).to(device).requires_grad_() for _ in range(3)]


CHOICES = [
    ("plain", {}, 4),
    ("dropout", {"dropout_p": 0.1}, 4),
    ("grouped", {"enable_gqa": True, "heads": 2}, 4),
    ("grouped without the flag", {"heads": 2}, 0),
    ("one key head", {"heads": 1}, 4),
    ("float64", {"dtype": torch.float64}, 0),
    ("empty", {"queries": 0}, 0),
    ("five dimensions", {"extra": True}, 0),
]


@pytest.mark.parametrize("name,options,expected", CHOICES, ids=[c[0] for c in CHOICES])
def test_choice(name, options, expected):
    options = dict(options)
    dtype = options.pop("dtype", torch.float32)
    heads, queries = options.pop("heads", 4), options.pop("queries", 6)
    lead = (1,) if options.pop("extra", False) else ()
    q = torch.zeros(*lead, 2, 4, queries, 8, dtype=dtype, device="neuron")
    k = torch.zeros(*lead, 2, heads, 6, 8, dtype=dtype, device="neuron")
    assert torch._fused_sdp_choice(q, k, k, **options) == expected


@pytest.mark.parametrize(
    "backends", [[MATH], [SDPBackend.FLASH_ATTENTION], [FUSED], [MATH, FUSED]], ids=str
)
def test_backends(backends, no_fallback):
    q, k, v = qkv(2, 4, 6, 8)
    with sdpa_kernel(backends):
        out = F.scaled_dot_product_attention(q, k, v)
    fused = "Fused" in type(out.grad_fn).__name__
    assert fused == (backends != [MATH])
    expected = F.scaled_dot_product_attention(*qkv(2, 4, 6, 8, device="cpu"))
    assert_near([out.detach()], [expected.detach()], 2e-5)


def error(call) -> tuple[type, str]:
    with pytest.raises(Exception) as caught:
        call()
    return type(caught.value), str(caught.value)


@pytest.mark.parametrize("backends", [[], [SDPBackend.EFFICIENT_ATTENTION]], ids=str)
def test_no_backend_left_raises_as_cpu(backends):
    def call(device):
        with sdpa_kernel(backends):
            F.scaled_dot_product_attention(*qkv(2, 4, 6, 8, device=device))

    assert error(lambda: call("neuron")) == error(lambda: call("cpu"))


def test_what_the_fused_program_refuses_raises_without_math():
    q = torch.zeros(2, 4, 6, 8, dtype=torch.float64, device="neuron")
    with (
        sdpa_kernel(SDPBackend.FLASH_ATTENTION),
        pytest.raises(RuntimeError, match="No available kernel.*float64"),
    ):
        F.scaled_dot_product_attention(q, q, q)


f = torch.zeros
ERRORS = {
    "1-D": lambda d: ((f(8), f(8), f(8)), {}),
    "dtypes": lambda d: ((f(2, 4, 6, 8), f(2, 4, 6, 8).half(), f(2, 4, 6, 8)), {}),
    "integers": lambda d: ((f(2, 4, 6, 8).int(),) * 3, {}),
    "widths": lambda d: ((f(2, 4, 6, 8), f(2, 4, 6, 4), f(2, 4, 6, 8)), {}),
    "heads": lambda d: ((f(2, 4, 6, 8), f(2, 3, 6, 8), f(2, 3, 6, 8)), {}),
    "grouped heads": lambda d: (
        (f(2, 4, 6, 8), f(2, 3, 6, 8), f(2, 3, 6, 8)),
        {"enable_gqa": True},
    ),
    "mask dtype": lambda d: ((f(2, 4, 6, 8),) * 3, {"attn_mask": f(6, 6).double()}),
    "mask sizes": lambda d: ((f(2, 4, 6, 8),) * 3, {"attn_mask": f(5, 6)}),
    "dropout": lambda d: ((f(2, 4, 6, 8),) * 3, {"dropout_p": 1.5}),
    "negative dropout": lambda d: ((f(2, 4, 6, 8),) * 3, {"dropout_p": -0.5}),
    "causal and trained mask": lambda d: (
        (f(2, 4, 6, 8),) * 3,
        {"attn_mask": f(6, 6).to(d).requires_grad_(), "is_causal": True},
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_raise_as_cpu(name):
    def call(device):
        tensors, options = ERRORS[name](device)
        options = {
            k: x.to(device) if isinstance(x, Tensor) else x for k, x in options.items()
        }
        F.scaled_dot_product_attention(*(x.to(device) for x in tensors), **options)

    assert error(lambda: call("neuron"))[0] is error(lambda: call("cpu"))[0]


@pytest.mark.parametrize("batch,queries,keys", [(0, 6, 6), (2, 0, 6), (2, 6, 0)])
def test_empty(batch, queries, keys):
    def call(device):
        q = f(batch, 4, queries, 8, device=device).requires_grad_()
        k = torch.ones(batch, 4, keys, 8, device=device).requires_grad_()
        out = F.scaled_dot_product_attention(q, k, k)
        out.sum().backward()
        return [out.detach(), q.grad, k.grad]

    for actual, expected in zip(call("neuron"), call("cpu"), strict=True):
        assert torch.equal(actual.cpu(), expected)


def test_views_of_sequences_and_caches(no_fallback):
    """[batch, length, heads, width] seen from the heads, and a part of a cache."""
    q, k, v = (torch.randn(2, n, 4, 8) for n in (3, 12, 12))

    def call(device):
        query, key, value = (x.to(device).transpose(1, 2) for x in (q, k, v))
        key, value = key[:, ::2, 2:9], value[:, ::2, 2:9]
        return F.scaled_dot_product_attention(query, key, value, enable_gqa=True)

    actual, expected = call("neuron"), call("cpu")
    assert actual.stride() == q.transpose(1, 2).stride()
    assert_near([actual], [expected], 2e-5)


def test_a_part_of_a_cache_is_not_copied():
    cache = torch.randn(2, 1, 4, 4096, 64, device="neuron")
    query = torch.randn(1, 4, 1, 64, device="neuron")
    torch.neuron.synchronize()
    torch.neuron.reset_peak_memory_stats()
    before = torch.neuron.memory_allocated()
    F.scaled_dot_product_attention(query, cache[0, :, :, :4000], cache[1, :, :, :4000])
    torch.neuron.synchronize()
    assert torch.neuron.max_memory_allocated() - before < 16 << 10


@pytest.mark.parametrize("name", ["causal", "grouped", "float mask", "narrow value"])
def test_second_gradients_equal_cpu(name, no_fallback):
    case = CASES[name]

    def call(device, dtype, backend):
        *tensors, _, mask = case.tensors()
        inputs = [x.to(device, dtype).requires_grad_() for x in tensors]
        if mask is not None:
            inputs.append(mask.to(device, dtype).requires_grad_())
        with sdpa_kernel(backend):
            out = F.scaled_dot_product_attention(
                *inputs, is_causal=case.causal, enable_gqa=True
            )
        first = torch.autograd.grad(out.pow(2).sum(), inputs, create_graph=True)
        return torch.autograd.grad(sum(x.pow(2).sum() for x in first), inputs)

    actual = call("neuron", torch.float32, FUSED)
    assert_near(actual, call("cpu", torch.float64, MATH), 2e-5)


def test_second_gradients_with_dropout(no_fallback):
    def call(backend):
        torch.neuron.manual_seed(3)
        q, k, v = qkv(2, 4, 7, 8)
        with sdpa_kernel(backend):
            out = F.scaled_dot_product_attention(q, k, v, dropout_p=0.4)
        first = torch.autograd.grad(out.pow(2).sum(), (q, k, v), create_graph=True)
        return torch.autograd.grad(sum(x.pow(2).sum() for x in first), (q, k, v))

    assert_near(call(FUSED), call(MATH), 2e-5)


PADDED = torch.tensor([[False] * 5, [False] * 3 + [True] * 2, [False] * 4 + [True]])
CAUSAL = torch.ones(5, 5, dtype=torch.bool).triu(1)


@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize(
    "mask", [None, CAUSAL, torch.randn(5, 5)], ids=["free", "causal", "float"]
)
@pytest.mark.parametrize("padding", [None, PADDED], ids=["dense", "padded"])
@pytest.mark.filterwarnings("ignore:Support for mismatched")
def test_multi_head_attention(train, need_weights, mask, padding, no_fallback):
    def call(device):
        torch.manual_seed(0)
        module = nn.MultiheadAttention(16, 4, batch_first=True).train(train).to(device)
        x = torch.randn(3, 5, 16).to(device)
        move = lambda t: None if t is None else t.to(device)  # noqa: E731
        with torch.set_grad_enabled(train):
            out, weights = module(
                *(x, x, x, move(padding)),
                need_weights=need_weights,
                attn_mask=move(mask),
            )
        results = [x.detach() for x in (out, weights) if x is not None]
        if train:
            out.square().sum().backward()
            results += [module.in_proj_weight.grad, module.out_proj.weight.grad]
        return results

    assert_near(call("neuron"), call("cpu"), 2e-5)


@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("mask", [None, CAUSAL], ids=["free", "causal"])
@pytest.mark.parametrize("padding", [None, PADDED], ids=["dense", "padded"])
def test_transformer_encoder_layer(
    train, norm_first, activation, mask, padding, no_fallback
):
    def call(device):
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(
            *(16, 4, 32, 0.0, activation), batch_first=True, norm_first=norm_first
        )
        layer = layer.train(train).to(device)
        x = torch.randn(3, 5, 16).to(device)
        move = lambda t: None if t is None else t.to(device)  # noqa: E731
        with torch.set_grad_enabled(train):
            out = layer(x, move(mask), move(padding))
        if not train:
            return [out]
        out.square().sum().backward()
        return [out.detach(), *(p.grad for p in layer.parameters())]

    assert_near(call("neuron"), call("cpu"), 5e-5)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_transformer_encoder_of_padded_sequences(no_fallback):
    def call(device):
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(16, 4, 32, 0.0, batch_first=True)
        encoder = nn.TransformerEncoder(layer, 2).eval().to(device)
        with torch.no_grad():
            out = encoder(
                torch.randn(3, 5, 16).to(device),
                src_key_padding_mask=PADDED.to(device),
            )
        return [out.cpu()[~PADDED]]

    assert_near(call("neuron"), call("cpu"), 5e-5)


MEMORY = """
import sys
import torch, torch.nn.functional as F
import torch_neuronx

def step(n):
    q, k, v = (torch.randn(1, 1, n, 32, device="neuron").requires_grad_()
               for _ in range(3))
    out = F.scaled_dot_product_attention(q, k, v, dropout_p=float(sys.argv[2]))
    out.backward(torch.ones_like(out))
    torch.neuron.synchronize()

def resident(field):
    for line in open("/proc/self/status"):
        if line.startswith(field):
            return int(line.split()[1]) * 1024

step(96)
open("/proc/self/clear_refs", "w").write("5")
before = resident("VmRSS")
torch.neuron.reset_peak_memory_stats()
step(int(sys.argv[1]))
print(torch.neuron.max_memory_allocated(), max(resident("VmHWM") - before, 0))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    "numerics,dropout,lengths",
    [
        ("fast", 0.0, (2048, 4096, 8192)),
        ("fast", 0.1, (2048, 4096, 8192)),
        ("decomposed", 0.0, (512, 1024, 2048)),
        ("decomposed", 0.1, (512, 1024, 2048)),
    ],
)
def test_memory_is_linear_in_the_length(numerics, dropout, lengths):
    environment = os.environ | {
        "TORCH_NEURONX_SIM_NUMERICS": numerics,
        "OMP_NUM_THREADS": "1",
    }
    device, process = [], []
    for n in lengths:
        result = subprocess.run(
            [sys.executable, "-c", MEMORY, str(n), str(dropout)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert result.returncode == 0, result.stderr
        peak, growth = map(int, result.stdout.split())
        device.append(peak)
        process.append(growth)
    for short, long in zip(device, device[1:], strict=False):
        assert long <= 2.3 * short, (device, process)
    # The process holds block buffers too, which do not grow with the length but
    # weigh at the short end.
    assert process[-1] <= 2.3 * process[-2] + (8 << 20), (device, process)
    if numerics == "fast":
        assert process[-1] < lengths[-1] ** 2 * 4 / 2, process
