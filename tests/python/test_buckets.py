# SPDX-License-Identifier: Apache-2.0
"""``options={"buckets": ...}``: many sizes, few programs, the CPU's numbers."""

import copy

import pytest
import torch
import torch.nn.functional as F

import xla
from compiled import assert_close, compiled, llama, to_neuron
from torch_neuronx import bucketing, graphs
from torch_neuronx.neuron_dynamo_backend import get_dynamo_metrics

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

# Of these buckets of eight and sixteen have two.
LENGTHS = [5, 8, 3, 13, 16, 7]


def bucketed(function, buckets, **options):
    return compiled(function, options={"buckets": buckets, **options})


def parameter(*shape):
    return torch.randn(*shape).requires_grad_()


def layout(tensor):
    return zip(tensor.shape, tensor.stride(), strict=True)


def check(function, make, buckets, programs, lengths=LENGTHS):
    """Results, their layout and gradients at many lengths."""
    on_device = bucketed(function, buckets)
    for n in lengths:
        given = make(n)
        moved = to_neuron(given)
        expected, actual = function(*given), on_device(*moved)
        assert_close(actual, expected)
        assert [s for n, s in layout(actual) if n > 1] == [
            s for n, s in layout(expected) if n > 1
        ]
        if not expected.requires_grad:
            continue
        seed = torch.randn_like(expected)
        expected.backward(seed)
        actual.backward(seed.to("neuron"))
        for x, y in zip(given, moved, strict=True):
            if x.requires_grad:
                assert_close(y.grad, x.grad)
    assert get_dynamo_metrics()["programs"] == programs


x0 = {"x": {0: [8, 16]}}
x1 = {"x": {1: [8, 16]}}
x2 = {"x": {2: [8, 16]}}

# function, arguments for a length, buckets
FORWARD = {
    "pointwise": (lambda x: x.sin() * 2 + x, lambda n: [torch.randn(n, 3)], x0),
    "inner dimension": (lambda x: x.exp() + 1, lambda n: [torch.randn(2, n, 3)], x1),
    "last dimension": (lambda x: x.relu(), lambda n: [torch.randn(2, 3, n)], x2),
    "transposed result": (
        lambda x: x.transpose(1, 2) * 2,
        lambda n: [torch.randn(2, n, 4)],
        x1,
    ),
    "strided argument": (
        lambda x: x * 2,
        lambda n: [torch.randn(n, 2, 3).transpose(0, 1)],
        x1,
    ),
    "sum": (lambda x: (x + 1).sum(1), lambda n: [torch.randn(2, n, 3)], x1),
    "mean of all": (lambda x: (x + 1).mean(), lambda n: [torch.randn(2, n)], x1),
    "max": (lambda x: x.max(1).indices, lambda n: [torch.randn(3, n) - 9], x1),
    "amin of integers": (
        lambda x: x.amin(1),
        lambda n: [torch.randint(3, 9, (2, n))],
        x1,
    ),
    "argmax": (lambda x: x.argmax(-1), lambda n: [torch.randn(3, n) - 9], x1),
    "any": (lambda x: (x < 0).any(0), lambda n: [torch.rand(n, 3)], x0),
    "all": (lambda x: (x > 0.1).all(0), lambda n: [torch.rand(n, 3) + 1], x0),
    "cumsum": (lambda x: x.cumsum(1), lambda n: [torch.randn(2, n)], x1),
    "norm": (lambda x: (x + 1).norm(dim=1), lambda n: [torch.randn(2, n)], x1),
    "size as a number": (
        lambda x: x * x.shape[0] + 1 / x.shape[0],
        lambda n: [torch.randn(n, 3)],
        x0,
    ),
    "positions": (
        lambda x: x + torch.arange(x.shape[1], device=x.device),
        lambda n: [torch.randn(3, n)],
        x1,
    ),
    "triangle": (lambda x: (x @ x.mT).tril(), lambda n: [torch.randn(n, 3)], x0),
    "integer division": (
        lambda x: 7 // x % (x + 1),
        lambda n: [torch.randint(1, 9, (n,))],
        x0,
    ),
    "pad": (
        lambda x: F.pad(x, (1, 2), value=3.0),
        lambda n: [torch.randn(2, n)],
        x1,
    ),
}

