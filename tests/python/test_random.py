# SPDX-License-Identifier: Apache-2.0
"""Random numbers: distributions against SciPy's, states and generators, the same
numbers in every form, XLA's numbers for the hardware's programs, CPU's errors."""

import os
import subprocess
import sys

import pytest
import torch
from scipy import stats

import torch_neuronx
import xla

DEVICE = "neuron"
FLOATS = [torch.float32, torch.bfloat16, torch.float16]
N = 20_000
# Seeds are fixed: a test either always passes or always fails.
SIGNIFICANCE = 1e-4


def empty(*shape, dtype=torch.float32):
    return torch.empty(*shape, dtype=dtype, device=DEVICE)


def full(value, n=N, dtype=torch.float32):
    return torch.full((n,), float(value), dtype=dtype, device=DEVICE)


CONTINUOUS = {
    "uniform_": (lambda: empty(N).uniform_(-2, 3), stats.uniform(-2, 5)),
    "normal_": (lambda: empty(N).normal_(1, 2), stats.norm(1, 2)),
    "normal_-odd": (lambda: empty(9999).normal_(), stats.norm()),
    "exponential_": (lambda: empty(N).exponential_(0.5), stats.expon(scale=2)),
    "cauchy_": (lambda: empty(N).cauchy_(1, 2), stats.cauchy(1, 2)),
    "log_normal_": (
        lambda: empty(N).log_normal_(0.5, 0.7),
        stats.lognorm(0.7, scale=2.718281828**0.5),
    ),
    "rand": (lambda: torch.rand(N, device=DEVICE), stats.uniform()),
    "randn": (lambda: torch.randn(N, device=DEVICE), stats.norm()),
    "rand_like": (lambda: torch.rand_like(empty(N)), stats.uniform()),
    "randn_like": (lambda: torch.randn_like(empty(N)), stats.norm()),
    "normal.Tensor_Tensor": (lambda: torch.normal(full(3), full(2)), stats.norm(3, 2)),
    "normal.Tensor_float": (lambda: torch.normal(full(3), 2.0), stats.norm(3, 2)),
    "normal.float_Tensor": (lambda: torch.normal(3.0, full(2)), stats.norm(3, 2)),
    "normal.float_float": (
        lambda: torch.normal(3.0, 2.0, (N,), device=DEVICE),
        stats.norm(3, 2),
    ),
    "gamma-5": (lambda: torch._standard_gamma(full(5)), stats.gamma(5)),
    "gamma-0.3": (lambda: torch._standard_gamma(full(0.3)), stats.gamma(0.3)),
    "dirichlet": (
        lambda: torch._sample_dirichlet(full(1.5, 3 * N).view(N, 3))[:, 0],
        stats.beta(1.5, 3),
    ),
}

