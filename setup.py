# SPDX-License-Identifier: Apache-2.0
"""Builds the three libraries with CMake in build/ and puts them into the package:
into python/torch_neuronx for an editable install, else into the wheel."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent.resolve()
BUILD = ROOT / "build"
FILES = (
    "libnrt_sim.so",
    "libtorch_neuronx.so",
    "_C*.so",
    "include/torch_neuronx.h",
    "share/cmake/torch_neuronx/torch_neuronxConfig.cmake",
)


def tool(name: str) -> str:
    """`name` from the environment of this Python, or else from PATH: a build in
    isolation has its own."""
    path = shutil.which(name, path=Path(sys.executable).parent) or shutil.which(name)
    if path is None:
        raise SystemExit(f"{name} is needed to build torch-neuronx: pip install {name}")
    return path


class FreshPackage(build_py):
    """Drops what an earlier build left for the wheel: modules that are gone."""

    def run(self) -> None:
        if not self.editable_mode:
            package = Path(self.build_lib) / "torch_neuronx"
            shutil.rmtree(package, ignore_errors=True)
        super().run()


class CMakeBuild(build_ext):
    def run(self) -> None:
        import pybind11

        prefix = ROOT / "python" if self.inplace else Path(self.build_lib).resolve()
        configure = [
            tool("cmake"),
            f"-S{ROOT}",
            f"-B{BUILD}",
            "-GNinja",
            f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}",
            f"-DPython_EXECUTABLE={sys.executable}",
            f"-Dpybind11_DIR={pybind11.get_cmake_dir()}",
            *os.environ.get("CMAKE_ARGS", "").split(),
        ]
        jobs = os.environ.get("MAX_JOBS") or str(len(os.sched_getaffinity(0)))
        subprocess.check_call(configure)
        subprocess.check_call([tool("cmake"), "--build", BUILD, "-j", jobs])
        subprocess.check_call([tool("cmake"), "--install", BUILD, "--prefix", prefix])

    def get_outputs(self) -> list[str]:
        package = Path(self.build_lib) / "torch_neuronx"
        return [str(path) for name in FILES for path in package.glob(name)]

    def get_output_mapping(self) -> dict[str, str]:
        return {}


setup(
    ext_modules=[Extension("torch_neuronx._C", sources=[])],
    cmdclass={"build_ext": CMakeBuild, "build_py": FreshPackage},
)
