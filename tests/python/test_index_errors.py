# SPDX-License-Identifier: Apache-2.0
"""Indices out of range: an error of CPU's type at the next synchronisation at the
latest, naming the operator; memory stays whole and the process goes on."""

import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, tensor

X = torch.arange(20.0).view(4, 5)
COLUMN = torch.ones(4, 1)
ROWS = torch.ones(2, 5)


def column(i: int) -> Tensor:
    return tensor([[0], [i], [0], [0]])


# name in the message: (call of the data and an index, an index out of range)
CALLS = {
    "index_select": (lambda x, i: x.index_select(0, i), tensor([0, 9])),
    "index_select-negative": (lambda x, i: x.index_select(0, i), tensor([0, -1])),
    "gather": (lambda x, i: x.gather(1, i), column(5)),
    "gather-negative": (lambda x, i: x.gather(1, i), column(-1)),
    "take": (lambda x, i: x.take(i), tensor([0, 20])),
    "take-negative": (lambda x, i: x.take(i), tensor([0, -21])),
    "embedding": (lambda x, i: F.embedding(i, x), tensor([[0, 4]])),
    "embedding-negative": (lambda x, i: F.embedding(i, x), tensor([-1])),
    "index": (lambda x, i: x[i], tensor([0, 4])),
    "index-negative": (lambda x, i: x[i], tensor([0, -5])),
    "index-second": (lambda x, i: x[:, i], tensor([0, 5])),
    "index_put": (lambda x, i: x.index_put((i,), x[0]), tensor([0, 9])),
    "index_put_": (lambda x, i: x.index_put_((i,), x[0].clone()), tensor([-9])),
    "index_put_-accumulate": (
        lambda x, i: x.index_put_((i,), x[0].clone(), accumulate=True),
        tensor([3, 4]),
    ),
    "index_put_-setitem": (lambda x, i: x.__setitem__(i, 1.0), tensor([0, 4])),
    "scatter": (lambda x, i: x.scatter(1, i, COLUMN.to(x.device)), column(5)),
    "scatter_": (lambda x, i: x.scatter_(1, i, 2.0), column(-1)),
    "scatter_add": (lambda x, i: x.scatter_add(1, i, COLUMN.to(x.device)), column(7)),
    "scatter_reduce": (
        lambda x, i: x.scatter_reduce(1, i, COLUMN.to(x.device), "amax"),
        column(9),
    ),
    "index_add": (lambda x, i: x.index_add(0, i, ROWS.to(x.device)), tensor([0, 4])),
    "index_copy": (lambda x, i: x.index_copy(0, i, ROWS.to(x.device)), tensor([0, -1])),
    "index_fill": (lambda x, i: x.index_fill(0, i, 2.0), tensor([0, -5])),
    "nll_loss": (lambda x, i: F.nll_loss(x, i), tensor([0, 1, 2, 5])),
    "nll_loss-negative": (lambda x, i: F.nll_loss(x, i), tensor([0, 1, 2, -1])),
    "nll_loss-cross_entropy": (
        lambda x, i: F.cross_entropy(x, i, label_smoothing=0.0),
        tensor([0, 9, 2, 3]),
    ),
    "max_unpool2d": (
        lambda x, i: F.max_unpool2d(x[:2, :2].reshape(1, 1, 2, 2), i, 2),
        tensor([[[[0, 99], [1, 2]]]]),
    ),
}
# The same calls with indices in range that look suspicious.
ALLOWED = {
    "index": (lambda x, i: x[i], tensor([-4, 3])),
    "index_put_": (lambda x, i: x.index_put_((i,), x[0].clone()), tensor([-4])),
    "take": (lambda x, i: x.take(i), tensor([-20, 19])),
    "index_fill": (lambda x, i: x.index_fill(0, i, 2.0), tensor([-4, -1])),
    "nll_loss": (lambda x, i: F.nll_loss(x, i), tensor([0, -100, -100, 4])),
    "embedding-empty": (
        lambda x, i: F.embedding(i, x),
        torch.zeros(0, dtype=torch.int64),
    ),
}


def outcome(call, index: Tensor, device: str) -> Tensor | Exception:
    try:
        result = call(X.to(device, copy=True), index.to(device))
        result = None if result is None else result.cpu()
        torch.neuron.synchronize()
        return result
    except Exception as error:
        return error


