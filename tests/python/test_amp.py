# SPDX-License-Identifier: Apache-2.0
"""Autocast's lists and gradient scaling."""

import pytest
import torch
from torch import nn
from torch.testing._internal.autocast_test_lists import AutocastTestLists

import torch_neuronx

DEVICE = "neuron"
LISTS = AutocastTestLists(torch.device("cpu"))
DTYPES = [torch.float16, torch.bfloat16]


def to_device(tree):
    return torch.utils._pytree.tree_map(
        lambda x: x.to(DEVICE) if isinstance(x, torch.Tensor) else x, tree
    )


def cases(*names):
    """(module, operator, arguments, keyword arguments) of PyTorch's lists."""
    found = []
    for name in names:
        module = {"torch": torch, "nn": torch._C._nn, "methods": torch.Tensor}[
            name.split("_")[0]
        ]
        for case in getattr(LISTS, name):
            kwargs = case[2] if len(case) > 2 and isinstance(case[2], dict) else {}
            found.append(pytest.param(module, case[0], case[1], kwargs, id=case[0]))
    return found


def run(module, op, args, kwargs, dtype):
    function = getattr(module, op, None)
    if function is None:
        pytest.skip(f"this PyTorch has no {op}")
    with torch.autocast(DEVICE, dtype):
        return function(*to_device(args), **to_device(kwargs))


def dtypes(result):
    leaves = torch.utils._pytree.tree_leaves(result)
    return {
        x.dtype for x in leaves if isinstance(x, torch.Tensor) and x.is_floating_point()
    }


