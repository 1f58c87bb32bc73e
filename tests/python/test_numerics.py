# SPDX-License-Identifier: Apache-2.0
"""Numbers at the edges: NaN, infinity, signed zero, overflow, rounding, nothing and
too much. Every row is compared with the CPU."""

import os
import re

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_map

DECOMPOSED = os.environ.get("TORCH_NEURONX_SIM_NUMERICS") == "decomposed"
INF, NAN = float("inf"), float("nan")

EDGES = torch.tensor(
    [0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 3e38, 0.5, -0.5, 1.5, 2.5, -2.5, 30, -30]
)
FLOATS = [torch.float32, torch.bfloat16, torch.float16]
FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
# Ties, subnormals, and both sides of every format's largest number.
CASTABLE = torch.tensor(
    [0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 1e-40, 6e-8, 3.4e38, 0.5, 1.5, 2.5, -2.5]
    + [65504, 65519, 65520, 1e5, -1e5, 127.5, 448, 464, 465, -480, 57344, 61440]
    + [3.14159, 1.00390625, 1.01171875, 2.0**-9, 2.0**-10, 3 * 2.0**-10]
)


def compute(function, *tensors: Tensor):
    """The result on the device, or the exception."""
    try:
        result = function(*(x.to("neuron") for x in tensors))
        result = result.cpu()
        torch.neuron.synchronize()
        return result
    except Exception as error:
        return error


def check(function, *tensors: Tensor, zero_sign: bool = True, rtol: float = 1e-5):
    try:
        expected = function(*tensors)
    except Exception as error:
        actual = compute(function, *tensors)
        assert isinstance(actual, type(error)), (actual, error)
        return
    actual = compute(function, *tensors)
    assert isinstance(actual, Tensor), actual
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    if expected.dtype.is_floating_point:
        rtol = max(rtol, 2 * torch.finfo(expected.dtype).eps)
        actual, expected = actual.double(), expected.double()
    torch.testing.assert_close(actual, expected, rtol=rtol, atol=1e-6, equal_nan=True)
    if zero_sign and expected.dtype.is_floating_point:
        zeros = expected == 0
        assert torch.equal(actual[zeros].signbit(), expected[zeros].signbit())


# Which zero the maximum of both is, IEEE 754 leaves open.
SIGNLESS = {"relu", "maximum", "minimum", "fmax", "fmin"}

UNARY = (
    "abs neg sign floor ceil round trunc exp exp2 expm1 log log2 log10 log1p sqrt "
    "rsqrt reciprocal sin cos tanh sigmoid erf erfc relu square isnan isinf isfinite "
    "isposinf isneginf signbit sinh cosh asinh atan nan_to_num sgn logical_not"
).split()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_unary_functions_at_the_edges(name, dtype):
    check(getattr(torch, name), EDGES.to(dtype), zero_sign=name not in SIGNLESS)


BINARY = (
    "add sub mul div floor_divide remainder fmod pow maximum minimum fmax fmin atan2 "
    "copysign heaviside logaddexp xlogy eq ne lt ge logical_xor nextafter"
).split()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_binary_functions_on_all_pairs_of_edges(name, dtype):
    x = EDGES.to(dtype)
    n = len(x)
    signless = SIGNLESS | {"logaddexp"}
    check(
        getattr(torch, name),
        x.repeat_interleave(n),
        x.repeat(n),
        zero_sign=name not in signless,
    )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    "function",
    [
        torch.amax,
        torch.amin,
        torch.argmax,
        torch.argmin,
        torch.sum,
        torch.mean,
        torch.prod,
        torch.max,
        torch.min,
        lambda x: x.max(0).indices,
        lambda x: x.min(0).values,
        lambda x: x.clamp(-1, 1),
        lambda x: x.clamp_min(0.5),
        lambda x: torch.where(x > 0, x, 1),
        lambda x: x.softmax(0),
        lambda x: x.sort().values,
        lambda x: x.topk(3).values,
        lambda x: x.cumsum(0),
    ],
)
@pytest.mark.parametrize("where", [0, 5, 15])
def test_nan_is_propagated(function, dtype, where):
    x = torch.arange(16.0).sub(8).to(dtype)
    x[where] = NAN
    check(function, x)


@pytest.mark.parametrize("source", [*FLOATS, *FLOAT8], ids=str)
@pytest.mark.parametrize("target", [*FLOATS, *FLOAT8], ids=str)
def test_casts_round_as_the_cpu(source, target):
    x = CASTABLE.to(source)
    actual, expected = x.to("neuron").to(target).cpu(), x.to(target)
    assert actual.dtype == target
    a, e = actual.float(), expected.float()
    assert torch.equal(a.isnan(), e.isnan())
    number = ~e.isnan()
    assert torch.equal(a[number], e[number])
    assert torch.equal(a[number].signbit(), e[number].signbit())