DISCRETE = {
    "bernoulli": (lambda: torch.bernoulli(full(0.3)), stats.bernoulli(0.3)),
    "bernoulli.p": (lambda: torch.bernoulli(full(0), 0.3), stats.bernoulli(0.3)),
    "bernoulli_.float": (lambda: empty(N).bernoulli_(0.3), stats.bernoulli(0.3)),
    "bernoulli_.Tensor": (lambda: empty(N).bernoulli_(full(0.3)), stats.bernoulli(0.3)),
    "geometric_": (lambda: empty(N).geometric_(0.3), stats.geom(0.3)),
    "random_.to": (lambda: empty(N).random_(7), stats.randint(0, 7)),
    "random_.from": (lambda: empty(N).random_(-3, 4), stats.randint(-3, 4)),
    "randint": (lambda: torch.randint(2, 9, (N,), device=DEVICE), stats.randint(2, 9)),
    "randint_like": (lambda: torch.randint_like(empty(N), 2, 9), stats.randint(2, 9)),
    "poisson-0.7": (lambda: torch.poisson(full(0.7)), stats.poisson(0.7)),
    "poisson-9.5": (lambda: torch.poisson(full(9.5)), stats.poisson(9.5)),
    "poisson-11": (lambda: torch.poisson(full(11)), stats.poisson(11)),
    "poisson-200": (lambda: torch.poisson(full(200)), stats.poisson(200)),
    "binomial-few": (lambda: torch.binomial(full(12), full(0.3)), stats.binom(12, 0.3)),
    "binomial-many": (
        lambda: torch.binomial(full(300), full(0.2)),
        stats.binom(300, 0.2),
    ),
    "binomial-mirrored": (
        lambda: torch.binomial(full(60), full(0.8)),
        stats.binom(60, 0.8),
    ),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distribution(name, no_fallback):
    draw, law = CONTINUOUS[name]
    sample = draw().cpu()
    assert sample.isfinite().all()
    result = stats.kstest(sample.numpy(), law.cdf)
    assert result.pvalue > SIGNIFICANCE, (name, result)


def chi_square(sample, law):
    """The p-value of the sample; values with few expected are pooled."""
    observed, expected, counts = [], [], {}
    for value in sample.tolist():
        counts[value] = counts.get(value, 0) + 1
    total, mass = len(sample), 0.0
    seen = 0
    low, high = int(law.ppf(1e-9)), int(law.ppf(1 - 1e-9))
    o = e = 0.0
    for value in range(low, high + 1):
        o += counts.get(value, 0)
        e += total * law.pmf(value)
        if e >= 10:
            observed.append(o)
            expected.append(e)
            seen, mass = seen + o, mass + e
            o = e = 0.0
    observed[-1] += total - seen
    expected[-1] += total - mass
    return stats.chisquare(observed, expected).pvalue


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_distribution(name, no_fallback):
    draw, law = DISCRETE[name]
    sample = draw().cpu()
    assert torch.equal(sample, sample.round())
    p = chi_square(sample, law)
    assert p > SIGNIFICANCE, (name, p)


@pytest.mark.parametrize("rate", [1e4, 1e6])
def test_poisson_of_large_rates(rate, no_fallback):
    sample = torch.poisson(full(rate)).cpu().double()
    assert abs(sample.mean() - rate) < 5 * (rate / N) ** 0.5
    assert abs(sample.var() / rate - 1) < 0.05


@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform_excludes_its_end(dtype, no_fallback):
    x = empty(200_000, dtype=dtype).uniform_(1, 2).cpu().float()
    assert x.min() >= 1 and x.max() < 2
    assert abs(x.mean() - 1.5) < 0.01


def test_exponential_is_never_zero(no_fallback):
    assert (empty(2_000_000).exponential_() > 0).all().item()


@pytest.mark.parametrize(
    "dtype",
    [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool],
)
def test_random_covers_the_integers_of_its_dtype(dtype, no_fallback):
    x = empty(N, dtype=dtype).random_().cpu()
    largest = 1 if dtype == torch.bool else torch.iinfo(dtype).max
    scaled = x.double() / (largest + 1.0)
    assert x.double().min() >= 0
    assert abs(scaled.mean() - 0.5 * largest / (largest + 1.0)) < 0.015


@pytest.mark.parametrize("dtype", FLOATS)
def test_random_of_a_float_stays_exact(dtype, no_fallback):
    x = empty(N, dtype=dtype).random_().cpu().double()
    largest = {torch.float32: 2**24, torch.float16: 2**11, torch.bfloat16: 2**8}[dtype]
    assert x.min() >= 0 and x.max() <= largest
    assert abs(x.mean() / largest - 0.5) < 0.015


def test_random_covers_all_of_int64(no_fallback):
    x = empty(N, dtype=torch.int64).random_(-(2**63), None).cpu()
    assert stats.kstest(x.double() / 2.0**64 + 0.5, "uniform").pvalue > SIGNIFICANCE
    for bit in range(64):
        share = (x >> bit & 1).double().mean()
        assert abs(share - 0.5) < 0.02, bit


def test_random_from_without_end_reaches_the_top(no_fallback):
    x = empty(N, dtype=torch.int8).random_(100, None).cpu()
    assert x.min() == 100 and x.max() == 127


@pytest.mark.parametrize("n", [0, 1, 2, 7, 1000])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float32])
def test_randperm_is_a_permutation(n, dtype, no_fallback):
    x = torch.randperm(n, device=DEVICE, dtype=dtype)
    assert x.dtype == dtype
    assert torch.equal(x.cpu().sort().values, torch.arange(n, dtype=dtype))


