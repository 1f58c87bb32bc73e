# SPDX-License-Identifier: Apache-2.0
"""From a run on the simulator to a host where nothing may compile: record, compile,
pack, unpack, run. The compiler is a stand-in that reads its input as XLA does."""

import io
import json
import os
import subprocess
import sys
import tarfile
import textwrap

import pytest
import torch

import torch_neuronx
from torch_neuronx import _C
from torch_neuronx.records import compile_record, read_record
from torch_neuronx_cli import cache, main

TRAIN = """
import torch, torch_neuronx
torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2)).to("neuron")
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
x = torch.randn(16, 4).to("neuron")
y = torch.randint(2, (16,)).to("neuron")
for _ in range(3):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(loss.item())
"""


def python(script, **environment):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=280,
    )


def test_whole_journey(compiler, tmp_path, monkeypatch, capsys):
    record = tmp_path / "train.record"

    # A laptop: no compiler, the simulator, a record.
    recorded = python(TRAIN, TORCH_NEURONX_RECORD=str(record))
    assert recorded.returncode == 0, recorded.stderr
    programs = read_record(record)
    assert len(programs) > 10

    # A CPU host with the compiler. It checks each program as XLA does.
    log = compiler()
    assert main(["compile", str(record), "--target", "trn2", "--jobs", "2"]) == 0
    assert f"{len(programs)} programs for trn2, LNC 2" in capsys.readouterr().out
    assert len(log()) == len(cache.entries(tmp_path / "cache"))
    archive = tmp_path / "train.tar"
    assert main(["cache", "pack", str(archive)]) == 0

    # The device's host: no compiler, nothing may compile.
    monkeypatch.setenv("TORCH_NEURONX_CC", "/nonexistent/neuronx-cc")
    monkeypatch.setenv("TORCH_NEURONX_NEFF_CACHE_DIR", str(tmp_path / "other"))
    strict = {"TORCH_NEURONX_CACHE_MISS": "error"}
    before = python(TRAIN, **strict)
    assert before.returncode == 1
    assert "TORCH_NEURONX_CACHE_MISS=error forbids to compile" in before.stderr
    assert "called from <string>:" in before.stderr
    assert main(["cache", "unpack", str(archive)]) == 0
    after = python(TRAIN, **strict)
    assert after.stdout == recorded.stdout, after.stderr

    # A program that the record does not have is named, with its line.
    other = python(TRAIN + "\nprint(torch.cumsum(x, 0).sum())", **strict)
    assert "[aten::cumsum] on (float32[16, 4]), called from <string>:" in other.stderr


def test_context_records_what_was_compiled_before_too(tmp_path):
    x = torch.ones(5, 7, device="neuron")
    _ = x * 3  # compiled outside
    _ = x - 1
    with torch_neuronx.record(tmp_path / "r") as recorder:
        _ = x * 3
        _ = x.clamp(min=0.5)
    names = {program.name for program in read_record(tmp_path / "r")}
    assert names == {"aten::mul.Tensor", "aten::clamp"}
    assert recorder.programs == 2


def test_captured_graphs_travel_too(compiler, tmp_path):
    script = """
        import torch, torch_neuronx
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.SiLU()).to("neuron")
        compiled = torch.compile(model, backend="neuron", fullgraph=True)
        x = torch.ones(3, 4).to("neuron")
        with torch.no_grad():
            print(compiled(x).cpu().tolist())
    """
    record = tmp_path / "r"
    first = python(script, TORCH_NEURONX_RECORD=str(record))
    assert first.returncode == 0, first.stderr
    compiler()
    assert main(["compile", str(record)]) == 0
    again = python(script, TORCH_NEURONX_CACHE_MISS="error")
    assert again.stdout == first.stdout, again.stderr


def test_programs_are_recorded_once_and_appended(tmp_path):
    x = torch.ones(5, 7, device="neuron")
    for _ in range(2):
        with torch_neuronx.record(tmp_path / "r"):
            _ = x.exp()
            _ = x.exp()
    assert len((tmp_path / "r").read_text().splitlines()) == 2
    assert len(read_record(tmp_path / "r")) == 1


def test_recorded_program_is_the_program(tmp_path):
    x = torch.ones(5, 7, device="neuron")
    with torch_neuronx.record(tmp_path / "r"):
        _ = torch.tanh(x)
    (recorded,) = read_record(tmp_path / "r")
    program = _C.program_from_bytes(recorded.program)
    assert program.stablehlo == torch_neuronx.program("aten::tanh", x).stablehlo
    assert recorded.operands == "float32[5, 7]"