@pytest.mark.parametrize("source", INTEGERS, ids=str)
@pytest.mark.parametrize("target", [*INTEGERS, *FLOATS, torch.bool], ids=str)
def test_casts_of_integers_wrap_and_round(source, target):
    x = torch.tensor(
        [0, 1, -1, 127, -128, 255, 256, 2**15, 2**31 - 1, -(2**31), 2**53 + 1]
        + [2**63 - 1, -(2**63), 2049, 2**24 + 1]
    ).to(source)
    assert torch.equal(x.to("neuron").to(target).cpu(), x.to(target))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x + y,
        lambda x, y: x - y,
        lambda x, y: x * y,
        lambda x, y: -x,
        lambda x, y: x.abs(),
        lambda x, y: x << 1,
        lambda x, y: x >> 1,
        lambda x, y: x**3,
        lambda x, y: x.cumsum(0),
        lambda x, y: x.sum(),
        lambda x, y: x.prod(),
    ],
)
def test_integers_wrap(function, dtype):
    info = torch.iinfo(dtype)
    x = torch.tensor([info.max, info.max - 1, info.min, 3], dtype=dtype)
    check(function, x, x.flip(0))


def test_int64_is_exact_beyond_2_to_53():
    x = torch.tensor([2**53 + 1, 2**62 + 3, -(2**61) - 7, 5])
    for function in (
        lambda x: x + 1,
        lambda x: x * 3,
        lambda x: x // 7,
        lambda x: x % 1000003,
        lambda x: x.sum(),
        lambda x: x.cumsum(0),
        lambda x: x.sort().values,
        lambda x: x.max(),
        lambda x: x == 2**53,
        lambda x: x.clamp(max=2**53 + 1),
        lambda x: torch.where(x > 2**53, x, 2**53 - 1),
        lambda x: x.index_add(0, torch.tensor([0, 0], device=x.device), x[:2]),
        lambda x: x & (2**60 + 1),
    ):
        assert torch.equal(compute(function, x), function(x))
    assert x.to("neuron")[0].item() == 2**53 + 1


@pytest.mark.skipif(DECOMPOSED, reason="hardware has no division error: limitations")
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_integer_division_by_zero_is_the_cpus_error(dtype, mode):
    x = torch.tensor([4, 2], dtype=dtype)
    check(lambda x: torch.div(x, torch.zeros_like(x), rounding_mode=mode), x)
    check(lambda x: x % torch.zeros_like(x), x)
    assert (x.to("neuron") + 1).cpu().equal(x + 1)


SHAPES = [(0,), (0, 3), (2, 0), (2, 0, 3)]
REDUCTIONS = (
    "sum mean prod any all amax amin argmax argmin max min std var logsumexp "
    "cumsum cumprod count_nonzero nansum softmax log_softmax sort median"
).split()
NEEDS_DIM = {"logsumexp", "cumsum", "cumprod", "softmax", "log_softmax"}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_nothing(name, shape):
    """The same results, or the same errors."""
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.uint8):
        x = torch.zeros(shape, dtype=dtype)
        for dims in [()] * (name not in NEEDS_DIM) + [(0,), (1,), (-1,)]:

            def function(x, dims=dims):
                result = getattr(x, name)(*dims)
                return result if isinstance(result, Tensor) else result[0]

            check(function, x)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_long_sums_accumulate_in_float32(dtype):
    """2**16 ones would stop at 256 (bfloat16) or 2048 (float16)."""
    ones = torch.ones(1 << 15, dtype=dtype, device="neuron")
    assert ones.sum().item() == 1 << 15
    assert ones.mean().item() == 1
    assert ones.view(2, -1).sum(1).tolist() == [1 << 14] * 2
    assert (ones[None] @ ones[:, None]).item() == 1 << 15
    assert ones.norm().item() == torch.ones(1 << 15, dtype=dtype).norm().item()
    assert ones.cumsum(0)[-1].item() == 1 << 15


