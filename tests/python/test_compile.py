# SPDX-License-Identifier: Apache-2.0
"""torch.compile on the device computes what eager computes on the CPU."""

import copy
import random
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.checkpoint import checkpoint

import torch_neuronx
from compiled import assert_close, check_training, compiled, to_neuron
from torch_neuronx import control_flow, graphs
from torch_neuronx.neuron_dynamo_backend import get_dynamo_metrics

pytestmark = pytest.mark.usefixtures("fresh_dynamo")
INF, NAN = float("inf"), float("nan")


def check(function, *args, tolerance=1e-5, **options):
    expected = function(*copy.deepcopy(args))
    actual = compiled(function, **options)(*to_neuron(args))
    assert_close(actual, expected, tolerance)


class Attention(torch.nn.Module):
    """With a cache that is written in place."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(8)
        self.qkv = torch.nn.Linear(8, 24)
        self.register_buffer("cache", torch.zeros(2, 2, 16, 4))

    def forward(self, x, position):
        qkv = self.qkv(self.norm(x)).view(2, 6, 3, 2, 4)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        self.cache[:, :, :6] = k.detach()
        self.cache.index_copy_(2, position, k[:, :, :1].detach())
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return F.silu(out.transpose(1, 2).reshape(2, 6, 8))


def test_forward_backward_and_written_buffers():
    inputs = {"x": torch.randn(2, 6, 8), "position": torch.tensor([3])}
    check_training(Attention(), inputs)


def test_convolution_with_batch_norm():
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 16, 4),
    )
    check_training(module, {"input": torch.randn(2, 3, 8, 8)}, tolerance=1e-4)


def test_written_arguments_alias_without_a_copy():
    def write(cache, value):
        cache[:, 2:5] = value
        cache.add_(1)
        return cache.sum()

    cache, value = torch.randn(4, 8), torch.randn(4, 3)
    on_device = cache.to("neuron")
    address = on_device.data_ptr()
    result = compiled(write)(on_device, value.to("neuron"))
    expected = write(cache, value)
    assert on_device.data_ptr() == address
    torch.testing.assert_close(on_device.cpu(), cache)
    torch.testing.assert_close(result.cpu(), expected)


def test_written_strided_argument():
    def write(x):
        x.mul_(2).add_(1)
        return x * 3

    base = torch.randn(6, 4)
    expected = base.clone()
    wanted = write(expected.t()[1:3])
    on_device = base.to("neuron")
    actual = compiled(write)(on_device.t()[1:3])
    torch.testing.assert_close(on_device.cpu(), expected)
    torch.testing.assert_close(actual.cpu(), wanted)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.t(),
        lambda x: x[::2, 1:],
        lambda x: x[:1].expand(4, 6),
        lambda x: x.reshape(-1)[3:19].view(4, 4),
    ],
)
def test_strided_arguments(view):
    check(lambda x: (view(x) * 2).sin().sum(0), torch.randn(4, 6))


def test_outputs_keep_layout_and_views_share_memory():
    def function(x):
        y = x * 2
        return y, y.t(), y[1], (x + 1).permute(1, 0).contiguous().t()

    x = torch.randn(3, 5)
    expected = function(x)
    actual = compiled(function)(x.to("neuron"))
    for a, b in zip(actual, expected, strict=True):
        assert a.stride() == b.stride()
        torch.testing.assert_close(a.cpu(), b)
    assert actual[1].untyped_storage().data_ptr() == (
        actual[0].untyped_storage().data_ptr()
    )


def test_no_outputs_none_and_empty():
    check(lambda x: (None, x[:0] + 1, x.new_zeros(0, 3), x + 1), torch.randn(3))


def test_graph_without_arguments():
    expected = torch.arange(5) * 2
    actual = compiled(lambda: torch.arange(5, device="neuron") * 2)()
    torch.testing.assert_close(actual.cpu(), expected)


@pytest.mark.parametrize("fullgraph", [True, False])
def test_graph_breaks(fullgraph):
    def function(x):
        y = x.sin()
        if not fullgraph:
            torch._dynamo.graph_break()
        return y.cos() + y

    x = torch.randn(5)
    actual = torch.compile(function, backend="neuron", fullgraph=fullgraph)(
        x.to("neuron")
    )
    torch.testing.assert_close(actual.cpu(), function(x))
    assert get_dynamo_metrics()["graphs"] == (1 if fullgraph else 2)


# Shapes


def test_shapes_alone_never_reach_the_recompile_limit():
    graphs = []
    function = torch.compile(
        lambda x: (x * x.shape[0]).cumsum(0), backend="neuron", fullgraph=True
    )
    for n in range(2, 40):
        x = torch.randn(n, 3)
        torch.testing.assert_close(
            function(x.to("neuron")).cpu(), (x * n).cumsum(0), rtol=1e-5, atol=1e-5
        )
        graphs.append(get_dynamo_metrics()["graphs"])
    assert graphs[-1] <= 2
    assert get_dynamo_metrics()["programs"] == 38


def test_dynamic_shapes_with_a_reshape_and_backward():
    def function(x, w):
        return F.gelu(x.reshape(-1, x.shape[-1]) @ w).sum()

    step = compiled(function, dynamic=True)
    w = torch.randn(4, 6)
    for n in (3, 5, 8):
        x = torch.randn(n, 2, 4)
        a, b = x.clone().requires_grad_(), x.to("neuron").requires_grad_()
        function(a, w).backward()
        step(b, w.to("neuron")).backward()
        torch.testing.assert_close(b.grad.cpu(), a.grad, rtol=1e-4, atol=1e-5)


def test_mark_dynamic():
    function = compiled(lambda x: x.flatten().softmax(0))
    for n in (4, 7, 9):
        x = torch.randn(n, 3)
        on_device = x.to("neuron")
        torch._dynamo.mark_dynamic(on_device, 0)
        torch.testing.assert_close(
            function(on_device).cpu(), x.flatten().softmax(0), rtol=1e-5, atol=1e-6
        )
    assert get_dynamo_metrics()["graphs"] == 1


# Random numbers


def test_dropout_draws_eager_s_numbers():
    module = torch.nn.Sequential(
        torch.nn.Linear(8, 8), torch.nn.Dropout(0.4), torch.nn.Dropout(0.2)
    ).to("neuron")
    x = torch.randn(16, 8, device="neuron")
    results = []
    for function in (module, compiled(module)):
        torch.manual_seed(7)
        out = function(x)
        out.sum().backward()
        results.append((out.detach(), module[0].weight.grad.clone(), torch.rand(4)))
        module.zero_grad()
    torch.testing.assert_close(results[0], results[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: torch.rand_like(x),
        lambda x: torch.normal(1.0, 3.0, x.shape, device=x.device),
        lambda x: torch.randn(3, 4, device=x.device),
        lambda x: torch.randint(0, 9, (5,), device=x.device),
        lambda x: torch.bernoulli(x.sigmoid()),
        lambda x: torch.randperm(17, device=x.device),
        lambda x: torch.empty_like(x).exponential_(2.0),
        lambda x: torch.multinomial(x.softmax(-1), 2),
        lambda x: F.dropout(x, 0.3),
    ],
)
def test_random_operators_draw_eager_s_numbers(draw):
    x = torch.randn(4, 6, device="neuron")
    torch.manual_seed(3)
    expected = draw(x), draw(x)
    torch.manual_seed(3)
    actual = compiled(lambda x: (draw(x), draw(x)))(x)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def test_checkpointed_dropout_recomputes_the_same_mask():
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(32, 32, bias=False)

        def forward(self, x):
            return F.dropout(self.linear(x).tanh(), 0.5)

    block = Block().to("neuron")
    x = torch.randn(8, 32, device="neuron", requires_grad=True)
    out = compiled(lambda x: checkpoint(block, x, use_reentrant=False))(x)
    out.sum().backward()
    # d out / d pre-activation is 2 (1 - tanh^2) where the mask kept it, else 0.
    slope = torch.where(out != 0, 2 * (1 - (out / 2) ** 2), 0).detach()
    expected = slope @ block.linear.weight
    torch.testing.assert_close(x.grad, expected.detach(), rtol=1e-4, atol=1e-5)


# Training


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"momentum": 0.9}),
        ("Adam", {"capturable": True}),
        ("AdamW", {"capturable": True, "amsgrad": True}),
        ("AdamW", {}),
        ("RMSprop", {}),
    ],
)
def test_compiled_optimizer_steps(name, options):
    start = [torch.randn(5, 3) for _ in range(3)]
    gradients = [torch.randn(5, 3) for _ in range(3)]

    def train(device, compile):
        parameters = [torch.nn.Parameter(p.clone().to(device)) for p in start]
        given = {
            k: v for k, v in options.items() if device != "cpu" or k != "capturable"
        }
        optimizer = getattr(torch.optim, name)(parameters, lr=0.1, **given)
        step = (
            torch.compile(optimizer.step, backend="neuron")
            if compile
            else (optimizer.step)
        )
        for i in range(4):
            for p, gradient in zip(parameters, gradients, strict=True):
                p.grad = (gradient * (i + 1)).to(device)
            step()
        return [p.detach().cpu() for p in parameters]

    torch.testing.assert_close(
        train("neuron", True), train("cpu", False), rtol=1e-4, atol=1e-4
    )
    assert get_dynamo_metrics()["programs"] > 0


def test_compiled_autograd():
    module = torch.nn.Sequential(
        torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)
    )
    reference = copy.deepcopy(module)
    x = torch.randn(3, 4)
    reference(x).sum().backward()
    module = module.to("neuron")

    def train(x):
        module(x).sum().backward()

    with torch._dynamo.config.patch(compiled_autograd=True):
        torch.compile(train, backend="neuron")(x.to("neuron"))
    for p, q in zip(module.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(p.grad.cpu(), q.grad, rtol=1e-5, atol=1e-5)


def test_export():
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU())
    x = torch.randn(3, 4)
    expected = module(x)
    module = module.to("neuron")
    exported = torch.export.export(module, (x.to("neuron"),)).module()
    torch.testing.assert_close(exported(x.to("neuron")).cpu(), expected)
    torch.testing.assert_close(compiled(exported)(x.to("neuron")).cpu(), expected)


class Bags(torch.nn.Module):
    def __init__(self, mode, include_last_offset):
        super().__init__()
        self.bags = torch.nn.EmbeddingBag(
            10, 4, mode=mode, include_last_offset=include_last_offset
        )

    def forward(self, indices, offsets):
        return self.bags(indices, offsets)


@pytest.mark.parametrize("include_last_offset", [False, True])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_training_embedding_bags(mode, include_last_offset):
    """PyTorch's meta kernels describe other saved tensors than the CPU's give."""
    offsets = torch.tensor([0, 2, 6] if include_last_offset else [0, 2, 2])
    indices = torch.tensor([0, 3, 9, 9, 2, 1])
    inputs = {"indices": indices, "offsets": offsets}
    check_training(Bags(mode, include_last_offset), inputs)


class MaskedScatter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.source = torch.nn.Parameter(torch.randn(4, 5))

    def forward(self, x, mask):
        return x.masked_scatter(mask, self.source)


def test_training_masked_scatter():
    """Its gradient has no size that depends on the mask."""
    inputs = {"x": torch.randn(3, 5), "mask": torch.rand(3, 5) > 0.5}
    check_training(MaskedScatter(), inputs)


def test_results_of_another_shape_than_captured_are_an_error():
    @torch.library.custom_op("neuronx_test::row_sums", mutates_args=())
    def row_sums(x: torch.Tensor) -> torch.Tensor:
        return x.sum(1, keepdim=True)

    row_sums.register_fake(lambda x: x.new_empty(x.shape[:1]))
    with pytest.raises(Exception, match=r"captured as float32\[3\]; .*float32\[3, 1\]"):
        compiled(lambda x: row_sums(x))(torch.ones(3, 4, device="neuron"))


# Higher-order operators


def test_cond():
    def function(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() + 1, (x,))

    for x in (torch.ones(3), -torch.ones(3)):
        check(function, x)


def test_while_loop():
    from torch._higher_order_ops import while_loop

    def function(x):
        zero = torch.zeros((), dtype=torch.int64, device=x.device)
        return while_loop(
            lambda i, x: (i < 50) & (x.sum() < 100),
            lambda i, x: (i + 1, x * 1.5),
            (zero, x),
        )

    for scale in (1.0, 0.0):
        check(function, torch.rand(4) * scale)


def test_scan_map_and_associative_scan():
    from torch._higher_order_ops import associative_scan, scan
    from torch._higher_order_ops import map as map_over

    x = torch.randn(5, 3)
    check(lambda x: scan(lambda c, x: (c + x, (c * x).sin()), x[0] * 0, x), x)
    check(lambda x: map_over(lambda a, b: a.sin() + b, x, x[0] * 2), x)
    check(
        lambda x: associative_scan(
            lambda a, b: a * b + a, x, dim=0, combine_mode="generic"
        ),
        x,
    )


def test_branches_draw_numbers():
    """Those of eager; what follows does not depend on the branch."""

    def function(x):
        y = torch.cond(
            x.sum() > 0,
            lambda x: x + torch.rand_like(x),
            lambda x: F.dropout(x, 0.5) * torch.rand(2, 8, device=x.device).sum(0),
            (x,),
        )
        return y, torch.rand(3, device=x.device)

    after = []
    for value in (1.0, -1.0):
        x = torch.full((8,), value, device="neuron")
        torch.manual_seed(4)
        y, following = compiled(function)(x)
        after.append((following, torch.rand(3, device="neuron")))
        torch.manual_seed(4)
        if value > 0:
            expected = x + torch.rand_like(x)
        else:
            expected = F.dropout(x, 0.5) * torch.rand(2, 8, device="neuron").sum(0)
        torch.testing.assert_close(y, expected)
    torch.testing.assert_close(*after, rtol=0, atol=0)


def test_loops_draw_numbers_at_each_step():
    from torch._higher_order_ops import scan, while_loop

    def scanned(x):
        return scan(
            lambda c, x: (c + torch.rand_like(c), x * torch.rand_like(x)), x[0] * 0, x
        ), torch.rand(3, device=x.device)

    x = torch.ones(4, 6, device="neuron")
    torch.manual_seed(4)
    (last, rows), following = compiled(scanned)(x)
    torch.manual_seed(4)
    draws = [torch.rand(6, device="neuron") for _ in range(8)]
    torch.testing.assert_close(last, sum(draws[::2]))
    torch.testing.assert_close(rows, torch.stack(draws[1::2]))
    torch.testing.assert_close(following, torch.rand(3, device="neuron"))

    def looped(x):
        zero = torch.zeros((), dtype=torch.int64, device=x.device)
        y = while_loop(
            lambda i, x: i < 5, lambda i, x: (i + 1, x + torch.rand_like(x)), (zero, x)
        )[1]
        return y, torch.rand_like(x)

    torch.manual_seed(4)
    y, following = compiled(looped)(x[0] * 0)
    again, _ = compiled(looped)(x[0] * 0)
    torch.manual_seed(4)
    draws = [torch.rand(6, device="neuron") for _ in range(6)]
    torch.testing.assert_close(y, sum(draws[:5]))
    assert not torch.equal(following, draws[5])
    assert not torch.equal(again, y)


def test_programs_hold_branches_and_loops():
    """Not both branches, not the loop unrolled."""
    texts = []
    build = graphs.Graph.preserve

    def keep(self, captured, program, *others):
        texts.append(program.stablehlo)
        build(self, captured, program, *others)

    def function(x):
        from torch._higher_order_ops import scan

        y, _ = scan(lambda c, x: (c + x, c * x), x[0] * 0, x)
        return torch.cond(y.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (y,))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graphs.Graph, "preserve", keep)
        compiled(function)(torch.randn(6, 2, device="neuron"))
    assert "stablehlo.while" in texts[0]
    assert "stablehlo.case" in texts[0]


def biased(q, k, v, bias):
    """Causal flex_attention, with a bias by distance."""
    length = q.shape[-2]
    return flex_attention(
        q,
        k,
        v,
        score_mod=lambda s, b, h, m, n: s + bias[h] * (m - n),
        block_mask=create_block_mask(
            lambda b, h, m, n: m >= n, None, None, length, length, device=q.device
        ),
    )


def biased_by_mask(q, k, v, bias):
    position = torch.arange(q.shape[-2])
    distance = position[:, None] - position
    mask = (bias[:, None, None] * distance).masked_fill(distance < 0, -torch.inf)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@pytest.mark.parametrize("rows", [64, 8, 1])
def test_flex_attention(monkeypatch, rows):
    """In one go, in blocks of queries, query by query."""
    monkeypatch.setattr(control_flow, "_SCORE_BYTES", 4 * 2 * 2 * 64 * rows)
    arguments = (*torch.randn(3, 2, 2, 64, 16), torch.randn(2))
    actual = compiled(biased)(*to_neuron(arguments))
    assert_close(actual, biased_by_mask(*arguments))


@pytest.mark.parametrize("rows", [32, 8, 1])
def test_flex_attention_backward(monkeypatch, rows):
    """With a captured tensor that requires a gradient."""
    monkeypatch.setattr(control_flow, "_SCORE_BYTES", 4 * 2 * 2 * 32 * rows)
    arguments = [
        x.requires_grad_() for x in (*torch.randn(3, 2, 2, 32, 8), torch.randn(2))
    ]
    moved = to_neuron(arguments)
    biased_by_mask(*arguments).square().sum().backward()
    compiled(lambda *args: biased(*args).square().sum())(*moved).backward()
    for x, y in zip(arguments, moved, strict=True):
        assert_close(y.grad, x.grad)


def test_flex_attention_of_a_query_with_more_scores_than_a_block_may_hold(monkeypatch):
    monkeypatch.setattr(control_flow, "_SCORE_BYTES", 1)
    arguments = (*torch.randn(3, 2, 2, 8, 4), torch.randn(2))
    actual = compiled(biased)(*to_neuron(arguments))
    assert_close(actual, biased_by_mask(*arguments))


# Policies


@pytest.mark.parametrize("options", [{}, {"mode": "reduce-overhead"}])
def test_inductor_is_redirected(options):
    x = torch.randn(4, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        actual = torch.compile(lambda x: x.sin() @ x, **options)(x.to("neuron"))
    torch.testing.assert_close(actual.cpu(), x.sin() @ x, rtol=1e-5, atol=1e-5)
    assert get_dynamo_metrics()["graphs"] == 1


def test_inductor_still_gets_the_cpu_s_graphs(monkeypatch):
    import torch._inductor.compile_fx as module

    calls = []
    monkeypatch.setattr(module, "compile_fx", lambda g, *a, **k: calls.append(1) or g)
    torch.compile(lambda x: x + 1)(torch.ones(2))
    assert calls == [1]
    assert get_dynamo_metrics()["graphs"] == 0


def test_mode_and_unknown_options_are_reported_once():
    x = torch.ones(2, device="neuron")
    with pytest.warns(UserWarning, match="max-autotune"):
        compiled(lambda x: x + 1, mode="max-autotune")(x)
    with pytest.warns(UserWarning, match="no_such_option"):
        compiled(lambda x: x + 2, options={"no_such_option": 1})(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(lambda x: x + 3, options={"no_such_option": 1})(x)


def test_graphs_without_neuron_tensors_stay_on_the_cpu():
    x = torch.randn(3)
    torch.testing.assert_close(compiled(lambda x: x.sin())(x), x.sin())
    assert get_dynamo_metrics()["cpu_graphs"] == 1


def test_cpu_tensors_among_the_arguments():
    def function(x, step, scale):
        step.add_(1)
        return x * scale + step, step * 2

    x, step, scale = torch.randn(3), torch.tensor(1.0), torch.tensor(0.5)
    expected_step = step.clone()
    expected = function(x, expected_step, scale)
    actual = compiled(function)(x.to("neuron"), step, scale)
    assert actual[0].device.type == "neuron"
    assert actual[1].device.type == "cpu"
    torch.testing.assert_close(step, expected_step)
    torch.testing.assert_close(actual, expected, check_device=False)


def test_what_has_no_program_is_an_error_that_names_the_line():
    with pytest.raises(Exception, match=r"_fft_r2c.*test_compile\.py"):
        compiled(lambda x: torch.fft.rfft(x).real)(torch.randn(4, device="neuron"))
    # The process goes on.
    check(lambda x: x + 1, torch.randn(3))


def test_sizes_that_depend_on_data_are_an_error():
    """Dynamo's own by default; ours where it captures them."""
    x = torch.tensor([1.0, 0.0, 2.0], device="neuron")
    with pytest.raises(Exception, match="nonzero"):
        compiled(lambda x: x.nonzero() + 1)(x)
    torch._dynamo.reset()
    with (
        torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True),
        pytest.raises(Exception, match=r"aten::nonzero.*depends on the data"),
    ):
        compiled(lambda x: x.nonzero() + 1)(x)
    # Without fullgraph the graph breaks there.
    torch._dynamo.reset()
    actual = torch.compile(lambda x: x.sin().nonzero() + 1, backend="neuron")(x)
    assert actual.tolist() == [[1], [3]]


