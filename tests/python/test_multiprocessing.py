# SPDX-License-Identifier: Apache-2.0
"""Processes that PyTorch spawns use the device, each with a runtime of its own."""

import time
from multiprocessing.reduction import ForkingPickler

import pytest
import torch
import torch.multiprocessing as mp

TIMEOUT = 200


def train(rank: int, queue) -> None:
    device = torch.device("neuron", rank)
    torch.neuron.set_device(device)
    weight = torch.full((3, 3), float(rank + 1), device=device, requires_grad=True)
    (weight @ weight).sum().backward()
    # Device tensors do not travel; their values do.
    queue.put((rank, str(weight.device), weight.grad.cpu().numpy()))


def fail(rank: int) -> None:
    torch.zeros(2, device="neuron")[torch.tensor([5], device="neuron")].cpu()


def join(children) -> bool:
    """All have ended well, in time; one call waits for the first to end only."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        if children.join(timeout=TIMEOUT):
            return True
    return False


def test_spawned_processes_use_the_device():
    """Also where the parent has used it before."""
    assert torch.ones(2, device="neuron").sum().item() == 2
    context = mp.get_context("spawn")
    queue = context.SimpleQueue()
    children = mp.spawn(train, (queue,), nprocs=2, join=False)
    assert join(children)
    results = sorted((queue.get() for _ in range(2)), key=lambda result: result[0])
    for rank, (found, device, gradient) in enumerate(results):
        weight = torch.full((3, 3), float(rank + 1), requires_grad=True)
        (weight @ weight).sum().backward()
        assert (found, device) == (rank, f"neuron:{rank}")
        assert torch.equal(torch.from_numpy(gradient), weight.grad)


def test_failures_of_a_child_reach_the_parent():
    children = mp.spawn(fail, nprocs=1, join=False)
    with pytest.raises(mp.ProcessRaisedException, match="index 5 is out of bounds"):
        join(children)


def test_device_tensors_are_refused_in_queues():
    with pytest.raises(RuntimeError, match="only available on CPU"):
        ForkingPickler.dumps(torch.ones(2, device="neuron"))
