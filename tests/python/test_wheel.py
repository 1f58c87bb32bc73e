# SPDX-License-Identifier: Apache-2.0
"""`pip wheel .` makes a wheel that works by itself. It builds in the tree's build
folder, where all is compiled already."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "python"
TIMEOUT = 280

PROGRAM = """
import torch, torch_neuronx
print(torch_neuronx.__file__)
print((torch.ones(2, device="neuron") + 1).tolist())
x = torch.ones(2, device="neuron")
print(torch_neuronx.program(torch.ops.aten.relu.default, x))
"""


def pip(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    assert result.returncode == 0, result.stdout + result.stderr


def build_wheel(folder: Path) -> Path:
    if not (ROOT / "build" / "CMakeCache.txt").exists():
        pytest.skip("the tree has not been built; a cold build takes minutes")
    pip("wheel", ROOT, "--no-build-isolation", "--no-deps", "-w", folder)
    (path,) = folder.glob("torch_neuronx-*.whl")
    return path


def test_wheel_has_what_it_needs_and_runs(tmp_path):
    """One test: two builds at a time would share a folder."""
    wheel = build_wheel(tmp_path)
    check_contents(wheel)
    check_installed(wheel, tmp_path)


def check_contents(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (entry_points,) = (n for n in names if n.endswith("entry_points.txt"))
        text = archive.read(entry_points).decode()
    libraries = {n.split(".")[0] for n in names if n.endswith(".so")}
    assert libraries == {
        f"torch_neuronx/{name}" for name in ("_C", "libnrt_sim", "libtorch_neuronx")
    }
    sources = {str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.py")}
    assert {n for n in names if n.endswith(".py")} == sources
    for group in ("torch.backends", "torch_dynamo_backends", "console_scripts"):
        assert f"[{group}]" in text


def check_installed(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    pip("install", "--no-deps", "--no-index", "--target", target, wheel)
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        env={"PYTHONPATH": str(target), "PATH": "/usr/bin:/bin"},
        cwd=tmp_path,
    )
    assert result.returncode == 0, result.stderr
    file, numbers, *program = result.stdout.splitlines()
    assert file.startswith(str(target))
    assert numbers == "[2.0, 2.0]" and program