def test_custom_operators_written_in_python():
    """Their bodies become part of the program."""

    @torch.library.custom_op("neuronx_test::scaled", mutates_args=())
    def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
        return torch.zeros_like(x).index_put(
            [torch.arange(x.shape[0], device=x.device)], x * by, accumulate=True
        )

    scaled.register_fake(lambda x, by: torch.empty_like(x))
    check(lambda x: scaled(x.sin(), 2.0) + 1, torch.randn(5, 3))


def test_an_operator_without_a_meta_function_leaves_the_stream_usable():
    """Dynamo calls the device's kernel with fake tensors, which have no memory."""
    with pytest.raises(Exception, match="geqrf"):
        compiled(torch.geqrf)(torch.randn(3, 3, device="neuron"))
    x = torch.ones(3, device="neuron")
    assert (x + 1).sum().item() == 6


@pytest.mark.parametrize("how", ["option", "variable"])
def test_fallback_execution(monkeypatch, how):
    options = {"fallback_execution": True} if how == "option" else {}
    if how == "variable":
        monkeypatch.setenv("TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION", "0")
    x = torch.randn(8)
    actual = compiled(lambda x: torch.fft.rfft(x).real, options=options)(x.to("neuron"))
    torch.testing.assert_close(actual.cpu(), torch.fft.rfft(x).real)
    assert get_dynamo_metrics()["fallbacks"] == 1
    torch_neuronx.clear_op_tracking()  # the transform ran on the host, as it told