# Kernels of CUDA only; core's sample of einsum does not fit its equation.
NOT_OURS = ("cudnn", "_thnn_fused", "einsum")
LOWER = [c for c in cases("torch_fp16", "nn_fp16") if not c.id.startswith(NOT_OURS)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("module,op,args,kwargs", LOWER)
def test_lower_precision_list(module, op, args, kwargs, dtype):
    args = torch.utils._pytree.tree_map(
        lambda x: x.float() if isinstance(x, torch.Tensor) else x, args
    )
    assert dtypes(run(module, op, args, kwargs, dtype)) == {dtype}


@pytest.mark.parametrize("dtype", DTYPES)
def test_einsum_is_lower_precision(dtype):
    x, y = torch.randn(2, 3, 4, 5), torch.randn(2, 6, 4, 5)
    with torch.autocast(DEVICE, dtype):
        actual = torch.einsum("bkhd,bqhd->bqkh", x.to(DEVICE), y.to(DEVICE))
    assert actual.dtype == dtype
    expected = torch.einsum("bkhd,bqhd->bqkh", x, y)
    torch.testing.assert_close(actual.cpu().float(), expected, rtol=0, atol=0.1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "module,op,args,kwargs", cases("torch_fp32", "nn_fp32", "methods_fp32")
)
def test_float32_list(module, op, args, kwargs, dtype):
    args = torch.utils._pytree.tree_map(
        lambda x: (
            x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x
        ),
        args,
    )
    assert dtypes(run(module, op, args, kwargs, dtype)) == {torch.float32}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("module,op,args,kwargs", cases("torch_need_autocast_promote"))
def test_promote_list(module, op, args, kwargs, dtype):
    """float32 wins over the lower precision."""
    floats = 0

    def convert(x):
        nonlocal floats
        if not isinstance(x, torch.Tensor) or not x.is_floating_point():
            return x
        floats += 1
        return x.to(dtype) if floats == 1 else x.float()

    args = torch.utils._pytree.tree_map(convert, args)
    assert floats > 1
    assert dtypes(run(module, op, args, kwargs, dtype)) == {torch.float32}


def policies(device):
    """Operators whose autocast kernel for ``device`` is no fallthrough."""
    key = {"cuda": "AutocastCUDA", "neuron": "AutocastPrivateUse1"}[device]
    return {
        name
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("aten::")
        and torch._C._dispatch_has_kernel_for_dispatch_key(name, key)
    }


def test_lists_are_cudas():
    """Which operators have a policy: the ones that core gives CUDA, but cuDNN's."""
    cuda = {name for name in policies("cuda") if "cudnn" not in name}
    assert len(cuda) > 100
    assert policies("neuron") == cuda


def test_binary_cross_entropy_is_banned():
    x = torch.rand(3, device=DEVICE)
    with (
        torch.autocast(DEVICE),
        pytest.raises(RuntimeError, match="unsafe to autocast"),
    ):
        nn.functional.binary_cross_entropy(x, x)


def test_autocast_caches_casts_of_leaves():
    weight = torch.randn(4, 4, device=DEVICE, requires_grad=True)
    x = torch.randn(4, 4, device=DEVICE)

    def launches():
        torch.neuron.synchronize()
        torch_neuronx.reset_metrics()
        torch.mm(x, weight)
        torch.neuron.synchronize()
        return torch_neuronx.metrics()["launches"]

    with torch.autocast(DEVICE):
        assert launches() == 3  # two casts and the product
        assert launches() == 2  # the leaf's cast is kept, x's is not


# GradScaler


@pytest.fixture
def only_the_scale_on_host():
    """unscale_ inverts the scale, one number, in float64, which is the host's."""
    torch_neuronx.clear_op_tracking()
    yield
    assert set(torch_neuronx.get_fallback_ops()) <= {"aten::reciprocal"}


def train(device, scaler, steps=6, overflow_at=2, fused=None):
    torch.manual_seed(0)
    model = nn.Linear(8, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=fused)
    generator = torch.Generator().manual_seed(1)
    scales = []
    for step in range(steps):
        x = torch.randn(16, 8, generator=generator).to(device)
        optimizer.zero_grad()
        loss = model(x).square().mean()
        if step == overflow_at:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    return scales, [p.detach().cpu() for p in model.parameters()]


@pytest.mark.filterwarnings("ignore:.*reciprocal")
@pytest.mark.parametrize("fused", [None, True])
def test_scaled_training_equals_cpu(fused, only_the_scale_on_host):
    def scaler(device):
        return torch.amp.GradScaler(device, init_scale=2.0**10, growth_interval=2)

    scales, weights = train(DEVICE, scaler(DEVICE), fused=fused)
    expected_scales, expected = train("cpu", scaler("cpu"), fused=fused)
    assert scales == expected_scales
    assert scales[2] == scales[1] / 2
    for w, e in zip(weights, expected, strict=True):
        torch.testing.assert_close(w, e, rtol=1e-5, atol=1e-6)


def test_step_is_skipped_on_overflow(only_the_scale_on_host):
    p = nn.Parameter(torch.ones(3, device=DEVICE))
    optimizer = torch.optim.AdamW([p], lr=0.1)
    scaler = torch.amp.GradScaler(DEVICE, init_scale=4.0)
    scaler.scale((p * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(p.detach().cpu(), torch.ones(3))
    assert scaler.get_scale() == 2.0
    assert optimizer.state == {}


@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD"])
def test_fused_step_unscales_and_skips(name, no_fallback):
    """Without unscale_, a fused optimizer takes the scale and the flag itself."""
    results = {}
    for device in ("cpu", DEVICE):
        p = nn.Parameter(torch.linspace(-1, 1, 5).to(device))
        optimizer = getattr(torch.optim, name)([p], lr=0.1, fused=True)
        scaler = torch.amp.GradScaler(device, init_scale=8.0)
        for factor in (1.0, float("inf"), 2.0):
            optimizer.zero_grad()
            scaler.scale((p * p * factor).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
        results[device] = p.detach().cpu()
    torch.testing.assert_close(results[DEVICE], results["cpu"], rtol=1e-5, atol=1e-6)


def test_scaler_state_travels():
    scaler = torch.amp.GradScaler(DEVICE, init_scale=32.0, growth_interval=3)
    scaler.scale(torch.ones((), device=DEVICE))
    p = nn.Parameter(torch.ones(2, device=DEVICE))
    scaler.scale(p.sum()).backward()
    scaler.step(torch.optim.SGD([p], lr=0.1))
    scaler.update()
    other = torch.amp.GradScaler(DEVICE)
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict()
    assert other.state_dict()["_growth_tracker"] == 1


def test_unscale_twice_is_an_error():
    p = nn.Parameter(torch.ones(2, device=DEVICE))
    optimizer = torch.optim.SGD([p], lr=0.1)
    scaler = torch.neuron.amp.GradScaler()
    scaler.scale(p.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(optimizer)


@pytest.mark.parametrize("bad", [None, float("inf"), float("nan")])
def test_unscale_operator_equals_cpu(bad, no_fallback):
    def call(device):
        grads = [
            torch.arange(1.0, 5).to(device),
            torch.full((2, 2), 6.0, device=device),
        ]
        if bad is not None:
            grads[1][0, 1] = bad
        found = torch.zeros(1, device=device)
        inverse = torch.full((1,), 0.25, device=device)
        torch._amp_foreach_non_finite_check_and_unscale_(grads, found, inverse)
        return [x.cpu() for x in (*grads, found)]

    for a, e in zip(call(DEVICE), call("cpu"), strict=True):
        torch.testing.assert_close(a, e, equal_nan=True)


@pytest.mark.parametrize("found,tracker", [(0.0, 0), (0.0, 1), (1.0, 1)])
def test_update_scale_operator_equals_cpu(found, tracker, no_fallback):
    def call(device):
        scale = torch.full((), 16.0, device=device)
        growth = torch.full((), tracker, dtype=torch.int32, device=device)
        flag = torch.full((1,), found, device=device)
        torch._amp_update_scale_(scale, growth, flag, 2.0, 0.5, 2)
        return scale.item(), growth.item()

    assert call(DEVICE) == call("cpu")