def test_randperm_is_uniform(no_fallback):
    counts = torch.zeros(6, 6)
    for _ in range(600):
        counts[torch.arange(6), torch.randperm(6, device=DEVICE).cpu()] += 1
    assert stats.chisquare(counts.flatten()).pvalue > SIGNIFICANCE


def test_randperm_with_generator_and_out(no_fallback):
    g = torch.Generator(DEVICE).manual_seed(5)
    a = torch.randperm(50, generator=g, device=DEVICE)
    g.manual_seed(5)
    b = torch.randperm(50, generator=g, out=empty(0, dtype=torch.int64))
    assert torch.equal(a.cpu(), b.cpu())


WEIGHTS = [0.0, 1.0, 2.0, 3.0, 0.0, 4.0]


@pytest.mark.parametrize("dtype", FLOATS)
def test_multinomial_with_replacement(dtype, no_fallback):
    p = torch.tensor(WEIGHTS, dtype=dtype, device=DEVICE)
    drawn = p.multinomial(N, replacement=True).cpu()
    counts = drawn.bincount(minlength=6)
    assert counts[0] == 0 and counts[4] == 0
    expected = torch.tensor([1, 2, 3, 4]) * N / 10
    assert stats.chisquare(counts[[1, 2, 3, 5]], expected).pvalue > SIGNIFICANCE


@pytest.mark.parametrize("dtype", FLOATS)
def test_multinomial_one_sample_of_many_rows(dtype, no_fallback):
    p = torch.tensor([WEIGHTS], dtype=dtype, device=DEVICE).expand(N, 6)
    drawn = p.multinomial(1).cpu()
    assert drawn.shape == (N, 1)
    counts = drawn.flatten().bincount(minlength=6)
    expected = torch.tensor([1, 2, 3, 4]) * N / 10
    assert stats.chisquare(counts[[1, 2, 3, 5]], expected).pvalue > SIGNIFICANCE


def test_multinomial_without_replacement(no_fallback):
    p = torch.tensor([WEIGHTS], device=DEVICE).expand(N, 6)
    drawn = p.multinomial(2).cpu()
    assert (drawn[:, 0] != drawn[:, 1]).all()
    w = torch.tensor(WEIGHTS) / 10
    pairs = [(i, j) for i in (1, 2, 3, 5) for j in (1, 2, 3, 5) if i != j]
    observed = [int(((drawn[:, 0] == i) & (drawn[:, 1] == j)).sum()) for i, j in pairs]
    expected = [N * float(w[i] * w[j] / (1 - w[i])) for i, j in pairs]
    assert sum(observed) == N
    scale = N / sum(expected)
    assert (
        stats.chisquare(observed, [scale * e for e in expected]).pvalue > SIGNIFICANCE
    )


def test_multinomial_of_a_vocabulary(no_fallback):
    p = torch.zeros(1, 49_152, device=DEVICE)
    p[0, [7, 40_000]] = torch.tensor([1.0, 3.0], device=DEVICE)
    drawn = p.expand(100, -1).multinomial(1).cpu()
    assert set(drawn.unique().tolist()) == {7, 40_000}
    assert abs((drawn == 7).double().mean() - 0.25) < 0.2
    many = p.multinomial(4000, replacement=True).cpu()
    assert set(many.unique().tolist()) == {7, 40_000}
    assert abs((many == 7).double().mean() - 0.25) < 0.05