def test_fallback_execution_of_a_graph_with_symbolic_sizes():
    x = torch.randn(8)
    function = compiled(
        lambda x: torch.fft.rfft(x).real,
        dynamic=True,
        options={"fallback_execution": True},
    )
    for n in (8, 6):
        actual = function(x[:n].to("neuron"))
        torch.testing.assert_close(actual.cpu(), torch.fft.rfft(x[:n]).real)
    torch_neuronx.clear_op_tracking()


def test_artefacts_are_kept_on_request(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_NEURONX_DEBUG_DIR", str(tmp_path))
    monkeypatch.setenv("TORCH_NEURONX_PRESERVE_COMPILATION_ARTIFACTS", "1")
    compiled(lambda x: x.sin() + x.exp() - x.exp(), options={"model_name": "a/model"})(
        torch.ones(2, device="neuron")
    )
    names = sorted(path.name for path in tmp_path.iterdir())
    assert [name.split(".", 1)[1] for name in names] == [
        "fx.py",
        "hardware",
        "program",
        "stablehlo.mlir",
    ]
    assert all(name.startswith("a_model_") for name in names)
    assert "stablehlo.sine" in (tmp_path / names[-1]).read_text()
    hardware = (tmp_path / names[1]).read_text()
    assert "// fold constants: 0 operations" in hardware
    assert "// legalize: 0 operations" in hardware
    program = (tmp_path / names[2]).read_text()
    assert "// captured" in program
    assert "// common subexpressions: 1 operations" in program


# Pointwise regions of the simulator


CHAINS = {
    "broadcast": lambda x, y: ((x + y[0]) * y[:, :1]).relu() - y.t().contiguous().t(),
    "views": lambda x, y: ((x * 2).view(-1) + y.reshape(-1)).view_as(x).exp(),
    "masks": lambda x, y: torch.where((x > 0) & ~(y > 1), x * 2, y).masked_fill(
        x < -1, 7
    ),
    "scalars": lambda x, y: (2 - x) / 3 + x.pow(2) - x.add(y, alpha=0.3) * x[0, 0],
    "activations": lambda x, y: F.silu(x) + F.gelu(y) * F.gelu(x, approximate="tanh"),
    "clamps": lambda x, y: x.clamp(-0.5, 0.5).maximum(y.clamp_min(0)).neg().abs(),
    "branching": lambda x, y: (x.sin() * x.cos(), x.sin() + y, (x * y).mean(1)),
    "dtypes": lambda x, y: (x.to(torch.float32) * 3).to(x.dtype) + y.long(),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(3, 5), (33, 1024), (130, 257)])
