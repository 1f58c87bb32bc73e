# SPDX-License-Identifier: Apache-2.0
"""The compile service and its cache on disk, with a stand-in compiler: hits, misses,
failures, damage, kills, full disks, several processes. Programs run on the simulator
through the same service (TORCH_NEURONX_SIM_COMPILER=1)."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
import torch

import torch_neuronx
from torch_neuronx import _C
from torch_neuronx_cli import cache


@pytest.fixture
def program():
    return torch_neuronx.program("aten::relu", torch.ones(2, 3, device="neuron"))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


def compile_it(program, name="aten::relu", target="trn2", lnc=2, kernels=()):
    return _C.compile_program(program, name, target, lnc, list(kernels))


def run_script(text, **environment):
    """A Python process whose programs go through the compile service."""
    script = "import torch, torch_neuronx\n" + textwrap.dedent(text)
    environment = {"TORCH_NEURONX_SIM_COMPILER": "1", **environment}
    return subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=240,
    )


ADD = """
x = torch.ones(2, 3).to("neuron")
print((x + x).sum().item())
"""


# Hits and keys.


def test_second_time_is_a_hit(compiler, program):
    log = compiler()
    first, second = compile_it(program), compile_it(program)
    assert first["compiled"] and not second["compiled"]
    assert first["key"] == second["key"] and len(log()) == 1


def test_bytes_from_the_cache_are_the_compiler_s(compiler, program):
    compiler()
    assert program.neff("aten::relu") == program.neff("aten::relu")
    assert b"standing in for" in program.neff("aten::relu")


def test_sidecar_says_what_it_is(compiler, program, folder):
    compiler()
    compile_it(program)
    (entry,) = cache.entries(folder)
    details = entry.details
    assert details["name"] == "aten::relu" and details["operands"] == "float32[2, 3]"
    assert details["target"] == "trn2" and details["lnc"] == 2
    assert details["compiler"] == entry.version == "2.28.7631.0+a1b2c3d4"
    assert details["input"] == "hlo" and details["bytes"] > 1024
    assert re.search(r"test_service\.py:\d+$", details["call_site"])


def test_name_of_the_operator_is_no_part_of_the_key(compiler, program):
    log = compiler()
    compile_it(program, "aten::relu")
    compile_it(program, "aten::relu_")
    assert len(log()) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"NEURON_CC_FLAGS": "-O1"},
        {"NEURON_CC_FLAGS": "-O 1"},
        {"TORCH_NEURONX_NATIVE_INT64": "0"},
        {"STAND_IN_VERSION": "2.29.1", "touch": "1"},
    ],
)
def test_what_shapes_a_neff_is_part_of_the_key(compiler, program, monkeypatch, change):
    log = compiler()
    compile_it(program)
    if change.pop("touch", None):
        os.utime(os.environ["TORCH_NEURONX_CC"], (1, 1))  # another installation
    for name, value in change.items():
        monkeypatch.setenv(name, value)
    compile_it(program)
    assert len(log()) == 2


def test_target_cores_and_kernels_are_part_of_the_key(compiler, program):
    log = compiler()
    keys = {
        compile_it(program, target=target, lnc=lnc, kernels=kernels)["key"]
        for target in ("trn2", "trn3")
        for lnc in (1, 2)
        for kernels in ((), ("a",), ("a", "b"), ("ab",))
    }
    assert len(keys) == len(log()) == 16


def test_compiler_without_a_version_is_known_by_its_bytes(compiler, program, folder):
    compiler(STAND_IN_VERSION="none")
    compile_it(program)
    assert cache.entries(folder)[0].version.startswith("unversioned.")


def test_two_versions_of_the_compiler_share_a_folder(compiler, program, folder):
    compiler()
    compile_it(program)
    os.utime(os.environ["TORCH_NEURONX_CC"], (1, 1))
    log = compiler(STAND_IN_VERSION="2.100.0")
    compile_it(program)
    assert len(log()) == 2
    versions = {entry.version for entry in cache.entries(folder)}
    assert versions == {"2.28.7631.0+a1b2c3d4", "2.100.0"}


def test_host_without_a_compiler_takes_the_newest(
    compiler, program, folder, monkeypatch
):
    compiler(STAND_IN_VERSION="2.9.0")
    compile_it(program)
    os.utime(os.environ["TORCH_NEURONX_CC"], (1, 1))
    compiler(STAND_IN_VERSION="2.10.0")
    compile_it(program)
    monkeypatch.setenv("TORCH_NEURONX_CC", "/nonexistent/neuronx-cc")
    assert compile_it(program)["version"] == "2.10.0"


def test_disabled_cache_is_neither_read_nor_written(
    compiler, program, folder, monkeypatch
):
    log = compiler()
    monkeypatch.setenv("TORCH_NEURONX_NEFF_DISABLE_CACHE", "1")
    compile_it(program)
    compile_it(program)
    assert len(log()) == 2 and not folder.exists()


def test_read_only_folders_are_looked_in(compiler, program, folder, monkeypatch):
    log = compiler()
    compile_it(program)
    shipped = folder.rename(folder.with_name("shipped"))
    files = sorted(shipped.rglob("*"))
    monkeypatch.setenv("TORCH_NEURONX_NEFF_CACHE_READONLY_DIRS", f"/none:{shipped}")
    assert not compile_it(program)["compiled"]
    assert len(log()) == 1 and sorted(shipped.rglob("*")) == files


def test_local_folder_gets_a_copy_and_is_looked_in_first(
    compiler, program, folder, tmp_path, monkeypatch
):
    log = compiler()
    compile_it(program)
    local = tmp_path / "local"
    monkeypatch.setenv("TORCH_NEURONX_NEFF_LOCAL_CACHE_DIR", str(local))
    assert not compile_it(program)["compiled"]
    copies = [path for path in local.rglob("*") if path.suffix in (".neff", ".json")]
    assert len(copies) == 2
    for path in copies:
        assert path.read_bytes() == (folder / path.relative_to(local)).read_bytes()
    folder.rename(tmp_path / "away")
    assert not compile_it(program)["compiled"] and len(log()) == 1


def test_compiled_program_is_in_both_folders(
    compiler, program, folder, tmp_path, monkeypatch
):
    compiler()
    local = tmp_path / "local"
    monkeypatch.setenv("TORCH_NEURONX_NEFF_LOCAL_CACHE_DIR", str(local))
    assert compile_it(program)["compiled"]
    assert [len(list(place.rglob("*.neff"))) for place in (folder, local)] == [1, 1]


def test_local_folder_that_cannot_be_written_is_a_warning(compiler, folder):
    log = compiler()
    place = "/proc/nonexistent/cache"
    for _ in range(2):
        done = run_script(ADD, TORCH_NEURONX_NEFF_LOCAL_CACHE_DIR=place)
        assert done.stdout == "12.0\n", done.stderr
        assert "the compile cache is not written" in done.stderr
    assert len(log()) == 2  # both programs, by the first process


# Failures.


def test_failure_is_remembered_and_names_what_failed(compiler, program):
    log = compiler("fail")
    with pytest.raises(RuntimeError) as first:
        compile_it(program)
    with pytest.raises(RuntimeError) as second:
        compile_it(program)
    assert len(log()) == 1
    assert "[aten::relu] on (float32[2, 3]), called from" in str(first.value)
    assert "test_service.py" in str(first.value)
    assert "NCC_EVRF013: top-k of integers" in str(second.value)
    assert "This failure is remembered" in str(second.value)


def test_failure_expires(compiler, program, monkeypatch):
    log = compiler("fail")
    monkeypatch.setenv("TORCH_NEURONX_FAILURE_MEMORY", "0")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="EVRF013"):
            compile_it(program)
    assert len(log()) == 2
    compiler("ok")
    assert compile_it(program)["compiled"]


def test_failure_of_another_process_is_remembered(compiler, folder):
    log = compiler("fail")
    for _ in range(2):
        assert "EVRF013" in run_script(ADD).stderr
    assert len(log()) == 1
    (failure,) = cache.entries(folder, failures=True)
    assert "EVRF013" in failure.failure


def test_failure_from_the_future_does_not_count(compiler, program, folder):
    """The clock was set back since it was written."""
    log = compiler("fail")
    assert "EVRF013" in run_script(ADD).stderr
    (file,) = folder.rglob("*.failed")
    created, rest = file.read_text().split(" ", 1)
    file.write_text(f"{int(created) + 10_000} {rest}")
    compiler("ok")
    assert run_script(ADD).stdout == "12.0\n"
    assert len(log()) == 3


@pytest.mark.parametrize("place", ["/proc/nonexistent/cache", "disabled"])
def test_failure_is_remembered_without_a_cache(compiler, monkeypatch, place):
    log = compiler("fail")
    # By the process, so each case has a program of its own.
    x = torch.ones(31, len(place), device="neuron")
    program = torch_neuronx.program("aten::relu", x)
    if place == "disabled":
        monkeypatch.setenv("TORCH_NEURONX_NEFF_DISABLE_CACHE", "1")
    else:
        monkeypatch.setenv("TORCH_NEURONX_NEFF_CACHE_DIR", place)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="EVRF013"):
            compile_it(program)
    assert len(log()) == 1


def test_forgotten_failure_is_another_attempt(compiler, program, folder):
    log = compiler("fail")
    with pytest.raises(RuntimeError, match="EVRF013"):
        compile_it(program)
    _C.prune_cache(str(folder), -1, -1, 0)
    compiler("ok")
    assert compile_it(program)["compiled"] and len(log()) == 2


@pytest.mark.parametrize("then", ["kill", "memory", "disk", "garbage"])
def test_machine_s_failures_are_not_remembered(compiler, program, then):
    log = compiler(then)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            compile_it(program)
    assert len(log()) == 2
    compiler("ok")
    assert compile_it(program)["compiled"]


def test_more_time_is_another_attempt(compiler, program, monkeypatch):
    log = compiler("hang")
    monkeypatch.setenv("TORCH_NEURONX_COMPILE_TIMEOUT", "4")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="did not finish within 4 s"):
            compile_it(program)
    assert len(log()) == 1
    compiler("ok")
    with pytest.raises(RuntimeError, match="did not finish within 4 s"):
        compile_it(program)
    monkeypatch.setenv("TORCH_NEURONX_COMPILE_TIMEOUT", "60")
    assert compile_it(program)["compiled"]


def test_unknown_target_is_an_error(compiler, program):
    log = compiler()
    with pytest.raises(RuntimeError, match="trn9"):
        compile_it(program, target="trn9")
    assert log() == []


# CACHE_MISS=error.


def test_miss_is_an_error_where_nothing_may_compile(compiler, program, monkeypatch):
    log = compiler()
    monkeypatch.setenv("TORCH_NEURONX_CACHE_MISS", "error")
    with pytest.raises(RuntimeError) as error:
        compile_it(program)
    told = str(error.value)
    assert "[aten::relu] on (float32[2, 3]), called from" in told
    assert "TORCH_NEURONX_CACHE_MISS=error" in told
    assert os.environ["TORCH_NEURONX_NEFF_CACHE_DIR"] in told
    assert log() == []


def test_hit_is_a_hit_where_nothing_may_compile(compiler, program, monkeypatch):
    compiler()
    compile_it(program)
    monkeypatch.setenv("TORCH_NEURONX_CACHE_MISS", "error")
    assert not compile_it(program)["compiled"]


def test_malformed_setting_is_named(compiler, program, monkeypatch):
    compiler()
    monkeypatch.setenv("TORCH_NEURONX_CACHE_MISS", "never")
    with pytest.raises(ValueError, match="TORCH_NEURONX_CACHE_MISS=never"):
        compile_it(program)


# An operator whose program does not compile.


def test_operator_raises_what_failed(compiler):
    compiler("fail")
    done = run_script(ADD)
    assert done.returncode == 1
    told = done.stderr.splitlines()
    assert any(
        line.startswith(
            "RuntimeError: [aten::add.Tensor] on (float32[2, 3], float32[2, 3]), "
            "called from <string>:4: the compiler failed with exit code 1"
        )
        for line in told
    ), done.stderr


def test_interrupt_ends_an_operator_s_compilation(compiler):
    log = compiler("hang")
    process = subprocess.Popen(
        [sys.executable, "-c", "import torch, torch_neuronx\n" + ADD],
        env=os.environ | {"TORCH_NEURONX_SIM_COMPILER": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    start = time.monotonic()
    while not log():
        assert process.poll() is None and time.monotonic() - start < 120
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode != 0 and "KeyboardInterrupt" in told
    pattern = os.environ["TORCH_NEURONX_CC"]
    assert not subprocess.run(["pgrep", "-f", pattern], capture_output=True).stdout


# Damage.


def damage_truncate(neff, sidecar):
    neff.write_bytes(neff.read_bytes()[:-3])


def damage_flip(neff, sidecar):
    data = bytearray(neff.read_bytes())
    data[-1] ^= 1
    neff.write_bytes(data)


def damage_empty(neff, sidecar):
    neff.write_bytes(b"")


def damage_remove(neff, sidecar):
    neff.unlink()


def damage_sidecar(neff, sidecar):
    sidecar.write_text('{"sha256": "')


def damage_empty_sidecar(neff, sidecar):
    sidecar.write_text("")


@pytest.mark.parametrize(
    "damage",
    [
        damage_truncate,
        damage_flip,
        damage_empty,
        damage_remove,
        damage_sidecar,
        damage_empty_sidecar,
    ],
)
def test_damaged_entry_is_compiled_again_and_repaired(
    compiler, program, folder, damage, capfd
):
    log = compiler()
    good = program.neff("aten::relu")
    (neff,), (sidecar,) = folder.rglob("*.neff"), folder.rglob("*.json")
    damage(neff, sidecar)
    repairs = torch_neuronx.metrics()["cache_repairs"]
    assert program.neff("aten::relu") == good
    assert len(log()) == 2
    assert torch_neuronx.metrics()["cache_repairs"] == repairs + 1
    assert "is damaged and is not used" in capfd.readouterr().err
    assert cache.verify(folder) == (1, [])
    assert program.neff("aten::relu") == good and len(log()) == 2


def test_damage_is_an_error_where_nothing_may_compile(
    compiler, program, folder, monkeypatch
):
    compiler()
    program.neff("aten::relu")
    damage_flip(*folder.rglob("*.neff"), None)
    monkeypatch.setenv("TORCH_NEURONX_CACHE_MISS", "error")
    with pytest.raises(RuntimeError, match="CACHE_MISS=error"):
        program.neff("aten::relu")


def test_verify_names_and_removes_damage(compiler, program, folder):
    compiler()
    compile_it(program)
    compile_it(program, target="trn3")
    damaged = cache.entries(folder)[0]
    damage_truncate(damaged.path(".neff"), None)
    sound, ((name, wrong),) = cache.verify(folder, repair=True)
    assert sound == 1 and name == f"{damaged.key}-{damaged.version}"
    assert "have changed" in wrong
    assert cache.verify(folder) == (1, [])


def test_files_of_other_versions_are_left_alone(compiler, program, folder):
    """What this version does not know is no entry, no damage and not removed; what a
    later one adds to a sidecar does not matter."""
    compiler()
    compile_it(program)
    (sidecar,) = folder.rglob("*.json")
    details = json.loads(sidecar.read_text()) | {"later": [1], "name": None}
    sidecar.write_text(json.dumps(details))
    others = [
        folder / ("c" * 64 + ".neff"),
        folder / "aa" / "neff",
        folder / "aa" / ("a" * 64 + "-1.0.later"),
        folder / "v2" / "index.db",
    ]
    for other in others:
        other.parent.mkdir(exist_ok=True)
        other.write_bytes(b"of another version")
    listed = folder / "aa" / ("a" * 64 + "-1.0.json")
    listed.write_text("[1, 2]")
    assert len(cache.entries(folder)) == 1
    listed.unlink()
    assert cache.verify(folder) == (1, [])
    _C.prune_cache(str(folder), -1, -1, -1)
    assert all(other.exists() for other in others)
    assert not compile_it(program)["compiled"]


def test_clock_that_goes_back_harms_no_entry(compiler, program, folder):
    log = compiler()
    compile_it(program)
    (sidecar,) = folder.rglob("*.json")
    later = time.time() + 1e6
    os.utime(sidecar, (later, later))
    assert not compile_it(program)["compiled"] and len(log()) == 1
    assert sidecar.stat().st_mtime < time.time() + 60
    os.utime(sidecar, (later, later))
    assert _C.prune_cache(str(folder), -1, 60, -1)["programs"] == 0


# Places that cannot be written.


@pytest.mark.skipif(os.getuid() != 0, reason="needs to mount a file system")
def test_full_disk_is_a_warning(compiler, folder):
    log = compiler()
    folder.mkdir()
    script = f"""
    mount -t tmpfs -o size=8k none {folder} || exit 77
    dd if=/dev/zero of={folder}/filler bs=4k count=1 2>/dev/null
    exec {sys.executable} -c '
    import torch, torch_neuronx
    x = torch.ones(2, 3).to("neuron")
    print((x + x).sum().item())'
    """
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", textwrap.dedent(script)],
        env=os.environ | {"TORCH_NEURONX_SIM_COMPILER": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    if done.returncode == 77:
        pytest.skip("mount is not permitted")
    assert done.stdout == "12.0\n", done.stderr
    assert "No space left on device" in done.stderr
    assert len(log()) == 2


def test_limit_on_file_sizes_is_a_warning(compiler, folder):
    """As a full disk, for the process's own files."""
    log = compiler()
    done = run_script(
        """
        import resource
        x = torch.ones(2, 3).to("neuron")
        resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))
        print((x + x).sum().item())
        """
    )
    # The compiler inherits the limit: it fails, and the failure is no verdict.
    assert done.returncode == 1
    assert "File too large" in done.stderr
    assert not list(folder.rglob("*.tmp"))
    assert not list(folder.rglob("*.failed"))
    assert run_script(ADD).stdout == "12.0\n"
    assert len(log()) >= 2