@pytest.mark.parametrize("p", [0.0, 0.25, 1.0])
def test_dropout_keeps_and_scales(p, no_fallback):
    x = torch.ones(N, device=DEVICE, requires_grad=True)
    y = torch.dropout(x, p, True)
    y.sum().backward()
    kept = y.detach().cpu()
    assert torch.equal(kept, x.grad.cpu())
    share = (kept != 0).double().mean()
    assert abs(share - (1 - p)) < 0.02
    if p < 1:
        assert torch.allclose(kept[kept != 0], torch.tensor(1 / (1 - p)))


def test_feature_and_alpha_dropout(no_fallback):
    x = torch.ones(400, 50, 3, device=DEVICE)
    y = torch.feature_dropout(x, 0.5, True).cpu()
    assert (y.amax(2) == y.amin(2)).all()
    assert abs((y == 0).double().mean() - 0.5) < 0.03
    z = torch.alpha_dropout(torch.randn(N, device=DEVICE), 0.3, True).cpu()
    assert abs(z.mean()) < 0.05 and abs(z.std() - 1) < 0.05
    w = torch.feature_alpha_dropout(x, 0.5, True).cpu()
    assert (w.amax(2) == w.amin(2)).all()


@pytest.mark.parametrize("inplace", [False, True])
def test_rrelu_draws_slopes_of_negatives(inplace, no_fallback):
    x = torch.linspace(-1, 1, N, device=DEVICE)
    start = x.cpu()
    y = torch.nn.functional.rrelu(x, 0.1, 0.4, training=True, inplace=inplace).cpu()
    positive = start > 0
    assert torch.equal(y[positive], start[positive])
    slope = (y / start)[~positive]
    assert stats.kstest(slope, stats.uniform(0.1, 0.3).cdf).pvalue > SIGNIFICANCE
    assert torch.allclose(
        torch.rrelu(x.neg(), 0.1, 0.3).cpu(), torch.rrelu(x.cpu().neg(), 0.1, 0.3)
    )


def test_rrelu_backward_uses_the_drawn_slopes(no_fallback):
    x = torch.linspace(-1, 1, 1001, device=DEVICE, requires_grad=True)
    y = torch.rrelu(x, 0.1, 0.4, training=True)
    y.sum().backward()
    negative = x.detach().cpu() < 0
    slope = y.detach().cpu() / x.detach().cpu()
    torch.testing.assert_close(x.grad.cpu()[negative], slope[negative])
    assert (x.grad.cpu()[x.detach().cpu() > 0] == 1).all()


# Every way to draw, for what must hold of all.
DRAWS = {
    **{name: draw for name, (draw, _) in (CONTINUOUS | DISCRETE).items()},
    "random_": lambda: empty(100).random_(),
    "randperm": lambda: torch.randperm(100, device=DEVICE),
    "multinomial": lambda: torch.ones(50, device=DEVICE).multinomial(9),
    "multinomial-replaced": lambda: torch.ones(50, device=DEVICE).multinomial(9, True),
    "dropout": lambda: torch.dropout(full(1), 0.5, True),
    "rrelu": lambda: torch.rrelu(full(-1), training=True),
    "float64": lambda: torch.rand(9, device=DEVICE, dtype=torch.float64),
    "complex64": lambda: torch.randn(9, device=DEVICE, dtype=torch.complex64),
}


@pytest.mark.filterwarnings("ignore:.*ran on the CPU")
@pytest.mark.parametrize("name", DRAWS)
def test_state_is_saved_and_restored(name):
    draw = DRAWS[name]
    torch.neuron.manual_seed(1)
    draw()
    state = torch.neuron.get_rng_state()
    first, second = draw().cpu(), draw().cpu()
    torch.neuron.set_rng_state(state)
    assert torch.equal(draw().cpu(), first)
    assert torch.equal(draw().cpu(), second)
    assert not torch.equal(first, second)