TRAINING = {
    "softmax": (lambda x: x.softmax(1), lambda n: [parameter(2, n, 3)], x1),
    "log_softmax": (lambda x: x.log_softmax(1), lambda n: [parameter(2, n, 3)], x1),
    "std": (lambda x: x.std(1), lambda n: [parameter(2, n, 3)], x1),
    "linear over sequences": (
        lambda x, w, b: F.linear(x, w, b).relu(),
        lambda n: [parameter(2, n, 4), parameter(5, 4), parameter(5)],
        x1,
    ),
    "linear over a batch": (
        lambda x, w, b: F.linear(x, w, b).relu(),
        lambda n: [parameter(n, 3, 4), parameter(5, 4), parameter(5)],
        x0,
    ),
    "contraction": (
        lambda x: x.mT @ x,
        lambda n: [parameter(2, n, 3)],
        x1,
    ),
    "loss of means": (
        lambda x, w: (x @ w).square().mean(),
        lambda n: [parameter(2, n, 4), parameter(4, 5)],
        x1,
    ),
    "layer_norm": (
        lambda x, w, b: F.layer_norm(x, (4,), w, b),
        lambda n: [parameter(2, n, 4), parameter(4), parameter(4)],
        x1,
    ),
    "embedding": (
        lambda x, w: F.embedding(x, w).sum(1),
        lambda n: [torch.randint(0, 9, (2, n)), parameter(9, 4)],
        x1,
    ),
    "cross entropy": (
        lambda x, w: F.cross_entropy(
            (x.unsqueeze(-1) * w).view(-1, 5), x.long().view(-1)
        ),
        lambda n: [torch.randint(0, 5, (2, n)).float(), parameter(5)],
        x1,
    ),
    "attention": (
        lambda x, y: F.scaled_dot_product_attention(x, x + y, x * y),
        lambda n: [parameter(2, 2, n, 4), parameter(4)],
        x2,
    ),
    "causal attention": (
        lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
        lambda n: [parameter(2, 2, n, 4)],
        x2,
    ),
    "last element": (lambda x: x[:, -1] * 2, lambda n: [parameter(2, n, 3)], x1),
    "slices": (lambda x: x[:, 1:] * x[:, :-1], lambda n: [parameter(2, n, 3)], x1),
    "sum of all but the last": (
        lambda x: x[:, :-1].sum(1) + x[:, 1:].sum(1) + x[:, ::2].sum(1),
        lambda n: [parameter(2, n, 3)],
        x1,
    ),
    "a table cut to the size": (
        lambda x, t: (t[:, : x.shape[1]] * x.sum(-1)).sum(1),
        lambda n: [parameter(2, n, 3), parameter(2, 20)],
        x1,
    ),
    "a table shorter than the bucket": (
        lambda x, t: (t[:, : x.shape[1]] * x.sum(-1)).sum(1),
        lambda n: [parameter(2, min(n, 13), 3), parameter(2, 14)],
        x1,
    ),
    "gather": (
        lambda x, i: x.gather(1, i).sum(1),
        lambda n: [parameter(2, n, 3), torch.randint(0, n, (2, 4, 3))],
        x1,
    ),
    "concatenation": (
        lambda x, y: torch.cat([y.expand(2, 1, 3), x], 1),
        lambda n: [parameter(2, n, 3), parameter(3)],
        x1,
    ),
    "images": (
        lambda x, w: F.adaptive_avg_pool2d(
            F.max_pool2d(F.group_norm(F.conv2d(x, w), 2), 2), 1
        ),
        lambda n: [parameter(n, 3, 7, 7), parameter(4, 3, 2, 2)],
        x0,
    ),
    "convolution": (
        lambda x, w: F.conv1d(x, w, padding=1, stride=2),
        lambda n: [parameter(2, 3, n), parameter(4, 3, 3)],
        x2,
    ),
}


@pytest.mark.parametrize("name", FORWARD)
def test_forward(name):
    check(*FORWARD[name], programs=2)


@pytest.mark.parametrize("name", TRAINING)
def test_training(name):
    check(*TRAINING[name], programs=4)


