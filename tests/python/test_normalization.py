# SPDX-License-Identifier: Apache-2.0
"""Normalisations in half precision: statistics are float32 whatever the weights are,
as on other accelerators, where the CPU's follow the weights."""

import pytest
import torch
import torch.nn.functional as F

CHANNELS = 6


def batch_norm(x, weight, bias):
    mean = torch.zeros_like(x[0, :, 0] if weight is None else weight)
    return F.batch_norm(x, mean, mean + 1, weight, bias, training=True)


NORMS = {
    "layer": lambda x, w, b: F.layer_norm(x.mT, (CHANNELS,), w, b).mT,
    "batch": batch_norm,
    "group": lambda x, w, b: F.group_norm(x, 2, w, b),
    "instance": lambda x, w, b: F.instance_norm(x, None, None, w, b),
}


def run(norm, operands, seed, device):
    x, *weights = (y if y is None else y.to(device).requires_grad_() for y in operands)
    y = norm(x, *weights)
    given = [x, *(w for w in weights if w is not None)]
    gradients = torch.autograd.grad(y, given, seed.to(device))
    return [y.detach().cpu(), *(g.cpu() for g in gradients)]


@pytest.mark.parametrize("weights", ["none", "same dtype", "float32"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", NORMS)
def test_forward_and_backward_equal_cpu(name, dtype, weights, no_fallback):
    x, seed = torch.randn(2, 4, CHANNELS, 5).to(dtype)
    pair = [None, None]
    if weights != "none":
        pair = list(torch.randn(2, CHANNELS))
    if weights == "same dtype":
        pair = [w.to(dtype) for w in pair]
    wanted = run(NORMS[name], (x, *pair), seed, "cpu")
    actual = run(NORMS[name], (x, *pair), seed, "neuron")
    # The CPU rounds statistics of float16 and bfloat16 weights.
    tolerance = 4e-2 if dtype == torch.bfloat16 else 5e-3
    torch.testing.assert_close(actual, wanted, rtol=tolerance, atol=tolerance)
