# SPDX-License-Identifier: Apache-2.0
"""torch.func and torch.vmap over device tensors give what they give on the CPU."""

import pytest
import torch
from torch import nn
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)
from torch.utils._pytree import tree_leaves, tree_map

import torch_neuronx

DEVICE = "neuron"


def both(function, *args):
    """The results for ``args`` on the CPU and on the device."""
    expected = function(*args)
    moved = tree_map(lambda x: x.to(DEVICE) if isinstance(x, torch.Tensor) else x, args)
    actual = function(*moved)
    leaves = [x for x in tree_leaves(actual) if isinstance(x, torch.Tensor)]
    references = [x for x in tree_leaves(expected) if isinstance(x, torch.Tensor)]
    assert len(leaves) == len(references) > 0
    for a, e in zip(leaves, references, strict=True):
        assert a.device.type == DEVICE
        torch.testing.assert_close(a.cpu(), e, rtol=2e-5, atol=2e-5)


def f(x):
    return (x.sin() * x.exp()).sum()


def g(x):
    return torch.tanh(x @ x.t()) @ x


X = torch.linspace(-1, 1, 12).reshape(3, 4)
Y = torch.linspace(0.5, 2, 12).reshape(3, 4)

TRANSFORMS = {
    "grad": lambda x, y: grad(f)(x),
    "grad-of-grad": lambda x, y: grad(lambda z: grad(f)(z).square().sum())(x),
    "grad_and_value": lambda x, y: grad_and_value(f)(x),
    "vjp": lambda x, y: vjp(g, x)[1](y),
    "jvp": lambda x, y: jvp(g, (x,), (y,)),
    "linearize": lambda x, y: linearize(g, x)[1](y),
    "jacrev": lambda x, y: jacrev(g)(x),
    "jacfwd": lambda x, y: jacfwd(g)(x),
    "vmap": lambda x, y: vmap(lambda a, b: (a * b).sum())(x, y),
    "vmap-in_dims": lambda x, y: vmap(torch.dot, in_dims=(1, 1))(x, y),
    "vmap-out_dims": lambda x, y: vmap(torch.mul, out_dims=1)(x, y),
    "vmap-none": lambda x, y: vmap(torch.add, in_dims=(0, None))(x, y[0]),
    "vmap-chunks": lambda x, y: vmap(torch.sin, chunk_size=2)(x),
    "vmap-of-grad": lambda x, y: vmap(grad(f))(x),
    "vmap-of-vmap": lambda x, y: vmap(vmap(torch.atan2))(x, y),
    "vmap-of-jacrev": lambda x, y: vmap(jacrev(torch.sin))(x),
    "vmap-in-place": lambda x, y: vmap(lambda a, b: a.clone().mul_(b).add_(1))(x, y),
    "vmap-index": lambda x, y: vmap(lambda a: a[1:3])(x),
    "vmap-matmul": lambda x, y: vmap(lambda a: a @ y.t())(x),
    "vmap-softmax": lambda x, y: vmap(lambda a: a.softmax(-1))(x),
    "vmap-layer-norm": lambda x, y: vmap(lambda a: nn.functional.layer_norm(a, (4,)))(
        x
    ),
    "vmap-sort": lambda x, y: vmap(lambda a: a.sort(descending=True).values)(x),
    "vmap-topk": lambda x, y: vmap(lambda a: a.topk(2))(x),
    "vmap-where": lambda x, y: vmap(lambda a, b: torch.where(a > 0, a, b))(x, y),
    "vmap-cumsum": lambda x, y: vmap(lambda a: a.cumsum(0))(x),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transform_equals_cpu(name, no_fallback):
    both(TRANSFORMS[name], X, Y)


# Operators without a batching rule, which functorch runs once per example.
LOOPED = {
    "take": lambda x, y: vmap(
        lambda a: torch.take(a, torch.tensor([0, 2], device=a.device))
    )(x),
    "histc-like": lambda x, y: vmap(lambda a: torch.bucketize(a, y[0]))(x),
    "lcm": lambda x, y: vmap(torch.lcm)((x * 9).int(), (y * 9).int()),
    "nextafter": lambda x, y: vmap(torch.nextafter)(x, y),
    "renorm": lambda x, y: vmap(lambda a: torch.renorm(a[None], 2, 0, 0.5))(x),
    "in-place": lambda x, y: vmap(lambda a, b: a.clone().lerp_(b, 0.3))(x, y),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LOOPED)
def test_functorch_fallback_equals_cpu(name):
    both(LOOPED[name], X, Y)


def test_functional_call_and_per_sample_gradients(no_fallback):
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
    weights = {k: v.detach() for k, v in model.named_parameters()}
    targets = torch.tensor([0, 1, 1])

    def loss(weights, x, target):
        out = functional_call(model, weights, (x[None],))
        return nn.functional.cross_entropy(out, target[None])

    both(vmap(grad(loss), in_dims=(None, 0, 0)), weights, X, targets)


def test_ensemble_of_modules(no_fallback):
    models = [nn.Linear(4, 2) for _ in range(3)]
    weights, _ = stack_module_state(models)
    weights = {k: v.detach() for k, v in weights.items()}

    def call(weights, x):
        return functional_call(models[0], weights, (x,))

    both(vmap(call, in_dims=(0, None)), weights, X)


def test_forward_mode_equals_cpu(no_fallback):
    def tangent(x, y):
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x, y)
            return torch.autograd.forward_ad.unpack_dual(g(dual)).tangent

    both(tangent, X, Y)


@pytest.mark.parametrize("randomness", ["different", "same"])
def test_random_numbers_under_vmap(randomness, no_fallback):
    x = torch.zeros(6, 50, device=DEVICE)
    drawn = vmap(lambda a: torch.rand_like(a), randomness=randomness)(x).cpu()
    same = all(torch.equal(drawn[0], row) for row in drawn[1:])
    assert same == (randomness == "same")
    assert drawn.min() >= 0 and drawn.max() < 1


def test_random_numbers_under_vmap_need_a_choice():
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(torch.rand_like)(torch.zeros(2, 3, device=DEVICE))


def test_data_dependence_under_vmap_is_an_error():
    with pytest.raises(RuntimeError, match="vmap"):
        vmap(lambda a: a if a.sum() > 0 else -a)(X.to(DEVICE))


def test_functionalize_and_make_fx(no_fallback):
    from torch.fx.experimental.proxy_tensor import make_fx

    def inplace(x):
        y = x.clone()
        y[:, 0].add_(1)
        return y

    both(torch.func.functionalize(inplace), X)
    graph = make_fx(torch.func.functionalize(inplace))(X.to(DEVICE))
    torch.testing.assert_close(graph(X.to(DEVICE)).cpu(), inplace(X))
    assert torch_neuronx.get_fallback_ops() == {}