def test_damaged_lines_are_skipped(tmp_path):
    x = torch.ones(5, 7, device="neuron")
    file = tmp_path / "r"
    with torch_neuronx.record(file):
        _ = x.exp()
    with torch_neuronx.record(tmp_path / "other"):
        _ = x.tanh()
    whole = file.read_text()
    changed = json.loads((tmp_path / "other").read_text())
    changed["name"] = "aten::sigmoid"
    file.write_text(f"{whole[:100]}\n{whole}{json.dumps(changed)}\n{whole[:-20]}")
    with pytest.warns(UserWarning, match="3 unreadable lines"):
        (recorded,) = read_record(file)
    assert recorded.name == "aten::exp"
    with torch_neuronx.record(file):  # what is cut off does not spoil the next line
        _ = x.sin()
    with pytest.warns(UserWarning, match="3 unreadable lines"):
        assert {r.name for r in read_record(file)} == {"aten::exp", "aten::sin"}


def test_what_is_no_record_is_refused(tmp_path, capsys):
    file = tmp_path / "r"
    file.write_bytes(b"\x00\xffno record")
    with pytest.raises(ValueError, match="is not a record"):
        read_record(file)
    file.write_text('{"format": 99, "package": "3.0"}\n')
    with pytest.raises(ValueError, match="format 99, written by torch-neuronx 3.0"):
        read_record(file)
    assert main(["compile", str(tmp_path / "none")]) == 1
    assert "No such file" in capsys.readouterr().err


def test_failures_are_told_with_operator_and_line(compiler, tmp_path, capsys):
    """One program fails, the others are compiled."""
    record = tmp_path / "r"
    script = tmp_path / "script.py"
    script.write_text(
        'import torch\nx = torch.ones(3).to("neuron")\ny = x.exp()\nz = x.tanh()\n'
    )
    subprocess.run(
        [sys.executable, script],
        env=os.environ | {"TORCH_NEURONX_RECORD": str(record)},
        check=True,
        timeout=120,
    )
    compiler("fail", STAND_IN_ONLY="tanh")
    assert main(["compile", str(record)]) == 1
    told = capsys.readouterr()
    assert "[aten::tanh] recorded from" in told.err
    assert "script.py:4" in told.err and "EVRF013" in told.err
    assert "1 failed" in told.out and "aten::exp" not in told.err


@pytest.mark.parametrize(
    ("then", "told"),
    [
        ("hang", "did not finish within 6 s"),
        ("kill", "killed by signal 9"),
        ("garbage", "no valid NEFF"),
        ("internal", "an internal error of the compiler"),
    ],
)
def test_one_bad_compilation_spoils_no_other(
    compiler, tmp_path, monkeypatch, capsys, then, told
):
    x = torch.ones(3, 7, device="neuron")
    with torch_neuronx.record(tmp_path / "r"):
        _ = x.exp(), x.tanh(), x.sin()
    compiler(then, STAND_IN_ONLY="tanh")
    monkeypatch.setenv("TORCH_NEURONX_COMPILE_TIMEOUT", "6")
    assert main(["compile", str(tmp_path / "r"), "--jobs", "3"]) == 1
    shown = capsys.readouterr()
    assert "[aten::tanh]" in shown.err and told in shown.err
    assert "2 compiled, 0 were in the cache, 1 failed" in shown.out
    compiler("ok")
    assert main(["compile", str(tmp_path / "r"), "--retry"]) == 0
    assert "1 compiled, 2 were in the cache, 0 failed" in capsys.readouterr().out
    assert cache.verify(tmp_path / "cache") == (3, [])


def test_record_on_a_full_disk_is_a_warning():
    done = python(
        """
        import torch, torch_neuronx
        x = torch.ones(3).to("neuron")
        print((x + 1).sum().item())
        """,
        TORCH_NEURONX_RECORD="/dev/full",
    )
    assert done.stdout == "6.0\n"
    assert "is incomplete" in done.stderr and "No space left" in done.stderr


def test_several_processes_write_one_record(tmp_path):
    record = tmp_path / "r"
    script = """
        import sys, torch
        for n in range(1, 30):
            x = torch.ones(int(sys.argv[1]), n, device="neuron")
            x.sum().item()
    """
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script), str(k)],
            env=os.environ | {"TORCH_NEURONX_RECORD": str(record)},
        )
        for k in range(1, 4)
    ]
    assert [process.wait(200) for process in processes] == [0, 0, 0]
    programs = [p for p in read_record(record) if p.name == "aten::sum"]
    assert len(programs) == 3 * 29


def test_interrupt_ends_the_compilers(compiler, tmp_path):
    import signal
    import time

    log = compiler("hang")
    record = tmp_path / "r"
    x = torch.ones(3, device="neuron")
    with torch_neuronx.record(record):
        _ = x.exp(), x.tanh(), x.sin()
    command = [sys.executable, "-m", "torch_neuronx_cli", "compile", str(record)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    start = time.monotonic()
    while not log():
        assert process.poll() is None and time.monotonic() - start < 120
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) != 0
    pattern = os.environ["TORCH_NEURONX_CC"]
    assert not subprocess.run(["pgrep", "-f", pattern], capture_output=True).stdout


# The command line's cache.