@pytest.mark.parametrize("columns", [64, 1000, 1024, 5000])
def test_variances_of_rows_are_close_to_float64(columns):
    """Means far from zero, a first number far from the others, blocks that differ."""
    x = torch.randn(256, columns)
    x[:64] += 1e4
    x[64:128, 0] = 3e3
    x[128:192, columns // 2 :] += 1e3
    wanted = x.double().var(1, correction=0)
    actual = x.to("neuron").var(1, correction=0).cpu().double()
    torch.testing.assert_close(actual, wanted, rtol=3e-6, atol=0)
    weight, bias = torch.rand(columns), torch.randn(columns)
    normal = torch.nn.functional.layer_norm
    exact = normal(x.double(), (columns,), weight.double(), bias.double())
    device = (t.to("neuron") for t in (weight, bias))
    result = normal(x.to("neuron"), (columns,), *device).cpu().double()
    # x - mean cannot be better than the rounding of x: 1e4 * 2**-24.
    torch.testing.assert_close(result, exact, rtol=1e-5, atol=4e-3)


def test_variances_of_rows_of_one_number_repeated():
    x = torch.tensor([3.3, -1e30, 0.0, 1e-30]).unsqueeze(1).expand(4, 3000)
    x = x.contiguous().to("neuron")
    assert x.var(1, correction=0).cpu().tolist() == [0.0] * 4
    special = torch.ones(3, 3000)
    special[0, 7], special[1, 2000], special[2, 5] = float("nan"), float("inf"), -1e20
    actual = special.to("neuron").var(1, correction=0).cpu()
    assert actual[:2].isnan().all() and actual[2] == float("inf")


def test_large_reductions_are_close_to_float64():
    torch.manual_seed(1)
    x = torch.rand(1 << 20)
    y = x.to("neuron")
    exact = x.double()
    torch.testing.assert_close(y.sum().cpu().double(), exact.sum(), rtol=1e-5, atol=0)
    torch.testing.assert_close(y.var().cpu().double(), exact.var(), rtol=1e-4, atol=0)
    assert y.amax().item() == x.amax().item()
    assert y.argmax().item() == x.argmax().item()


CONTRACTIONS = {
    "few rows": lambda x, y: x[:4] @ y.t(),
    "many rows": lambda x, y: x @ y.t(),
    "both plain": lambda x, y: x @ y.t().contiguous(),
    "vector": lambda x, y: x @ y[0],
    "bias": lambda x, y: torch.addmm(y[:, 0], x, y.t(), beta=0.5, alpha=2),
    "batches": lambda x, y: x.view(4, -1, 96) @ y.view(4, -1, 96).mT,
    "batches and bias": lambda x, y: torch.baddbmm(
        x.view(4, -1, 96)[:, :, :1], x.view(4, -1, 96), y.view(4, -1, 96).mT
    ),
    "convolution": lambda x, y: F.conv2d(
        x.view(2, 3, -1, 32), y.view(-1, 3, 4, 4)[:8], stride=2
    ),
    "transposed": lambda x, y: F.conv_transpose1d(
        x.view(2, 8, -1), y.view(-1)[:192].view(8, 4, 6)
    ),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", CONTRACTIONS)
def test_contractions_accumulate_in_float32_and_round_once(name, dtype):
    function = CONTRACTIONS[name]
    torch.manual_seed(0)
    x, y = torch.randn(2, 64, 96).to(dtype)

    def run(device, dtype):
        leaves = [t.to(device, dtype).requires_grad_() for t in (x, y)]
        out = function(*leaves)
        return out, *torch.autograd.grad(out, leaves, torch.ones_like(out))

    half_ulp = torch.finfo(dtype).eps / 2
    for actual, exact in zip(
        run("neuron", dtype), run("cpu", torch.float64), strict=True
    ):
        torch.testing.assert_close(
            actual.cpu().double(), exact, rtol=half_ulp * 1.01, atol=2e-3
        )


WHOLE = torch.arange(4)
SQUARE = torch.eye(2, dtype=torch.bool)


@pytest.mark.parametrize(
    "function,arguments",
    [
        (torch.frac, (WHOLE,)),
        (torch._foreach_frac, ([WHOLE],)),
        (torch._foreach_frac_, ([WHOLE],)),
        (torch._foreach_abs, ([SQUARE],)),
        (torch._foreach_lerp, ([WHOLE], [WHOLE], 0.5)),
        (torch._foreach_norm, ([WHOLE], 1)),
        (torch._foreach_sub, ([WHOLE], True)),
        (torch.rsub, (WHOLE, WHOLE > 1)),
        (torch.softmax, (WHOLE, 0)),
        (torch.nn.functional.huber_loss, (WHOLE, WHOLE)),
        (torch.nn.functional.hardswish, (WHOLE,)),
        (torch.mm, (SQUARE, SQUARE)),
        (torch.median, (SQUARE,)),
        (torch.trace, (SQUARE,)),
        (torch.searchsorted, (WHOLE > 1, WHOLE > 1)),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_dtypes_without_a_kernel_are_errors_of_the_call(
    function, arguments, no_fallback
):
    with pytest.raises(RuntimeError) as expected:
        function(*arguments)
    moved = tree_map(
        lambda x: x.to("neuron") if isinstance(x, Tensor) else x, arguments
    )
    with pytest.raises(expected.type, match=re.escape(str(expected.value)[:40])):
        function(*moved)
    torch.neuron.synchronize()


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize(
    "name", "binary_cross_entropy huber_loss mse_loss smooth_l1_loss l1_loss".split()
)
def test_losses_resize_nothing(name, reduction, capfd):
    x, y = torch.rand(3, 4), torch.rand(3, 4)
    loss = getattr(torch.nn.functional, name)
    actual = loss(x.to("neuron"), y.to("neuron"), reduction=reduction)
    torch.testing.assert_close(actual.cpu(), loss(x, y, reduction=reduction))
    assert "resized" not in capfd.readouterr().err