@pytest.mark.parametrize("name", CALLS)
def test_out_of_range_is_an_error_of_the_cpus_type(name):
    call, index = CALLS[name]
    expected = outcome(call, index, "cpu")
    assert isinstance(expected, (IndexError, RuntimeError))
    actual = outcome(call, index, "neuron")
    assert type(actual) is type(expected), (actual, expected)
    assert f"aten::{name.partition('-')[0]}" in str(actual)
    # The stream is clean again and the device works.
    torch.neuron.synchronize()
    assert (X.to("neuron") + 1).cpu().equal(X + 1)


@pytest.mark.parametrize("name", ALLOWED)
def test_indices_in_range_are_no_error(name):
    call, index = ALLOWED[name]
    expected = outcome(call, index, "cpu")
    assert torch.equal(outcome(call, index, "neuron"), expected)


def test_integers_of_32_bits_are_checked_alike():
    index = tensor([0, 9], dtype=torch.int32)
    actual = outcome(lambda x, i: x.index_select(0, i), index, "neuron")
    assert type(actual) is IndexError and "aten::index_select" in str(actual)


def test_the_message_has_shapes_and_dtypes():
    error = outcome(lambda x, i: x[i], tensor([0, 9]), "neuron")
    assert "(float32[4, 5], int64[2])" in str(error)
    assert "index 9 is out of bounds" in str(error)


def test_neighbours_of_an_out_of_range_write_are_untouched():
    """Three views share one storage; only the middle one is written."""
    memory = torch.full((3, 64), 7.0, device="neuron")
    for where in (64, 10**6, -65, -(10**6), 2**40):
        index = tensor([0, where], device="neuron")
        with pytest.raises(IndexError, match="index_put_"):
            memory[1].index_put_((index,), tensor(1.0, device="neuron"))
            torch.neuron.synchronize()
        with pytest.raises(RuntimeError, match="scatter"):
            memory[1].scatter_add_(0, index, torch.ones(2, device="neuron"))
            torch.neuron.synchronize()
    host = memory.cpu()
    assert (host[0] == 7).all() and (host[2] == 7).all()
    assert (host[1, 1:] == 7).all()


def test_work_after_the_error_is_done():
    x = torch.zeros(8, device="neuron")
    bad = x[tensor([99], device="neuron")]
    y = x + 1
    with pytest.raises(IndexError, match="aten::index"):
        torch.neuron.synchronize()
    assert y.sum().item() == 8
    del bad


def test_each_error_is_raised_once():
    x = torch.zeros(8, device="neuron")
    x[tensor([99], device="neuron")]
    with pytest.raises(IndexError):
        x.cpu()
    assert x.sum().item() == 0


@pytest.mark.parametrize("wait", ["item", "event", "stream", "accelerator", "tolist"])
def test_every_way_to_wait_raises_index_error(wait):
    x = torch.zeros(8, device="neuron")
    event = torch.neuron.Event()
    bad = x[tensor([99], device="neuron")]
    event.record()
    ways = {
        "item": lambda: bad.sum().item(),
        "event": lambda: (event.synchronize(), torch.neuron.synchronize()),
        "stream": lambda: torch.neuron.current_stream().synchronize(),
        "accelerator": lambda: torch.accelerator.synchronize(),
        "tolist": lambda: bad.tolist(),
    }
    with pytest.raises(IndexError, match="aten::index"):
        ways[wait]()
    torch.neuron.synchronize()


def test_blocking_launches_raise_at_the_call():
    code = (
        "import torch\n"
        "x = torch.zeros(4, device='neuron')\n"
        "i = torch.tensor([7], device='neuron')\n"
        "try: x[i]\n"
        "except IndexError as e: print('at the call', 'aten::index' in str(e))\n"
    )
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "NEURON_LAUNCH_BLOCKING": "1"},
    )
    assert result.stdout.strip() == "at the call True", result.stderr


@pytest.mark.skipif(
    os.environ.get("TORCH_NEURONX_SIM_NUMERICS") == "decomposed",
    reason="this is the run in that mode",
)
def test_decompositions_report_the_same():
    """What hardware gets: the whole file again."""
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            __file__,
        ],
        capture_output=True,
        text=True,
        timeout=250,
        env={**os.environ, "TORCH_NEURONX_SIM_NUMERICS": "decomposed"},
    )
    assert result.returncode == 0, result.stdout[-4000:]