@pytest.fixture
def filled(compiler, tmp_path):
    compiler()
    x = torch.ones(2, 3, device="neuron")
    for name in ("exp", "tanh", "sin"):
        program = torch_neuronx.program(f"aten::{name}", x)
        _C.compile_program(program, f"aten::{name}", "trn2", 2)
    return tmp_path / "cache"


def test_list_and_info_show_what_is_there(filled, capsys):
    assert main(["cache", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert any("trn2/2" in li and "aten::tanh (float32[2, 3])" in li for li in lines)
    assert main(["cache", "list", "tanh"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert main(["cache"]) == 0
    assert f"{filled}: 3 programs" in capsys.readouterr().out
    assert main(["cache", "info", lines[1][:12]]) == 0
    assert "float32[2, 3]" in capsys.readouterr().out
    assert main(["cache", "info", "zz"]) == 1


def test_stats_add_up(filled, capsys):
    assert main(["cache", "stats"]) == 0
    out = capsys.readouterr().out
    assert "2.28.7631.0+a1b2c3d4" in out and "aten::sin" in out
    assert "0 failures are remembered" in out


def test_prune_by_size_age_and_all(filled, capsys):
    old = cache.entries(filled)[0].path(".json")
    os.utime(old, (1, 1))
    assert main(["cache", "prune"]) == 0
    assert "removed 0 programs" in capsys.readouterr().out
    assert main(["cache", "prune", "--older-than", "30d"]) == 0
    assert "removed 1 programs" in capsys.readouterr().out
    assert main(["cache", "prune", "--all"]) == 0
    assert cache.entries(filled) == []
    with pytest.raises(SystemExit):
        main(["cache", "prune", "--max-size", "much"])


def test_failures_are_listed_and_forgotten(compiler, tmp_path, capsys):
    compiler("fail")
    program = torch_neuronx.program("aten::exp", torch.ones(9, device="neuron"))
    with pytest.raises(RuntimeError):
        _C.compile_program(program, "aten::exp", "trn2", 2)
    assert main(["cache", "list", "--failed"]) == 0
    assert "failed with exit code 1" in capsys.readouterr().out
    assert main(["cache", "prune", "--failed"]) == 0
    assert cache.entries(tmp_path / "cache", failures=True) == []


def test_verify_says_what_is_damaged(filled, capsys):
    assert main(["cache", "verify"]) == 0
    neff = cache.entries(filled)[1].path(".neff")
    neff.write_bytes(neff.read_bytes()[:-1])
    assert main(["cache", "verify"]) == 1
    assert "2 programs are sound, 1 are not" in capsys.readouterr().out
    assert main(["cache", "verify", "--repair"]) == 0
    assert main(["cache", "verify"]) == 0


def test_archive_brings_sound_programs_only(filled, tmp_path, capsys):
    archive, other = tmp_path / "a.tar", tmp_path / "other"
    assert main(["cache", "pack", str(archive)]) == 0
    # A member whose bytes were changed, one that leaves the folder, one too many.
    changed = tmp_path / "changed.tar"
    with tarfile.open(archive) as old, tarfile.open(changed, "w") as new:
        for i, member in enumerate(old.getmembers()):
            data = bytearray(old.extractfile(member).read())
            if i == 0:
                data[-1] ^= 1
            copy = tarfile.TarInfo(f"../{member.name}" if i == 2 else member.name)
            copy.size = len(data)
            new.addfile(copy, io.BytesIO(bytes(data)))
    assert main(["cache", "unpack", "--dir", str(other), str(changed)]) == 1
    out = capsys.readouterr().out
    assert "have changed" in out and "is no compiled program" in out
    assert len(cache.entries(other)) == 1 and cache.verify(other) == (1, [])
    assert not (tmp_path / "neff").exists()
    assert main(["cache", "unpack", "--dir", str(other), str(archive)]) == 0
    assert "2 programs added, 1 were there already" in capsys.readouterr().out
    assert cache.verify(other) == (3, [])


def test_truncated_archive_is_an_error(filled, tmp_path, capsys):
    archive = tmp_path / "a.tar"
    assert main(["cache", "pack", str(archive)]) == 0
    data = archive.read_bytes()
    for size in (0, 100, 512, len(data) // 2 + 100, len(data) // 2 // 512 * 512):
        archive.write_bytes(data[:size])
        other = tmp_path / f"other{size}"
        assert main(["cache", "unpack", "--dir", str(other), str(archive)]) == 1
        assert cache.verify(other)[1] == []


def test_report_counts(compiler, tmp_path):
    compiler()
    x = torch.ones(4, device="neuron")
    with torch_neuronx.record(tmp_path / "r"):
        _ = x.exp(), x.tanh()
    programs = read_record(tmp_path / "r")
    outcomes = []
    report = compile_record(
        programs, "trn3", 1, 2, lambda program, outcome: outcomes.append(outcome)
    )
    assert (report.compiled, report.cached, report.failures) == (2, 0, [])
    again = compile_record(programs, "trn3", 1, 2)
    assert (again.compiled, again.cached) == (0, 2)
    assert outcomes == ["compiled", "compiled"]
