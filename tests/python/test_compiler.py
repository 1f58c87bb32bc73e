# SPDX-License-Identifier: Apache-2.0
"""The neuronx-cc runner, with a stand-in program in the compiler's place that checks
its input as jaxlib does."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest
import torch

import torch_neuronx
from torch_neuronx import _C, compilation


@pytest.fixture
def text():
    x = torch.ones(2, 3, device="neuron")
    return torch_neuronx.program(
        torch.ops.aten._softmax.default, x, -1, False
    ).stablehlo


def test_valid_program_gives_the_compiler_s_file(compiler, text):
    compiler()
    assert b"standing in for" in _C.run_compiler(text, "trn2", 2)


@pytest.mark.parametrize("target", ["trn2", "trn3"])
@pytest.mark.parametrize("lnc", [1, 2])
def test_target_and_logical_cores_reach_the_compiler(compiler, text, target, lnc):
    log = compiler()
    _C.run_compiler(text, target, lnc)
    assert log()[0].endswith(f"{target} {lnc}")


def test_input_is_an_hlo_proto(compiler, text):
    log = compiler()
    _C.run_compiler(text, "trn2", 2)
    assert log()[0] == f"hlo {len(compilation.to_hlo(text))} trn2 2"


def test_compiler_that_refuses_protos_gets_text_and_is_not_asked_again(compiler, text):
    log = compiler(STAND_IN_ACCEPTS="stablehlo", STAND_IN_VERSION="2.90.1")
    for _ in range(2):
        _C.run_compiler(text, "trn2", 2)
    assert [line.split()[0] for line in log()] == ["hlo", "stablehlo", "stablehlo"]


def test_error_in_a_program_is_no_reason_to_try_text(compiler, text):
    log = compiler("fail", STAND_IN_VERSION="2.91.1")
    with pytest.raises(RuntimeError, match="NCC_EVRF013"):
        _C.run_compiler(text, "trn2", 2)
    assert len(log()) == 1


def test_environment_chooses_the_input(compiler, text, monkeypatch):
    log = compiler()
    monkeypatch.setenv("TORCH_NEURONX_CC_INPUT", "stablehlo")
    _C.run_compiler(text, "trn2", 2)
    assert log()[0].startswith("stablehlo")
    monkeypatch.setenv("TORCH_NEURONX_CC_INPUT", "json")
    with pytest.raises(ValueError, match="TORCH_NEURONX_CC_INPUT=json is not valid"):
        _C.run_compiler(text, "trn2", 2)


def test_invalid_program_is_our_error(compiler):
    compiler()
    with pytest.raises(RuntimeError, match="not valid StableHLO"):
        _C.run_compiler("this is no program", "trn2", 2)


def test_failure_tells_cause_remedy_and_the_compiler_s_words(compiler, text):
    compiler("fail")
    with pytest.raises(RuntimeError) as error:
        _C.run_compiler(text, "trn2", 2)
    told = str(error.value)
    assert "failed with exit code 1" in told
    assert "NCC_EVRF013: top-k of integers. What to do: convert to float32" in told
    assert "[NCC_EVRF013] TopK does not support integer inputs" in told
    assert "a line that is no error" not in told


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("ERROR: [NCC_EOOM001] too big", "more memory than a logical core"),
        ("[EARG002] --cache_dir", "NEURON_CC_FLAGS"),
        ("NCC_ITEN406: dims", "contiguous"),
        ("[NCC_IABC001] x", "an internal error of the compiler"),
        ("[NCC_EABC001] x", "not a documented error"),
    ],
)
def test_codes_are_explained(code, told):
    assert told in _C.explain_compiler_error(code)


def test_words_that_only_look_like_codes_are_not_explained():
    assert _C.explain_compiler_error("EVRF0130 XEVRF013 EABC001 evrf013") == ""


def test_every_documented_code_has_cause_and_remedy():
    documented = (
        "EARG001 EARG002 EBIR023 EBVF030 EVRF007 EXTP004 EHCA005 EVRF015 EMOD025 "
        "EOOM001 EOOM002 EVRF009 ESFH002 ESPP004 ESPP047 EVRF005 EVRF001 EUOC002 "
        "EVRF004 EVRF006 EVRF010 EVRF011 EVRF013 EVRF016 EVRF017 EVRF018 EVRF019 "
        "EVRF022 EVRF024 EVRF031 EVRF035 EVRF051 EVRF052 EVRF056 EVRF059 EVRF060 "
        "EVRF061 EVRF062 EVRF063 EVRF064 EVRF065 EXSP001"
    ).split()
    documented += [f"EVRF{n:03}" for n in (*range(36, 51), 53, 54, 55, 57, 58)]
    table = {code: (cause, remedy) for code, cause, remedy in _C.compiler_error_codes()}
    assert set(documented) <= set(table)
    for code, (cause, remedy) in table.items():
        assert len(cause) > 5 and len(remedy) > 10, code


def test_every_code_of_the_hardware_s_rules_is_explained():
    known = {code for code, _, _ in _C.compiler_error_codes()}
    for rule in _C.hardware_rules():
        for code in re.findall(r"NCC_(\w+)", rule["codes"]):
            assert code in known, rule["name"]


def test_killed_compiler_is_an_error(compiler, text):
    compiler("kill")
    with pytest.raises(RuntimeError, match="killed by signal 9"):
        _C.run_compiler(text, "trn2", 2)


def test_hanging_compiler_is_stopped(compiler, text, monkeypatch):
    monkeypatch.setenv("TORCH_NEURONX_COMPILE_TIMEOUT", "4")
    compiler("hang")
    with pytest.raises(RuntimeError, match="did not finish within 4 s"):
        _C.run_compiler(text, "trn2", 2)


def test_stopped_compiler_leaves_no_process(compiler, text, monkeypatch):
    monkeypatch.setenv("TORCH_NEURONX_COMPILE_TIMEOUT", "5")
    compiler("orphan")
    with pytest.raises(RuntimeError, match="did not finish"):
        _C.run_compiler(text, "trn2", 2)
    found = subprocess.run(["pgrep", "-f", "^sleep 547"], capture_output=True)
    assert found.stdout == b""


@pytest.mark.parametrize("then", ["garbage", "truncated"])
def test_output_that_is_no_neff_is_refused(compiler, text, then):
    compiler(then)
    with pytest.raises(RuntimeError, match="no valid NEFF"):
        _C.run_compiler(text, "trn2", 2)


def test_missing_compiler_says_what_to_install(text, monkeypatch):
    monkeypatch.setenv("TORCH_NEURONX_CC", "/nonexistent/neuronx-cc")
    with pytest.raises(RuntimeError, match="Install neuronx-cc"):
        _C.run_compiler(text, "trn2", 2)


def test_work_directories_are_removed(compiler, text, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    compiler()
    _C.run_compiler(text, "trn2", 2)
    assert not list(tmp_path.glob("torch_neuronx.*"))


def test_cancel_ends_a_running_compiler(compiler, text):
    import threading

    compiler("hang")
    errors = []

    def run():
        try:
            _C.run_compiler(text, "trn2", 2)
        except RuntimeError as error:
            errors.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(2)
    _C.cancel_compilations()
    thread.join(20)
    assert errors == ["the compilation was cancelled"]


def test_interrupt_ends_a_running_compiler(compiler, text):
    import threading

    compiler("hang")
    timer = threading.Timer(2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        _C.run_compiler(text, "trn2", 2)
    assert time.monotonic() - start < 60


def test_flags_are_split_as_a_shell_does(compiler, text, tmp_path, monkeypatch):
    arguments = tmp_path / "arguments"
    program = tmp_path / "cc"
    program.write_text(
        f'#!/bin/sh\nfor a in "$@"; do echo "$a" >> {arguments}; done\nexit 1\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("TORCH_NEURONX_CC", str(program))
    monkeypatch.setenv(
        "NEURON_CC_FLAGS",
        "--model-type=transformer --tensorizer-options='-a -b' --cache_dir=/x "
        "--retry_failed_compilation -O1",
    )
    with pytest.raises(RuntimeError, match="failed with exit code 1"):
        _C.run_compiler(text, "trn2", 2)
    lines = arguments.read_text().splitlines()
    assert lines[-3:] == [
        "--model-type=transformer",
        "--tensorizer-options=-a -b",
        "-O1",
    ]
    monkeypatch.setenv("NEURON_CC_FLAGS", "--x='open")
    with pytest.raises(ValueError, match="NEURON_CC_FLAGS"):
        _C.run_compiler(text, "trn2", 2)


# Programs that overwrite an argument.


@pytest.mark.parametrize(
    ("form", "declared"),
    [
        ("hlo", "input_output_alias={ {}: (0, {}"),
        ("stablehlo", "%arg0: tensor<2x3xf32> {tf.aliasing_output = 0 : i32}"),
    ],
)
def test_overwritten_argument_is_declared(compiler, form, declared):
    """The stand-in refuses programs with the declaration in them, and no others."""
    compiler("fail", STAND_IN_ONLY=declared, TORCH_NEURONX_CC_INPUT=form)
    script = """if True:
        import torch, torch_neuronx
        x = torch.ones(2, 3).to("neuron")
        print((x + 1).sum().item())
        x.add_(1)
    """
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"TORCH_NEURONX_SIM_COMPILER": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.stdout == "12.0\n", done.stderr
    assert "[aten::add_.Tensor] on (float32[2, 3])" in done.stderr
    assert "NCC_EVRF013" in done.stderr