def test_two_dimensions():
    check(
        lambda x, w: F.silu(x @ w).mean(1),
        lambda n: [parameter(n, 2 * n + 1, 4), parameter(4, 6)],
        {"x": {0: "pow2", 1: "pow2"}},
        programs=2 * 6,
        lengths=[3, 5, 7, 8, 9, 16, 4],
    )


def test_dimensions_of_every_input():
    """Buffers and parameters are not inputs."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(5, 7)
            self.register_buffer("scale", torch.randn(3, 5))

        def forward(self, x, y):
            return self.linear((x + y) * self.scale[0])

    model = Model()
    on_device = bucketed(copy.deepcopy(model).to("neuron"), {1: "pow2"})
    for n in LENGTHS:
        x, y = torch.randn(2, 3, n, 5)
        assert_close(on_device(x.to("neuron"), y.to("neuron")), model(x, y))
    assert get_dynamo_metrics()["programs"] == 3  # 4, 8, 16; no backward ran


@pytest.mark.parametrize("how", ["dynamic", "mark_dynamic"])
def test_sizes_that_are_symbolic_already(how):
    function = compiled(
        lambda x: (x @ x.mT).softmax(-1),
        dynamic=True if how == "dynamic" else None,
        options={"buckets": {0: [8, 16]}},
    )
    for n in LENGTHS:
        x = torch.randn(n, 3)
        moved = x.to("neuron")
        if how == "mark_dynamic":
            torch._dynamo.mark_dynamic(moved, 0)
        assert_close(function(moved), (x @ x.mT).softmax(-1))
    assert get_dynamo_metrics()["programs"] == 2
    assert get_dynamo_metrics()["graphs"] == 1


def test_other_symbolic_sizes_have_programs_of_their_own():
    function = bucketed(lambda x: x.sum(0), {0: [8, 16]})
    for n, width in [(5, 3), (6, 4), (7, 4), (8, 5), (12, 5), (3, 4)]:
        x = torch.randn(n, width)
        assert_close(function(x.to("neuron")), x.sum(0))
    # Width 3 was a constant; then 4 and 5 at eight, 5 at sixteen.
    assert get_dynamo_metrics()["programs"] == 4


def test_written_arguments():
    """Padded ones are cut like results, others written in place."""

    def function(x, total):
        x.mul_(2)
        total.add_(x.sum(0))
        return x + 1

    on_device = bucketed(function, {"x": {0: [8, 16]}})
    total = torch.zeros(3)
    moved_total = total.to("neuron")
    for n in LENGTHS:
        x = torch.randn(n, 3)
        moved = x.to("neuron")
        assert_close(on_device(moved, moved_total), function(x, total))
        assert_close(moved, x)
    assert_close(moved_total, total)
    assert get_dynamo_metrics()["programs"] == 2


def test_rows_written_into_a_longer_buffer():
    def function(x, cache):
        cache[:, 1 : x.shape[1] + 1] = x
        return cache.sum(1)

    on_device = bucketed(function, {"x": {1: "pow2"}})
    cache = torch.zeros(2, 10, 3)
    moved_cache = cache.to("neuron")
    for n in (3, 9, 5, 8, 2):  # 16 rows do not fit into the buffer
        x = torch.randn(2, n, 3)
        assert_close(on_device(x.to("neuron"), moved_cache), function(x, cache))
        assert_close(moved_cache, cache)


def test_numbers_of_the_caller_behind_a_padded_dimension():
    """They and the size are both scalars of the program."""

    def function(x, scale, step):
        return x[:, -1] * scale + step

    on_device = bucketed(function, {"x": {1: [8, 16]}})
    for n in LENGTHS:
        x, scale = torch.randn(2, n, 3), torch.tensor(n + 0.5)
        assert_close(on_device(x.to("neuron"), scale, n / 4), function(x, scale, n / 4))


def test_arguments_on_the_cpu_are_padded_too():
    """As Transformers passes token ids."""

    def function(x, ids):
        return x[ids.to(x.device)]

    on_device = bucketed(function, {"ids": {0: [8, 16]}})
    x = torch.randn(9, 3)
    for n in LENGTHS:
        ids = torch.randint(0, 9, (n,))
        assert_close(on_device(x.to("neuron"), ids), x[ids])
    assert get_dynamo_metrics()["programs"] == 2


def uniform(*shape):
    return lambda n: [torch.rand([n if size == "n" else size for size in shape])]


# As FORWARD. The operators' numbers are eager's on the device.
DRAWS = {
    "dropout of a batch": (lambda x: F.dropout(x, 0.25), uniform("n", 3), x0),
    "dropout of sequences": (lambda x: F.dropout(x, 0.3), uniform(3, "n", 5), x1),
    "dropout of the last dimension": (
        lambda x: F.dropout(x, 0.3),
        uniform(2, 3, "n"),
        x2,
    ),
    "dropout of bfloat16": (
        lambda x: F.dropout(x.bfloat16(), 0.3),
        uniform(2, "n", 3),
        x1,
    ),
    "dropout of scores": (
        lambda x: F.dropout(x[:, :, None] * x[:, None], 0.5),
        uniform(2, "n"),
        x1,
    ),
    "dropout of a transposed tensor": (
        lambda x: F.dropout(x.transpose(1, 2) * 2, 0.5),
        uniform(2, "n", 3),
        x1,
    ),
    "dropout of flattened tokens": (
        lambda x: F.dropout(x.reshape(-1, 3), 0.5),
        uniform(2, "n", 3),
        x1,
    ),
    "dropout in evaluation": (
        lambda x: torch.native_dropout(x, 0.5, False)[0] + torch.rand_like(x),
        uniform(2, "n", 3),
        x1,
    ),
    "dropout of channels": (lambda x: F.dropout1d(x, 0.5), uniform(2, "n", 3), x1),
    # Blocks that the size counts, and others.
    "several draws": (
        lambda x: (
            F.dropout(F.dropout(x, 0.25) + torch.rand(7, device=x.device)[2], 0.5)
            + torch.rand(3, device=x.device)
        ),
        uniform(3, "n", 3),
        x1,
    ),
    "rand": (
        lambda x: torch.rand(2, x.shape[1] + 1, device=x.device) + x[:, :1],
        uniform(2, "n"),
        x1,
    ),
    "rand of a flattened size": (
        lambda x: torch.rand(2 * x.shape[1], device=x.device) + x[0, 0],
        uniform(2, "n"),
        x1,
    ),
    "rand_like": (lambda x: torch.rand_like(x), uniform(2, 3, "n"), x2),
    "randn_like": (lambda x: torch.randn_like(x), uniform(2, "n", 3), x1),
    "randint": (
        lambda x: torch.randint(3, 900, x.shape, device=x.device) + x,
        uniform(2, "n"),
        x1,
    ),
    "bernoulli": (lambda x: torch.bernoulli(x), uniform(2, "n", 3), x1),
    "bernoulli of broadcast rates": (
        lambda x: torch.empty_like(x).bernoulli_(x[:, :1]),
        uniform(2, 3, "n"),
        x2,
    ),
    "normal": (lambda x: torch.normal(x, x + 1), uniform(2, 3, "n"), x2),
    "normal_": (lambda x: x.clone().normal_(1, 2), uniform(2, "n", 3), x1),
    "uniform_": (lambda x: x.clone().uniform_(1, 2), uniform(2, "n", 3), x1),
    "exponential_": (lambda x: x.clone().exponential_(2), uniform(2, 3, "n"), x2),
    "geometric_": (lambda x: x.clone().geometric_(0.2), uniform(2, 3, "n"), x2),
    "cauchy_": (lambda x: x.clone().cauchy_(), uniform(2, 3, "n"), x2),
    "log_normal_": (lambda x: x.clone().log_normal_(), uniform(2, 3, "n"), x2),
    "poisson": (lambda x: torch.poisson(20 * x), uniform(2, 3, "n"), x2),
    "random": (
        lambda x: torch.ops.aten.random.to(x, 9),
        uniform(2, 3, "n"),
        x2,
    ),
    "gamma": (lambda x: torch._standard_gamma(x), uniform(2, 3, "n"), x2),
    "rrelu": (lambda x: F.rrelu(x - 0.5, training=True), uniform(2, 3, "n"), x2),
}


def draw_all(function, given):
    """Two calls for each, and what the generator draws next."""
    torch.neuron.manual_seed(7)
    results = [function(*x).cpu() for x in given for _ in range(2)]
    return [*results, torch.rand(9, device="neuron").cpu()]


@pytest.mark.parametrize("name", DRAWS)
def test_random_numbers_are_those_without_padding(name):
    function, make, buckets = DRAWS[name]
    given = [[x.to("neuron") for x in make(n)] for n in LENGTHS]
    actual = draw_all(bucketed(function, buckets), given)
    for a, e in zip(actual, draw_all(function, given), strict=True):
        assert torch.equal(a, e)
    assert get_dynamo_metrics()["programs"] == 2


def test_random_numbers_of_several_padded_dimensions():
    def function(x):
        return F.dropout(x, 0.5) + torch.randn_like(x)

    sizes = [(3, 7, 4), (4, 5, 3), (5, 3, 2)]
    given = [[torch.rand(a, 2, b, 3, c, device="neuron")] for a, b, c in sizes]
    on_device = bucketed(function, {"x": {0: "pow2", 2: "pow2", 4: "pow2"}})
    for a, e in zip(draw_all(on_device, given), draw_all(function, given), strict=True):
        assert torch.equal(a, e)


def test_training_draws_the_masks_without_padding():
    def function(x, w):
        scores = F.dropout((x @ w @ x.mT).softmax(-1), 0.5)
        return F.dropout(scores @ x, 0.25)

    def train(function):
        torch.neuron.manual_seed(7)
        results = []
        for x, w in given:
            x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
            out = function(x, w)
            out.square().sum().backward()
            results += [out, x.grad, w.grad]
        return results

    given = [torch.rand(2, n, 4, device="neuron") for n in LENGTHS]
    given = [(x, torch.rand(4, 4, device="neuron")) for x in given]
    actual = train(bucketed(function, x1))
    for a, e in zip(actual, train(function), strict=True):
        assert_close(a, e)
    assert get_dynamo_metrics()["programs"] == 4


def test_random_numbers_of_the_hardware_program():
    """Its legal form, run by XLA, draws eager's numbers too."""
    kept = []

    def keep(self, captured, program, *others):
        kept.append((self, program))

    def function(x):
        return F.dropout(F.dropout(x, 0.25) + torch.rand_like(x), 0.5)

    x = torch.rand(3, 5, 7)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graphs.Graph, "preserve", keep)
        bucketed(function, x1)(x.to("neuron"))
    ((graph, program),) = kept
    legal = program.legalized("trn2")
    assert legal.violations("trn2") == []
    padded = torch.zeros(3 * 8 * 7)
    padded[: x.numel()] = x.flatten()
    (plan,) = graph.plans.values()
    seed, offset = torch.tensor(7), torch.tensor(0)
    inputs = [padded, *map(torch.tensor, plan.numbers), seed, offset]
    (actual,) = xla.run(legal.stablehlo, inputs)
    torch.neuron.manual_seed(7)
    expected = function(x.to("neuron")).cpu()
    assert torch.equal(actual[: x.numel()].view(x.shape), expected)