@pytest.mark.parametrize("chain", CHAINS)
def test_pointwise_regions_equal_the_cpu(chain, shape, dtype):
    x, y = torch.randn(2, *shape).to(dtype) * 2
    tolerance = {torch.float32: 2e-6, torch.bfloat16: 1e-2, torch.float16: 2e-3}[dtype]
    check(CHAINS[chain], x, y, tolerance=tolerance)


def test_pointwise_regions_propagate_nan_and_infinity():
    special = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1.0])
    x, y = torch.meshgrid(special, special, indexing="ij")

    def function(x, y):
        z = x * 1.0
        return (
            z.relu(),
            z.maximum(y),
            z.clamp(-1, 1),
            z / y,
            z.sign(),
            z.isnan(),
            z <= y,
            z.sigmoid(),
        )

    expected = function(x, y)
    actual = compiled(function)(*to_neuron((x, y)))
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a.cpu(), b, equal_nan=True, rtol=1e-6, atol=0)


def softmax(x, y):
    e = (x - x.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True) * y


def variance(x, y):
    centred = x - x.mean(-1, keepdim=True)
    scale = (centred.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
    return centred * scale * y[0] + y[1], scale


def in_place(x, y):
    z = x * 1.5
    x.sub_(x.mean(-1, keepdim=True)).mul_(y)
    return z - x.amax(-1, keepdim=True)


ROWS = {
    "RMS norm": lambda x, y: x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt() * y,
    "softmax": softmax,
    "variance": variance,
    "dimension dropped": lambda x, y: x * (x * y).mean(-1).exp().unsqueeze(-1) + y,
    "two reductions": lambda x, y: (
        (x * y).amax(1) - (x * y).amin(1, keepdim=True)[:, 0]
    ),
    "two dimensions": lambda x, y: (x * y).unflatten(0, (-1, 3)).mean((-1, -2)),
    "other rows": lambda x, y: (
        (x * y).amax(-1).relu() + (x + y.amax(-1)[:, None]).sum()
    ),
    "transposed": lambda x, y: (x * 2).amax(-1)[: x.shape[1]] + x.t()[:3].amax(0)[0],
    "in place": in_place,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(9, 33), (3, 5000), (66, 1024), (33, 1376)])
