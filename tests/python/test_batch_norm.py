# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation updates its running statistics on the device as on the CPU, in
what the simulator computes natively and in the hardware's program."""

import os
import subprocess
import sys

import pytest
import torch

aten = torch.ops.aten


def statistics() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(3), torch.rand(3) + 0.5


CALLS = {
    "native_batch_norm": lambda x, w, m, v, training: aten.native_batch_norm(
        x, w, w, m, v, training, 0.3, 1e-5
    ),
    "_native_batch_norm_legit": lambda x, w, m, v, training: (
        aten._native_batch_norm_legit(x, w, w, m, v, training, 0.3, 1e-5)
    ),
    "_batch_norm_with_update": lambda x, w, m, v, training: (
        aten._batch_norm_with_update(x, w, w, m, v, 0.3, 1e-5)
    ),
}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", CALLS)
def test_results_and_running_statistics_are_those_of_the_cpu(
    name, training, no_fallback
):
    x, w = torch.randn(2, 3, 4, 5), torch.randn(3)
    running = statistics()
    on_device = [t.to("neuron") for t in running]
    expected = CALLS[name](x, w, *running, training)
    actual = CALLS[name](x.to("neuron"), w.to("neuron"), *on_device, training)
    for a, e in zip([*actual, *on_device], [*expected, *running], strict=True):
        assert a.device.type == "neuron"
        torch.testing.assert_close(a.cpu(), e)


def test_without_running_statistics(no_fallback):
    x, w = torch.randn(2, 3, 4), torch.randn(3)
    expected = aten.native_batch_norm(x, w, w, None, None, True, 0.1, 1e-5)
    x, w = x.to("neuron"), w.to("neuron")
    actual = aten.native_batch_norm(x, w, w, None, None, True, 0.1, 1e-5)
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a.cpu(), e)


def test_evaluation_without_statistics_is_an_error():
    x = torch.randn(2, 3, 4, device="neuron")
    with pytest.raises(RuntimeError, match="running_mean and running_var"):
        aten.native_batch_norm(x, None, None, None, None, False, 0.1, 1e-5)


def test_the_hardware_program_updates_running_statistics():
    script = """
import torch
torch.manual_seed(0)
x = torch.randn(4, 3, 5)
norm = torch.nn.BatchNorm1d(3)
device = torch.nn.BatchNorm1d(3).to("neuron")
for _ in range(2):
    norm(x), device(x.to("neuron"))
torch.testing.assert_close(device.running_mean.cpu(), norm.running_mean)
torch.testing.assert_close(device.running_var.cpu(), norm.running_var)
"""
    environment = {**os.environ, "TORCH_NEURONX_SIM_NUMERICS": "decomposed"}
    subprocess.run(
        [sys.executable, "-c", script], env=environment, check=True, timeout=300
    )