@pytest.mark.filterwarnings("ignore:.*ran on the CPU")
@pytest.mark.parametrize(
    "draw",
    [
        lambda g: empty(50).uniform_(generator=g),
        lambda g: torch.randn(50, device=DEVICE, generator=g),
        lambda g: torch.normal(full(1, 50), full(2, 50), generator=g),
        lambda g: torch.randperm(50, device=DEVICE, generator=g),
        lambda g: torch.ones(50, device=DEVICE).multinomial(9, generator=g),
        lambda g: torch.bernoulli(full(0.5, 50), generator=g),
        lambda g: torch.rand(50, device=DEVICE, dtype=torch.float64, generator=g),
    ],
)
def test_generator_of_the_user(draw):
    g = torch.Generator(DEVICE).manual_seed(7)
    before = torch.neuron.get_rng_state()
    first = draw(g).cpu()
    assert torch.equal(torch.neuron.get_rng_state(), before)
    assert torch.equal(draw(torch.Generator(DEVICE).manual_seed(7)).cpu(), first)
    assert not torch.equal(draw(g).cpu(), first)


def test_generator_of_another_device_is_refused():
    with pytest.raises(RuntimeError, match="Expected a 'neuron' device type"):
        empty(3).uniform_(generator=torch.Generator())


def test_strided_and_functional_forms_draw_the_same(no_fallback):
    torch.neuron.manual_seed(3)
    expected = empty(6, 4).normal_(1, 2).cpu()
    torch.neuron.manual_seed(3)
    transposed = empty(4, 6).t().normal_(1, 2)
    assert torch.equal(transposed.cpu(), expected)
    torch.neuron.manual_seed(3)
    frame = torch.zeros(6, 8, device=DEVICE)
    frame[:, ::2].normal_(1, 2)
    assert torch.equal(frame[:, ::2].cpu(), expected)
    assert (frame[:, 1::2] == 0).all().item()
    torch.neuron.manual_seed(3)
    functional = torch.ops.aten.normal_functional(empty(6, 4), 1, 2)
    assert torch.equal(functional.cpu(), expected)


def test_numbers_do_not_depend_on_how_many_are_drawn():
    torch.neuron.manual_seed(4)
    many = torch.rand(1000, device=DEVICE).cpu()
    torch.neuron.manual_seed(4)
    assert torch.equal(torch.rand(10, device=DEVICE).cpu(), many[:10])


def test_bounds_do_not_compile_anew(no_fallback):
    for high in range(5, 15):
        torch.randint(high, (3,), device=DEVICE)
    compiled = torch_neuronx.metrics()["programs_compiled"]
    for high in range(15, 40):
        x = torch.randint(high, (3,), device=DEVICE).cpu()
        assert (x >= 0).all() and (x < high).all()
    assert torch_neuronx.metrics()["programs_compiled"] == compiled


SCRIPT = """
import torch, sys
sys.path.insert(0, {here!r})
import test_random
results = {{}}
for name, draw in test_random.DRAWS.items():
    if name not in ("float64", "complex64"):
        torch.neuron.manual_seed(11)
        results[name] = draw().cpu()
torch.save(results, sys.argv[1])
"""


def test_both_numerics_modes_draw_the_same(tmp_path):
    """Natively and by the hardware's operations alone."""
    results = []
    for mode in ("fast", "decomposed"):
        environment = {**os.environ, "TORCH_NEURONX_SIM_NUMERICS": mode}
        script = SCRIPT.format(here=os.path.dirname(__file__))
        command = [sys.executable, "-W", "ignore", "-c", script, tmp_path / mode]
        subprocess.run(command, env=environment, check=True, timeout=600)
        results.append(torch.load(tmp_path / mode))
    fast, decomposed = results
    for name, expected in fast.items():
        assert torch.equal(decomposed[name], expected), name