@pytest.mark.parametrize("name", ROWS)
def test_row_reductions_in_regions_equal_the_cpu(name, shape, dtype):
    torch.manual_seed(0)
    x, y = torch.randn(2, *shape).to(dtype)
    on_device = to_neuron((x.clone(), y))
    expected = ROWS[name](x, y)
    actual = compiled(ROWS[name])(*on_device)
    # A mean of bfloat16 that rounds the other way moves all of its row.
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 5e-2}[dtype]
    close = {"rtol": tolerance, "atol": tolerance, "check_device": False}
    torch.testing.assert_close(actual, expected, **close)
    torch.testing.assert_close(on_device[0], x, **close)


def test_row_reduction_over_the_operand_that_every_row_reads():
    """As in a power iteration: the result takes the vector's place."""

    def step(x, y):
        return y.copy_((x * y).sum(-1) / 16)

    x, y = torch.randn(256, 256), torch.randn(256)
    on_device = y.to("neuron")
    actual = compiled(step)(x.to("neuron"), on_device)
    expected = step(x, y)
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(on_device.cpu(), y, rtol=1e-5, atol=1e-5)


def test_sum_of_a_number_over_dimension_0():
    check(lambda x: (x * 2).sum(0) + x.mean(-1), torch.tensor(3.0))


