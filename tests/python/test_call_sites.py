# SPDX-License-Identifier: Apache-2.0
"""Failures of asynchronous work: what they name when they are raised at last."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torch_neuronx

LIBRARY = Path(torch_neuronx.__file__).parent / "libnrt_sim.so"
BAD_INPUT = 1002  # NRT_EXEC_BAD_INPUT

# The failing lines and their numbers are FAILURES.
PROGRAM = f"""import ctypes, torch
inject = ctypes.CDLL({str(LIBRARY)!r}).nrt_sim_inject
x = torch.ones(4, 5, device="neuron", requires_grad=True)
index, host = torch.tensor([9], device="neuron"), torch.ones(5)
wide = torch.ones(5, 4, device="neuron")
loss = x.exp().sum()
def show():
    try: torch.neuron.synchronize()
    except Exception as error: print(type(error).__name__, error)
    else: print("nothing")
torch.neuron.synchronize()
x.detach()[index]
show()
inject(b"execute:1:{BAD_INPUT}")
x.detach().mm(wide)
show()
inject(b"write:1:{BAD_INPUT}")
host.to("neuron", non_blocking=True)
show()
inject(b"execute:2:{BAD_INPUT}")
loss.backward()
show()
show()
"""
FAILURES = {
    "IndexError [aten::index.Tensor] on (float32[4, 5], int64[1])": ":12",
    "RuntimeError [aten::mm] on (float32[4, 5], float32[5, 4])": ":15",
    "RuntimeError [copy to device]": ":18",
}


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """What the program prints when call sites are kept, and its path."""
    path = tmp_path_factory.mktemp("call_sites") / "program.py"
    path.write_text(PROGRAM)
    result = subprocess.run(
        [sys.executable, "-W", "ignore", path],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "TORCH_NEURONX_DEBUG": "1"},
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines(), path


def test_the_line_that_queued_the_work_is_named(lines):
    printed, path = lines
    for text, (start, line) in zip(printed, FAILURES.items(), strict=False):
        assert text.startswith(f"{start}, queued by {path}{line}: "), text


def test_work_of_backward_says_so(lines):
    printed, _ = lines
    assert "float32[4, 5]" in printed[3]
    assert "queued by a thread without Python code, such as backward's" in printed[3]


def test_a_failure_is_raised_once(lines):
    printed, _ = lines
    assert printed[4:] == ["nothing"]


@pytest.mark.skipif("TORCH_NEURONX_DEBUG" in os.environ, reason="they are kept")
def test_without_debug_operator_and_operands_are_named():
    x, w = torch.ones(4, 5, device="neuron"), torch.ones(5, 4, device="neuron")
    text = failure(lambda: x.mm(w))
    assert text.startswith("[aten::mm] on (float32[4, 5], float32[5, 4]): ")
    assert "queued by" not in text


def test_strided_operands_are_named_by_their_view():
    x = torch.ones(4, 5, device="neuron").t()
    assert "(float32[5, 4] with strides [1, 5])" in failure(x.exp)
    y = torch.ones(5, 8, device="neuron")[:, ::2]
    assert "float32[5, 4] with strides [8, 2]" in failure(lambda: torch.exp(x, out=y))


def failure(call) -> str:
    """What is raised when what `call` launches fails."""
    torch.neuron.synchronize()
    ctypes.CDLL(str(LIBRARY)).nrt_sim_inject(f"execute:1:{BAD_INPUT}".encode())
    result = call()
    with pytest.raises(RuntimeError) as error:
        torch.neuron.synchronize()
    del result
    return str(error.value)