@pytest.mark.parametrize("place", ["/proc/nonexistent/cache", "/dev/null/cache"])
def test_cache_that_cannot_be_written_is_a_warning(compiler, place):
    log = compiler()
    done = run_script(ADD, TORCH_NEURONX_NEFF_CACHE_DIR=place)
    assert done.stdout == "12.0\n", done.stderr
    assert done.stderr.count("the compile cache is not written") >= 1
    assert len(log()) == 2


def test_work_directory_that_cannot_be_made_is_an_error(compiler, program, monkeypatch):
    compiler()
    monkeypatch.setenv("TMPDIR", "/proc/nonexistent")
    done = run_script(ADD)
    assert done.returncode == 1 and "set TMPDIR" in done.stderr


# Several processes.


def test_processes_compile_a_program_once(compiler):
    log = compiler(STAND_IN_SECONDS="1")
    outputs = []
    threads = [
        threading.Thread(target=lambda: outputs.append(run_script(ADD).stdout))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    assert outputs == ["12.0\n"] * 4
    assert len(log()) == 2  # the addition and the sum


def test_threads_compile_a_program_once(compiler, program):
    log = compiler(STAND_IN_SECONDS="1")
    made = []
    threads = [
        threading.Thread(target=lambda: made.append(compile_it(program)["compiled"]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sorted(made) == [False, False, False, True] and len(log()) == 1


def test_jobs_bound_the_compilers(compiler, monkeypatch, tmp_path):
    compiler(STAND_IN_SECONDS="0.5")
    monkeypatch.setenv("TORCH_NEURONX_COMPILE_JOBS", "1")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    start = time.monotonic()
    programs = [
        torch_neuronx.program("aten::relu", torch.ones(n, device="neuron"))
        for n in (3, 4, 5)
    ]
    threads = [threading.Thread(target=compile_it, args=(p,)) for p in programs]
    for thread in threads:
        thread.start()
    running = 0
    while any(thread.is_alive() for thread in threads):
        running = max(running, len(list(tmp_path.glob("torch_neuronx.*/program.pb"))))
        assert time.monotonic() - start < 120
        time.sleep(0.01)
    assert running == 1


@pytest.mark.parametrize("delay", [0.0, 0.3, 0.8, 1.4])
def test_killed_process_leaves_a_usable_cache(compiler, folder, delay, tmp_path):
    """SIGKILL while it compiles: the lock is free at once, the compiler goes with
    its parent, and the next process gets right results."""
    log = compiler(STAND_IN_SECONDS="1.2")
    killed = subprocess.Popen(
        [sys.executable, "-c", "import torch, torch_neuronx\n" + ADD],
        env=os.environ | {"TORCH_NEURONX_SIM_COMPILER": "1"},
        stdout=subprocess.DEVNULL,
    )
    start = time.monotonic()
    while not log() and killed.poll() is None:
        assert time.monotonic() - start < 120
        time.sleep(0.02)
    time.sleep(delay)
    killed.send_signal(signal.SIGKILL)
    killed.wait(60)
    start = time.monotonic()
    done = run_script(ADD, STAND_IN_SECONDS="0")
    assert done.stdout == "12.0\n", done.stderr
    assert "damaged" not in done.stderr
    assert cache.verify(folder)[1] == []
    pattern = os.environ["TORCH_NEURONX_CC"]
    assert not subprocess.run(["pgrep", "-f", pattern], capture_output=True).stdout


def test_lock_of_a_forked_child_is_free(compiler, program, tmp_path):
    """A child forked while its parent compiles does not keep the lock when the
    parent is killed."""
    compiler(STAND_IN_SECONDS="600")
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent(
                """
                import os, threading, time, torch, torch_neuronx
                x = torch.ones(2, 3).to("neuron")
                threading.Thread(target=lambda: x + x, daemon=True).start()
                log = os.environ["STAND_IN_LOG"]
                while not os.path.exists(log):
                    time.sleep(0.05)
                child = os.fork()
                if child == 0:
                    os.close(1)
                    time.sleep(300)
                    os._exit(0)
                print(child, flush=True)
                time.sleep(300)
                """
            ),
        ],
        env=os.environ | {"TORCH_NEURONX_SIM_COMPILER": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait(60)
    try:
        assert run_script(ADD, STAND_IN_SECONDS="0").stdout == "12.0\n"
    finally:
        os.kill(child, signal.SIGKILL)


def test_waiting_for_another_process_has_an_end(compiler, program, folder, monkeypatch):
    """Who holds the lock for too long is overtaken."""
    log = compiler()
    key = compile_it(program)["key"]
    shutil.rmtree(folder)
    folder.mkdir()
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import fcntl, os, struct, sys\n"
            f"file = os.open({str(folder / 'locks')!r}, os.O_RDWR | os.O_CREAT)\n"
            f"at = int({key[:15]!r}, 16)\n"
            "lock = struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, at, 1, 0)\n"
            "fcntl.fcntl(file, 37, lock)\n"  # F_OFD_SETLK
            "print('held', flush=True)\n"
            "sys.stdin.read()\n",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout.readline() == b"held\n"
    monkeypatch.setenv("TORCH_NEURONX_NEFF_CACHE_LOCK_TIMEOUT", "1")
    start = time.monotonic()
    assert compile_it(program)["compiled"]
    assert time.monotonic() - start >= 1
    holder.communicate(timeout=60)
    assert len(log()) == 2


# Size.


def test_least_recently_used_go_first(compiler, folder, monkeypatch):
    compiler()
    keys = []
    for n in range(4):
        x = torch.ones(n + 1, device="neuron")
        keys.append(compile_it(torch_neuronx.program("aten::relu", x))["key"])
    for age, key in zip((40, 10, 30, 20), keys, strict=True):
        (sidecar,) = folder.rglob(f"{key}*.json")
        then = time.time() - age * 3600
        os.utime(sidecar, (then, then))
    size = sum(file.stat().st_size for file in folder.rglob("*/*.*"))
    pruned = _C.prune_cache(str(folder), size // 2, -1, 0)
    assert pruned["programs"] == pruned["kept_programs"] == 2
    assert {entry.key for entry in cache.entries(folder)} == {keys[1], keys[3]}


def test_hit_counts_as_use(compiler, program, folder):
    compiler()
    compile_it(program)
    (sidecar,) = folder.rglob("*.json")
    os.utime(sidecar, (1, 1))
    compile_it(program)
    assert time.time() - sidecar.stat().st_mtime < 60


def test_limit_is_kept_while_compiling(compiler, folder, monkeypatch):
    compiler()
    monkeypatch.setenv("TORCH_NEURONX_NEFF_CACHE_MAX_SIZE_MB", "1")
    filler = folder / "aa" / ("a" * 64 + "-1.0")
    filler.parent.mkdir(parents=True)
    Path(f"{filler}.neff").write_bytes(bytes(2 << 20))
    Path(f"{filler}.json").write_text('{"sha256": ""}')
    os.utime(f"{filler}.json", (1, 1))
    done = run_script(ADD)
    assert done.stdout == "12.0\n"
    assert not Path(f"{filler}.neff").exists()
    assert len(cache.entries(folder)) == 2


def test_abandoned_files_are_removed(compiler, program, folder, tmp_path):
    compiler()
    compile_it(program)
    (neff,) = folder.rglob("*.neff")
    left = neff.with_name(neff.name + ".abcdef.tmp")
    left.write_bytes(b"half")
    orphan = neff.with_name("b" * 64 + "-1.0.neff")
    orphan.write_bytes(b"no sidecar")
    _C.prune_cache(str(folder), -1, -1, -1)
    assert left.exists() and orphan.exists()  # perhaps being written
    for file in (left, orphan):
        os.utime(file, (1, 1))
    _C.prune_cache(str(folder), -1, -1, -1)
    assert not left.exists() and not orphan.exists() and neff.exists()


def test_work_directories_of_killed_processes_are_removed(compiler, tmp_path):
    compiler()
    left = tmp_path / "torch_neuronx.killed"
    left.mkdir()
    (left / "lock").touch()
    os.utime(left, (1, 1))
    assert run_script(ADD, TMPDIR=str(tmp_path)).stdout == "12.0\n"
    assert not left.exists()


# Programs in memory.


def test_programs_beyond_the_limit_are_unloaded_and_run_again():
    done = run_script(
        """
        x = torch.arange(6.0, device="neuron")
        for _ in range(3):
            for n in range(1, 7):
                assert torch.equal((x[:n] + 1).cpu(), torch.arange(6.0)[:n] + 1)
        print(torch_neuronx.metrics()["program_unloads"] >= 12)
        """,
        NEURON_COMPILATION_CACHE_MAX_ENTRIES="2",
        TORCH_NEURONX_SIM_COMPILER="0",
    )
    assert done.stdout == "True\n", done.stderr


def test_programs_are_unloaded_while_streams_run():
    done = run_script(
        """
        import threading
        wrong = []
        def work(k):
            with torch.neuron.stream(torch.neuron.Stream()):
                x = torch.arange(64.0, device="neuron") + k
                for i in range(300):
                    n = 1 + (i * 7 + k) % 16
                    expected = (torch.arange(64.0)[:n] + k + i).sum()
                    if (x[:n] + i).sum().item() != expected:
                        wrong.append((k, i))
        threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        print(wrong, torch_neuronx.metrics()["program_unloads"] > 50)
        """,
        NEURON_COMPILATION_CACHE_MAX_ENTRIES="3",
        TORCH_NEURONX_SIM_COMPILER="0",
    )
    assert done.stdout == "[] True\n", done.stderr


def test_full_device_makes_room_by_unloading():
    done = run_script(
        """
        x = torch.arange(6.0).to("neuron")
        print([(x[:n] + 1).sum().item() for n in range(1, 4)])
        print(torch_neuronx.metrics()["program_unloads"])
        """,
        TORCH_NEURONX_SIM_FAULT="load:5:4",  # NRT_RESOURCE
        TORCH_NEURONX_SIM_COMPILER="0",
    )
    assert done.stdout == "[1.0, 3.0, 6.0]\n4\n", done.stderr


# Progress and logs.


def run_on_terminal(script, **environment):
    import pty

    main, side = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", "import torch, torch_neuronx\n" + script],
        env=os.environ | {"TORCH_NEURONX_SIM_COMPILER": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=side,
        text=True,
    )
    os.close(side)
    shown = b""
    while True:
        try:
            shown += os.read(main, 4096)
        except OSError:
            break
        if not shown:
            break
    process.wait(120)
    os.close(main)
    return shown.decode()


def test_progress_is_shown_on_a_terminal(compiler):
    compiler(STAND_IN_SECONDS="2")
    shown = run_on_terminal(ADD)
    assert "[neuron] compiling aten::add.Tensor" in shown
    assert "1 done, about" in shown
    assert shown.endswith("\r\x1b[K")  # nothing is left of it


def test_progress_is_quiet_otherwise(compiler):
    compiler(STAND_IN_SECONDS="2")
    assert run_script(ADD).stderr == ""
    assert "compiling" not in run_on_terminal(ADD, TORCH_NEURONX_PROGRESS="0")


def test_log_is_a_json_object_per_program(compiler, tmp_path):
    compiler()
    file = tmp_path / "log"
    for _ in range(2):
        run_script(ADD, TORCH_NEURONX_COMPILE_LOG=str(file))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["source"] for line in lines] == ["compiled"] * 2 + ["disk"] * 2
    assert lines[0]["name"] == "aten::add.Tensor" and len(lines[0]["key"]) == 64
    assert lines[0]["call_site"] == "<string>:4"


def test_failures_are_in_the_log(compiler, tmp_path):
    compiler("fail")
    file = tmp_path / "log"
    run_script(ADD, TORCH_NEURONX_COMPILE_LOG=str(file))
    line = json.loads(file.read_text().splitlines()[0])
    assert line["source"] == "failed" and "EVRF013" in line["error"]