def test_random_numbers_in_decomposed_numerics(in_decomposed_numerics):
    """Part of the table once more, the simulator running the hardware's program."""
    in_decomposed_numerics(
        __file__, "several or without_padding and (dropout or randint or normal_)"
    )


@pytest.mark.parametrize(
    ("name", "function"),
    {
        "aten::multinomial": lambda x: x.multinomial(1),
        "aten::_scaled_dot_product_fused_attention_overrideable": (
            lambda x: F.scaled_dot_product_attention(
                *3 * [x[None, None].expand(2, 2, -1, -1)], dropout_p=0.5
            )
        ),
    }.items(),
)
def test_draws_without_a_rule_are_refused_by_name(name, function):
    with pytest.raises(Exception, match=rf"\[{name}.*dimension 0 of x.*buckets"):
        bucketed(function, x0)(torch.rand(6, 4, device="neuron"))


@pytest.mark.parametrize(
    ("name", "function"),
    {
        "aten::flip": lambda x: x.flip(1),
        "aten::sort": lambda x: x.sort(1).values,
        "aten::cat": lambda x: torch.cat([x, x], 1),
        "aten::view": lambda x: x.view(2, -1, 2) if x.shape[1] % 2 == 0 else x,
        "aten::native_layer_norm": lambda x: F.layer_norm(x, x.shape[1:]),
        "aten::roll": lambda x: x.roll(1, 1),
    }.items(),
)
def test_unsafe_operators_are_refused_by_name(name, function):
    x = torch.randn(2, 6, device="neuron")
    with pytest.raises(Exception, match=rf"\[{name}.*dimension 1 of x.*buckets"):
        bucketed(function, {1: "pow2"})(x)
    # The same graph without buckets, and with the policy of a fallback.
    torch._dynamo.reset()
    assert_close(torch.compile(function, backend="neuron")(x), function(x.cpu()))
    torch._dynamo.reset()
    with pytest.warns(UserWarning, match="operator by operator"):
        again = bucketed(function, {1: "pow2"}, fallback_execution=True)(x)
    assert_close(again, function(x.cpu()))


