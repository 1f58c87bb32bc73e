# SPDX-License-Identifier: Apache-2.0
"""``torch-neuronx info`` and ``torch-neuronx doctor``: what this machine has and
what is wrong with it."""

import glob
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

from rich.table import Table

from torch_neuronx_cli import console, main

PACKAGES = ("torch", "torch-neuronx", "neuronx-cc", "nki", "jaxlib")
VARIABLES = ("TORCH_NEURONX_", "NEURON_")


def info() -> int:
    """Prints devices, versions and settings; starts no runtime."""
    import torch

    import torch_neuronx  # noqa: F401

    versions = Table("Package", "Version", title="Versions")
    versions.add_row("python", platform.python_version())
    for package in PACKAGES:
        versions.add_row(package, package_version(package) or "not installed")
    console.print(versions)

    devices = Table("Device", "Name", "Cores", "Memory", title="Devices")
    for i in range(torch.neuron.device_count()):
        properties = torch.neuron.get_device_properties(i)
        devices.add_row(
            f"neuron:{i}",
            torch.neuron.get_device_name(i),
            str(properties.multi_processor_count),
            f"{properties.total_memory / 2**30:.0f} GiB",
        )
    console.print(devices)

    settings = Table("Variable", "Value", title="Environment")
    for name, value in sorted(os.environ.items()):
        if name.startswith(VARIABLES):
            settings.add_row(name, value)
    if settings.row_count:
        console.print(settings)
    return 0


class Note(Exception):
    """What a check found is no failure, but good to know."""


def doctor() -> int:
    """Runs every check and prints a line for each; 1 if one failed."""
    failed = False
    for title, check in CHECKS.items():
        try:
            mark, result = "[green]ok[/]", check()
        except Note as note:
            mark, result = "[yellow]note[/]", str(note)
        except Exception as error:
            failed = True
            mark, result = "[red]failed[/]", f"{type(error).__name__}: {error}"
        console.print(f"{mark} [bold]{title}[/]: ", end="")
        console.print(result, markup=False)
    return int(failed)


def _check_versions() -> str:
    import torch

    release = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if not (2, 13) <= release < (2, 15):
        raise RuntimeError(f"torch {torch.__version__}; 2.13 or 2.14 is needed")
    return f"Python {platform.python_version()}, torch {torch.__version__}"


def _check_conflicts() -> str:
    installed = package_version("torch-xla")
    if installed:
        raise RuntimeError(
            f"torch-xla {installed} is installed; Hugging Face libraries then take "
            "its road and not device 'neuron': pip uninstall torch-xla"
        )
    return "torch-xla is not installed"


def _check_libraries() -> str:
    import torch_neuronx  # noqa: F401
    from torch_neuronx import _C

    return f"loaded {_C.__file__}"


def _check_autoload() -> str:
    from importlib.metadata import entry_points

    if not any(e.name == "torch_neuronx" for e in entry_points(group="torch.backends")):
        raise RuntimeError("'import torch' does not load this package: reinstall it")
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") != "1":
        raise Note("TORCH_DEVICE_BACKEND_AUTOLOAD is off")
    return "'import torch' brings device 'neuron'"


def _check_hardware() -> str:
    nodes = glob.glob("/dev/neuron*")
    if not nodes:
        raise Note("no /dev/neuron*: the simulator stands in")
    closed = [node for node in nodes if not os.access(node, os.R_OK | os.W_OK)]
    if closed:
        raise PermissionError(f"no access to {', '.join(closed)}")
    return f"{len(nodes)} Neuron devices"


def _check_devices() -> str:
    import torch

    count = torch.neuron.device_count()
    if count == 0:
        torch.neuron.init()  # tells what is wrong
        raise RuntimeError("no logical NeuronCore is visible")
    properties = torch.neuron.get_device_properties(0)
    return f"{count} x {properties.name}, {properties.total_memory / 2**30:.0f} GiB"


def _check_runtime() -> str:
    import torch

    left = torch.arange(6.0).reshape(2, 3)
    right = torch.ones(3, 2)
    result = (left.to("neuron") @ right.to("neuron")).cpu()
    if not torch.equal(result, left @ right):
        raise RuntimeError(f"a product of matrices gave {result.tolist()}")
    return "a product of matrices is right"


def _check_compiler() -> str:
    name = os.environ.get("TORCH_NEURONX_CC") or "neuronx-cc"
    path = shutil.which(name)
    if path:
        return path
    if glob.glob("/dev/neuron*"):
        raise FileNotFoundError(f"{name} is needed on hardware: pip install neuronx-cc")
    raise Note(f"no {name}, and the simulator needs none")


def _check_cache() -> str:
    from torch_neuronx_cli.cache import cache_directory

    directory = cache_directory()
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=directory):
        free = shutil.disk_usage(directory).free / 2**30
    if free < 1:
        raise Note(f"{directory} has {free:.1f} GiB left")
    return f"{directory}, {free:.0f} GiB free"


CHECKS: dict[str, Callable[[], str]] = {
    "versions": _check_versions,
    "conflicts": _check_conflicts,
    "libraries": _check_libraries,
    "autoload": _check_autoload,
    "hardware": _check_hardware,
    "devices": _check_devices,
    "runtime": _check_runtime,
    "compiler": _check_compiler,
    "compile cache": _check_cache,
}


def package_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main())