XLA_DRAWS = [
    ("uniform_", lambda: (torch.ops.aten.uniform_.default, (empty(40), 1.0, 3.0)), 0),
    ("normal_", lambda: (torch.ops.aten.normal_.default, (empty(40), 1.0, 3.0)), 0),
    (
        "exponential_",
        lambda: (torch.ops.aten.exponential_.default, (empty(40), 2.0)),
        0,
    ),
    ("cauchy_", lambda: (torch.ops.aten.cauchy_.default, (empty(40),)), 0),
    ("log_normal_", lambda: (torch.ops.aten.log_normal_.default, (empty(40),)), 0),
    ("geometric_", lambda: (torch.ops.aten.geometric_.default, (empty(40), 0.2)), 0),
    (
        "random_.from",
        lambda: (
            getattr(torch.ops.aten.random_, "from"),
            (empty(40, dtype=torch.int64), -5, 1000),
        ),
        0,
    ),
    (
        "random_-all",
        lambda: (
            getattr(torch.ops.aten.random_, "from"),
            (empty(40, dtype=torch.int64), -(2**63), None),
        ),
        0,
    ),
    ("bernoulli.p", lambda: (torch.ops.aten.bernoulli.p, (full(0, 40), 0.3)), 1),
    (
        "native_dropout",
        lambda: (torch.ops.aten.native_dropout.default, (full(2, 40), 0.3, True)),
        1,
    ),
    ("multinomial", lambda: (torch.ops.aten.multinomial.default, (full(2, 40), 9)), 1),
    (
        "multinomial-replaced",
        lambda: (torch.ops.aten.multinomial.default, (full(2, 40), 90, True)),
        1,
    ),
    ("poisson", lambda: (torch.ops.aten.poisson.default, (full(4, 40),)), 1),
    ("poisson-large", lambda: (torch.ops.aten.poisson.default, (full(40, 40),)), 1),
    (
        "binomial",
        lambda: (torch.ops.aten.binomial.default, (full(90, 40), full(0.3, 40))),
        2,
    ),
    ("gamma", lambda: (torch.ops.aten._standard_gamma.default, (full(0.7, 40),)), 1),
    (
        "dirichlet",
        lambda: (torch.ops.aten._sample_dirichlet.default, (full(2, 40).view(10, 4),)),
        1,
    ),
]


@pytest.mark.parametrize("name,make,tensors", XLA_DRAWS, ids=[d[0] for d in XLA_DRAWS])
def test_hardware_program_draws_the_same(name, make, tensors, no_fallback):
    op, args = make()
    program = torch_neuronx.program(op, *args)
    # What is only written may still be a parameter.
    inputs = [a.cpu() for a in args if isinstance(a, torch.Tensor)]
    inputs = inputs[: max(tensors, len(program.inputs) - 2)]
    inputs += [torch.tensor(13), torch.tensor(0)]
    assert len(program.inputs) == len(inputs)
    torch.neuron.manual_seed(13)
    expected = op(*args)
    expected = expected if isinstance(expected, tuple) else (expected,)
    actual = xla.run(program.stablehlo, inputs)
    for a, e in zip(actual, expected, strict=True):
        assert a.dtype == e.dtype
        torch.testing.assert_close(a, e.cpu(), rtol=3e-5, atol=3e-5)