def test_a_size_above_the_last_bucket_is_an_error():
    function = bucketed(lambda x: x + 1, {0: [4, 8]})
    function(torch.ones(3, device="neuron"))
    with pytest.raises(ValueError, match=r"dimension 0 of x is 9.*buckets 8"):
        function(torch.ones(9, device="neuron"))


def test_a_size_that_the_code_fixes_is_reported():
    def function(x):
        return x + 1 if x.shape[0] == 6 else x - 1

    with pytest.warns(UserWarning, match=r"dimension 0 of .*x.*constant"):
        out = bucketed(function, {0: "pow2"})(torch.ones(6, device="neuron"))
    assert_close(out, torch.full((6,), 2.0))


def test_sizes_of_zero_and_one_are_constants_without_a_word(recwarn):
    function = bucketed(lambda x: x.sum(0) + 1, {0: "pow2"})
    for n in (1, 0, 5, 1):
        x = torch.randn(n, 2)
        assert_close(function(x.to("neuron")), x.sum(0) + 1)
    assert not [w for w in recwarn if "buckets" in str(w.message)]


def test_environment_variable(monkeypatch):
    monkeypatch.setenv("TORCH_NEURONX_BUCKETS", "x.0=8,16; 1=pow2")
    assert bucketing.rules() == (
        bucketing.Rule("x", 0, (8, 16)),
        bucketing.Rule(None, 1, ()),
    )
    function = compiled(lambda x: x * 2)
    for n in LENGTHS:
        function(torch.ones(n, 3, device="neuron"))
    assert get_dynamo_metrics()["programs"] == 2
    # An option wins.
    assert bucketing.rules({}) == ()


