# SPDX-License-Identifier: Apache-2.0
"""The neuronx-cc runner, with a stand-in program in the compiler's place that checks
its input as jaxlib does."""

import sys
import textwrap

import pytest
import torch

import torch_neuronx
from torch_neuronx import _C

STAND_IN = """\
    #!{python}
    import struct, sys
    arguments = sys.argv[1:]
    assert arguments[0] == "compile" and arguments[2:4] == ["--framework", "XLA"]
    option = dict(zip(arguments[2::2], arguments[3::2]))
    assert option["--target"] == "trn2" and option["--lnc"] == "2"
    from jaxlib._jax.mlir import mlir_module_to_xla_computation
    text = open(arguments[1]).read()
    mlir_module_to_xla_computation(text, use_tuple_args=False, return_tuple=False)
    {then}
    body = b"standing in"
    header = struct.pack("<QQQ", 2, 1024, len(body)).ljust(1024, b"\\0")
    open(option["--output"], "wb").write(header + body)
    """


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    def install(then: str = "pass") -> None:
        program = tmp_path / "compiler"
        text = textwrap.dedent(STAND_IN).format(python=sys.executable, then=then)
        program.write_text(text)
        program.chmod(0o755)
        monkeypatch.setenv("TORCH_NEURONX_CC", str(program))

    return install


@pytest.fixture
def text():
    x = torch.ones(2, 3, device="neuron")
    return torch_neuronx.program(
        torch.ops.aten._softmax.default, x, -1, False
    ).stablehlo


def test_valid_program_gives_the_compiler_s_file(compiler, text):
    compiler()
    assert _C.run_compiler(text, "trn2", 2).endswith(b"standing in")


def test_invalid_program_is_refused_with_the_compiler_s_words(compiler):
    compiler()
    with pytest.raises(RuntimeError, match="failed with exit code 1"):
        _C.run_compiler("this is no program", "trn2", 2)


def test_failure_shows_the_compiler_s_error(compiler, text):
    compiler('sys.exit("ERROR: [NCC_EVRF013] TopK on integers")')
    with pytest.raises(RuntimeError, match="NCC_EVRF013"):
        _C.run_compiler(text, "trn2", 2)


def test_killed_compiler_is_an_error(compiler, text):
    compiler("import os; os.kill(os.getpid(), 9)")
    with pytest.raises(RuntimeError, match="killed by signal 9"):
        _C.run_compiler(text, "trn2", 2)


def test_hanging_compiler_is_stopped(compiler, text, monkeypatch):
    monkeypatch.setenv("TORCH_NEURONX_COMPILE_TIMEOUT", "6")
    compiler("import time; time.sleep(600)")
    with pytest.raises(RuntimeError, match="did not finish within 6 s"):
        _C.run_compiler(text, "trn2", 2)


def test_output_that_is_no_neff_is_refused(compiler, text):
    compiler('open(option["--output"], "w").write("half"); sys.exit(0)')
    with pytest.raises(RuntimeError, match="no valid NEFF"):
        _C.run_compiler(text, "trn2", 2)


def test_missing_compiler_says_what_to_install(text, monkeypatch):
    monkeypatch.setenv("TORCH_NEURONX_CC", "/nonexistent/neuronx-cc")
    with pytest.raises(RuntimeError, match="Install neuronx-cc"):
        _C.run_compiler(text, "trn2", 2)