def test_row_reductions_propagate_nan_and_infinity():
    x = torch.randn(8, 4000)
    x[0, 3999], x[1, 5], x[2, 700], x[3] = NAN, INF, -INF, -INF

    def function(x):
        y = x * 1.0
        return y.amax(-1), y.amin(-1), y.sum(-1), y.mean(-1)

    actual = compiled(function)(x.to("neuron"))
    for a, b in zip(actual, function(x), strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-4, equal_nan=True)


def test_tanh_in_a_region_is_within_its_bound():
    special = torch.tensor(
        [0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-40]
    )
    x = torch.cat(
        [special, torch.linspace(-20, 20, 100_001), torch.logspace(-8, 1, 999)]
    )
    actual = compiled(lambda x: (x * 1.0).tanh())(x.to("neuron")).cpu()
    torch.testing.assert_close(
        actual.double(), x.double().tanh(), rtol=4e-7, atol=0, equal_nan=True
    )
    assert actual.abs().nan_to_num().max() == 1
    assert torch.equal(actual.signbit(), x.signbit())


BINARY = (torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum)
UNARY = (torch.neg, torch.exp, torch.relu, torch.sigmoid, torch.square, torch.abs)


@pytest.mark.parametrize("seed", range(12))
def test_random_pointwise_graphs_equal_the_cpu(seed):
    """Values used once and often, at once and late, as either operand."""
    choose = random.Random(seed)
    steps = []
    for known in range(3, 33):
        pick = [max(choose.randrange(known), choose.randrange(known)) for _ in range(3)]
        steps.append((choose.choice(["unary", "binary", "where", "scale"]), pick))
    operators = [(choose.choice(UNARY), choose.choice(BINARY)) for _ in steps]
    results = choose.sample(range(3, 33), 4) + [32]

    def function(x, y, z):
        values = [x, y, z]
        for (kind, (a, b, c)), (unary, binary) in zip(steps, operators, strict=True):
            if kind == "unary":
                value = unary(values[a])
            elif kind == "binary":
                value = binary(values[a], values[b])
            elif kind == "where":
                value = torch.where(values[a] > 0, values[b], values[c])
            else:
                value = torch.sub(values[a], values[b], alpha=0.5) * 1.5
            values.append(value.clamp(-4, 4))
        return tuple(values[i] for i in results)

    arguments = tuple(torch.randn(3, 9, 300))
    expected = function(*arguments)
    actual = compiled(function)(*to_neuron(arguments))
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-5, atol=1e-5, equal_nan=True)


def test_pointwise_region_over_its_own_operand():
    def write(x, y):
        x.mul_(2).add_(y).tanh_()
        return x + y.t()

    x, y = torch.randn(2, 64, 64)
    on_device = x.to("neuron")
    actual = compiled(write)(on_device, y.to("neuron"))
    expected = write(x, y)
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(on_device.cpu(), x, rtol=1e-5, atol=1e-6)