@pytest.mark.parametrize(
    "option", [7, {0: "squares"}, {0: [0]}, {0: []}, {"x": [8]}, {"x": {"y": [8]}}]
)
def test_malformed_options_are_errors(option):
    with pytest.raises(Exception, match="expected.*sizes"):
        bucketed(lambda x: x + 1, option)(torch.ones(3, device="neuron"))


def test_a_malformed_variable_is_an_error(monkeypatch):
    monkeypatch.setenv("TORCH_NEURONX_BUCKETS", "1:8,16")
    with pytest.raises(ValueError, match="TORCH_NEURONX_BUCKETS='1:8,16'"):
        bucketing.rules()


def test_training_a_language_model():
    reference = llama(num_hidden_layers=1)
    model = copy.deepcopy(reference).to("neuron")
    forward = torch.compile(model, backend="neuron", options={"buckets": {1: [8, 16]}})
    for n in (5, 12, 8):
        ids = torch.randint(0, 64, (2, n))
        mask = torch.ones_like(ids)
        mask[0, n - 2 :] = 0
        results = []
        for m, f, device in (
            (reference, reference, "cpu"),
            (model, forward, "neuron"),
        ):
            m.zero_grad()
            given = {"input_ids": ids, "labels": ids, "attention_mask": mask}
            out = f(**{k: v.to(device) for k, v in given.items()}, use_cache=False)
            out.loss.backward()
            results.append([out.loss, out.logits, *(p.grad for p in m.parameters())])
        assert_close(results[1], results[0], 1e-3)
    assert get_dynamo_metrics()["programs"] == 4