BAD = {
    "uniform_": lambda d: torch.empty(3, device=d).uniform_(2, 1),
    "uniform_-nan": lambda d: torch.empty(3, device=d).uniform_(float("nan"), 1),
    "uniform_-wide": lambda d: torch.empty(3, device=d).uniform_(-3e38, 3e38),
    "uniform_-int": lambda d: torch.empty(3, device=d, dtype=torch.int64).uniform_(),
    "normal_": lambda d: torch.empty(3, device=d).normal_(0, -1),
    "normal_-int": lambda d: torch.empty(3, device=d, dtype=torch.int32).normal_(),
    "normal.Tensor_float": lambda d: torch.normal(torch.zeros(3, device=d), -1.0),
    "normal.float_Tensor": lambda d: torch.normal(0.0, -torch.ones(3, device=d)),
    "normal.Tensor_Tensor": lambda d: torch.normal(
        torch.zeros(3, device=d), -torch.ones(3, device=d)
    ),
    "exponential_": lambda d: torch.empty(3, device=d).exponential_(0),
    "geometric_": lambda d: torch.empty(3, device=d).geometric_(1),
    "cauchy_": lambda d: torch.empty(3, device=d).cauchy_(0, 0),
    "log_normal_": lambda d: torch.empty(3, device=d).log_normal_(0, 0),
    "random_": lambda d: torch.empty(3, device=d).random_(5, 5),
    "random_.to": lambda d: torch.empty(3, device=d).random_(0),
    "random_-int8": lambda d: torch.empty(3, device=d, dtype=torch.int8).random_(300),
    "bernoulli_": lambda d: torch.empty(3, device=d).bernoulli_(1.5),
    "bernoulli.p": lambda d: torch.bernoulli(torch.zeros(3, device=d), 1.5),
    "bernoulli-int": lambda d: torch.bernoulli(
        torch.zeros(3, device=d, dtype=torch.int64)
    ),
    "dropout": lambda d: torch.dropout(torch.zeros(3, device=d), 1.5, True),
    "randperm": lambda d: torch.randperm(-1, device=d),
    "randperm-uint8": lambda d: torch.randperm(300, device=d, dtype=torch.uint8),
    "randperm-half": lambda d: torch.randperm(3000, device=d, dtype=torch.float16),
    "randperm-bool": lambda d: torch.randperm(2, device=d, dtype=torch.bool),
    "multinomial-many": lambda d: torch.ones(3, device=d).multinomial(4),
    "multinomial-none": lambda d: torch.ones(3, device=d).multinomial(0),
    "multinomial-dims": lambda d: torch.ones(2, 2, 2, device=d).multinomial(1),
    "multinomial-int": lambda d: torch.ones(3, device=d, dtype=torch.int64).multinomial(
        1
    ),
    "multinomial-zero": lambda d: torch.zeros(3, device=d).multinomial(1),
    "multinomial-row": lambda d: (
        torch.eye(3, device=d)[[0, 1]]
        .sub_(torch.tensor([[0.0], [1.0]], device=d) * torch.eye(3, device=d)[1])
        .multinomial(1)
    ),
    "multinomial-negative": lambda d: torch.tensor([1.0, -1], device=d).multinomial(1),
    "multinomial-inf": lambda d: torch.tensor(
        [1.0, float("inf")], device=d
    ).multinomial(1),
    "multinomial-nan": lambda d: torch.tensor(
        [1.0, float("nan")], device=d
    ).multinomial(1),
    "multinomial-replaced-zero": lambda d: torch.zeros(3, device=d).multinomial(
        2, True
    ),
    "multinomial-replaced-negative": lambda d: torch.tensor(
        [1.0, -1], device=d
    ).multinomial(2, True),
    "multinomial-replaced-inf": lambda d: torch.tensor(
        [1.0, float("inf")], device=d
    ).multinomial(2, True),
    "multinomial-out": lambda d: torch.multinomial(
        torch.ones(3, device=d), 2, out=torch.empty(0, device=d)
    ),
    "rrelu": lambda d: torch.rrelu(torch.ones(3, device=d), 0.5, 0.1, True),
    "randint": lambda d: torch.randint(5, 5, (3,), device=d),
    "randn-int": lambda d: torch.randn(3, device=d, dtype=torch.int64),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_are_the_cpus(name):
    with pytest.raises(Exception) as expected:
        BAD[name]("cpu")
    with pytest.raises(Exception) as actual:
        BAD[name](DEVICE)
    assert type(actual.value) is type(expected.value)
    assert str(actual.value) == str(expected.value)


def test_errors_stay_when_numbers_are_inputs():
    """The program of many values checks each of them."""
    x = empty(3)
    for std in range(1, 9):
        x.normal_(0, std)
    with pytest.raises(RuntimeError, match="normal expects std >= 0.0"):
        x.normal_(0, -1)
