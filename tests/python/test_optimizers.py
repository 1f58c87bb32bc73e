# SPDX-License-Identifier: Apache-2.0
"""PyTorch's optimizer database and its foreach database on the device, against the
CPU; how many programs a step launches."""

import copy

import pytest
import torch
from torch import nn
from torch.testing._internal import common_optimizers
from torch.testing._internal.common_methods_invocations import (
    foreach_binary_op_db,
    foreach_other_op_db,
    foreach_pointwise_op_db,
    foreach_reduce_op_db,
    foreach_unary_op_db,
)

import torch_neuronx

DEVICE = "neuron"
STEPS = 3

# How an optimizer goes through its parameters; the CPU's answer is the loop's.
IMPLEMENTATIONS = {
    "default": {},
    "for-loop": {"foreach": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
}


def optimizer_cases():
    for info in common_optimizers.optim_db:
        for implementation in IMPLEMENTATIONS:
            needed = "foreach" if implementation == "for-loop" else implementation
            if implementation != "default" and needed not in info.supported_impls:
                continue
            yield pytest.param(
                info, implementation, id=f"{info.optim_cls.__name__}-{implementation}"
            )


def parameters(info, device):
    matrices_only = info.optim_cls is torch.optim.Muon
    shapes = [(4, 3), (3, 5)] if matrices_only else [(4, 3), (5,), ()]
    generator = torch.Generator().manual_seed(0)
    return [
        nn.Parameter(torch.randn(shape, generator=generator).to(device))
        for shape in shapes
    ]


def run_steps(info, kwargs, device):
    params = parameters(info, device)
    optimizer = info.optim_cls(params, **copy.deepcopy(kwargs))
    generator = torch.Generator().manual_seed(1)

    def closure():
        optimizer.zero_grad()
        loss = sum((p * p).sum() for p in params)
        loss.backward()
        return loss

    for _ in range(STEPS):
        for p in params:
            p.grad = torch.randn(p.shape, generator=generator).to(device)
        optimizer.step(closure if info.step_requires_closure else None)
    return [p.detach().cpu() for p in params]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("info,implementation", list(optimizer_cases()))
def test_optimizer_equals_cpu(info, implementation, no_fallback):
    if info.only_supports_sparse_grads:
        pytest.skip("sparse gradients live on the CPU")
    loop = IMPLEMENTATIONS["for-loop"] if "foreach" in info.supported_impls else {}
    inputs = info.optim_inputs_func(device=DEVICE)
    assert inputs
    for case in inputs:
        expected = run_steps(info, case.kwargs | loop, "cpu")
        ours = case.kwargs | IMPLEMENTATIONS[implementation]
        actual = run_steps(info, ours, DEVICE)
        for a, e in zip(actual, expected, strict=True):
            torch.testing.assert_close(
                a,
                e,
                rtol=2e-4,
                atol=2e-5,
                msg=lambda text, what=case.desc: f"{what}: {text}",
            )


@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD", "Adagrad"])
@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("tensor_lr", [False, True])
def test_fused_operator_equals_cpu(name, maximize, tensor_lr, no_fallback):
    """The operators themselves, with scale and flag, for a step and a skipped one."""
    op = getattr(torch, f"_fused_{name.lower()}_")

    def call(device, found):
        generator = torch.Generator().manual_seed(2)

        def tensors():
            return [
                torch.rand(*shape, generator=generator).to(device)
                for shape in ((3, 4), (5,))
            ]

        steps = [torch.tensor(3.0, device=device) for _ in range(2)]
        lr = torch.tensor(0.1, device=device) if tensor_lr else 0.1
        common = dict(
            lr=lr,
            weight_decay=0.1,
            maximize=maximize,
            grad_scale=torch.tensor(4.0, device=device),
            found_inf=torch.tensor(found, device=device),
        )
        lists = [tensors() for _ in range(5)]
        if name in ("Adam", "AdamW"):
            op(*lists, steps, beta1=0.9, beta2=0.999, eps=1e-8, amsgrad=True, **common)
        elif name == "SGD":
            op(
                *lists[:3],
                momentum=0.9,
                dampening=0.1,
                nesterov=False,
                is_first_step=False,
                **common,
            )
        else:
            op(*lists[:3], steps, lr_decay=0.1, eps=1e-8, **common)
        return [x.cpu() for values in lists for x in values]

    for found in (0.0, 1.0):
        for a, e in zip(call(DEVICE, found), call("cpu", found), strict=True):
            torch.testing.assert_close(a, e, rtol=1e-5, atol=1e-6)


def launches_of_a_step(count, **options):
    params = [nn.Parameter(torch.randn(3, device=DEVICE)) for _ in range(count)]
    for p in params:
        p.grad = torch.randn(3, device=DEVICE)
    optimizer = torch.optim.Adam(params, lr=1e-3, **options)
    optimizer.step()
    optimizer.step()
    torch.neuron.synchronize()
    torch_neuronx.reset_metrics()
    optimizer.step()
    torch.neuron.synchronize()
    return torch_neuronx.metrics()["launches"]


def test_step_over_many_tensors_launches_few_programs(no_fallback):
    """A list is cut into chunks of 64 tensors, one program each: 100 tensors are
    two. Fused Adam is two operators (counting up, the update), foreach Adam
    at most twelve; a loop launches some ten for every tensor."""
    chunks = 2
    assert launches_of_a_step(100, fused=True) <= 2 * chunks
    assert launches_of_a_step(100, foreach=True) <= 12 * chunks
    assert launches_of_a_step(100, foreach=False) >= 500


def test_learning_rates_do_not_compile_anew(no_fallback):
    p = nn.Parameter(torch.randn(3, device=DEVICE))
    optimizer = torch.optim.AdamW([p], lr=1.0, fused=True)

    def step(i):
        optimizer.param_groups[0]["lr"] = 1 / (i + 1)
        p.grad = torch.ones_like(p)
        optimizer.step()

    for i in range(8):
        step(i)
    compiled = torch_neuronx.metrics()["programs_compiled"]
    for i in range(8, 30):
        step(i)
    assert torch_neuronx.metrics()["programs_compiled"] == compiled


FOREACH = [
    *foreach_unary_op_db,
    *foreach_binary_op_db,
    *foreach_pointwise_op_db,
    *foreach_reduce_op_db,
    *foreach_other_op_db,
]


def foreach_cases():
    for info in FOREACH:
        for variant in ("method_variant", "inplace_variant"):
            if getattr(info, variant) is not None:
                kind = variant.split("_")[0]
                yield pytest.param(info, variant, id=f"{info.name}-{kind}")


def on_host(dtype):
    return dtype == torch.float64 or dtype.is_complex


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("info,variant", list(foreach_cases()))
def test_foreach_operator_equals_cpu(info, variant):
    """Where all is of the device's dtypes nothing may run on the host."""
    op = getattr(info, variant)
    in_place = variant == "inplace_variant"
    tested = 0
    for sample in info.sample_inputs(
        "cpu", torch.float32, noncontiguous=False, allow_higher_dtype_scalars=True
    ):
        if len(sample.input) > 40:
            continue  # the same again, at a length that only costs time
        kwargs = {
            k: v
            for k, v in sample.kwargs.items()
            if k in ("alpha", "value", "ord", "dtype", "non_blocking")
        }

        def call(device, args=(sample.input, *sample.args), kwargs=kwargs):
            # Scalars as a tensor stay on the host, as the operators ask.
            arguments = [
                [
                    x.detach().clone().to(device) if isinstance(x, torch.Tensor) else x
                    for x in a
                ]
                if isinstance(a, (list, tuple))
                else a
                for a in args
            ]
            result = op(*arguments, **kwargs)
            return [x.cpu() for x in (arguments[0] if in_place else result)]

        try:
            expected = call("cpu")
        except (RuntimeError, NotImplementedError) as error:
            with pytest.raises(type(error)):
                call(DEVICE)
            continue
        torch_neuronx.clear_op_tracking()
        actual = call(DEVICE)
        if not any(on_host(x.dtype) for x in expected):
            assert torch_neuronx.get_fallback_ops() == {}, (sample.args, kwargs)
        for a, e in zip(actual, expected, strict=True):
            torch.testing.assert_close(a, e, rtol=2e-5, atol=2e-5, equal_nan=True)
        tested += 1
    assert tested > 0


@pytest.mark.parametrize("name", ["_foreach_add", "_foreach_sin", "_foreach_pow"])
def test_foreach_is_one_program_per_chunk(name, no_fallback):
    x = [torch.rand(3, device=DEVICE) for _ in range(130)]
    args = () if name == "_foreach_sin" else (2.0,)
    op = getattr(torch, name)
    op(x, *args)
    torch.neuron.synchronize()
    torch_neuronx.reset_metrics()
    result = op(x, *args)
    torch.neuron.synchronize()
    assert torch_neuronx.metrics()["launches"] == 3
    assert len(result) == 130
    for a, e in zip(result, op([t.cpu() for t in x], *args), strict=True):
        torch.testing.assert_close(a.cpu(), e)


def test_foreach_copy_from_the_host():
    source = [torch.rand(3), torch.rand(2, 2)]
    target = [torch.zeros(3, device=DEVICE), torch.zeros(2, 2, device=DEVICE)]
    torch._foreach_copy_(target, source)
    for t, s in zip(target, source, strict=True):
        assert torch.equal(t.cpu(), s)
