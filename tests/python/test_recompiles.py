# SPDX-License-Identifier: Apache-2.0
"""Why a program was compiled: the nearest one and what differs."""

import os
import subprocess
import sys

import pytest
import torch

import torch_neuronx
from torch_neuronx.recompilation import Recompile


def only(found) -> Recompile:
    (recompile,) = found
    return recompile


def differences(found) -> set[tuple[str, str, str, str]]:
    return {(d.kind, d.where, d.old, d.new) for d in only(found).differences}


def test_shape():
    x = torch.ones(3, 11, device="neuron")
    _ = torch.sinh(x)
    with torch_neuronx.recompiles() as found:
        _ = torch.sinh(x[:2])
    assert only(found).nearest == "float32[3, 11]"
    assert differences(found) == {("shape", "input 0", "[3, 11]", "[2, 11]")}


def test_dtype():
    x = torch.ones(3, 12, device="neuron")
    _ = torch.cosh(x)
    with torch_neuronx.recompiles() as found:
        _ = torch.cosh(x.half())
    named = [r for r in found if r.name == "aten::cosh"]
    assert differences(named) == {("dtype", "input 0", "float32", "float16")}


def test_stride():
    x = torch.ones(13, 13, device="neuron")
    _ = torch.asinh(x)
    with torch_neuronx.recompiles() as found:
        _ = torch.asinh(x.t())
    assert differences(found) == {("stride", "input 0", "contiguous", "[1, 13]")}


def test_scalar():
    x = torch.ones(14, device="neuron")
    _ = torch.add(x, x, alpha=2)
    with torch_neuronx.recompiles() as found:
        _ = torch.add(x, x, alpha=3)
    assert differences(found) == {("scalar", "aten.add.Tensor alpha", "2", "3")}


def test_flag():
    x = torch.ones(4, 15, device="neuron")
    _ = torch.cumsum(x, 0)
    with torch_neuronx.recompiles() as found:
        _ = torch.cumsum(x, 1)
    assert differences(found) == {("flag", "aten.cumsum dim", "0", "1")}


def test_nearest_is_the_one_with_the_fewest_differences():
    x = torch.ones(5, 16, device="neuron")
    _ = torch.cumprod(x.bfloat16()[:3], 1)
    _ = torch.cumprod(x, 0)
    with torch_neuronx.recompiles() as found:
        _ = torch.cumprod(x, 1)
    assert only(found).nearest == "float32[5, 16]"
    assert differences(found) == {("flag", "aten.cumprod dim", "0", "1")}


def test_first_program_of_an_operator_has_no_nearest():
    with torch_neuronx.recompiles() as found:
        _ = torch.special.zeta(torch.ones(3, device="neuron") * 2, 1.5)
    named = [r for r in found if "zeta" in r.name]
    assert named and named[0].nearest is None
    assert "the operator's first program" in str(named[0])


def test_cached_calls_are_not_told():
    x = torch.ones(6, 17, device="neuron")
    _ = x.erf()
    with torch_neuronx.recompiles() as found:
        _ = x.erf()
    assert found == []


def test_call_site_is_the_user_s_line():
    x = torch.ones(7, 18, device="neuron")
    with torch_neuronx.recompiles() as found:
        line = sys._getframe().f_lineno + 1
        _ = torch.nn.functional.softplus(x)
    assert only(found).call_site == f"{__file__}:{line}"


@pytest.mark.parametrize("logs", ["recompiles", "recompiles,"])
def test_log_goes_to_stderr(logs):
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import torch\nx = torch.ones(2, 3).to('neuron')\n"
            "y = x.exp()\nz = x[0].exp()\n",
        ],
        env=os.environ | {"TORCH_NEURONX_LOGS": logs},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (
        "[torch_neuronx.recompiles] [aten::exp] on (float32[3]), called from "
        "<string>:4: compiled again; nearest is (float32[2, 3])\n"
        "  shape of input 0: [2, 3] -> [3]" in done.stderr
    )


def test_unknown_log_is_named():
    done = subprocess.run(
        [sys.executable, "-c", "import torch; torch.ones(1, device='neuron')"],
        env=os.environ | {"TORCH_NEURONX_LOGS": "everything"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0
    assert "TORCH_NEURONX_LOGS=everything is not valid" in done.stderr
