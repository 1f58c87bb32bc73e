# SPDX-License-Identifier: Apache-2.0
"""Makes safetensors take "neuron" as a device. Its own list of devices is fixed
in Rust (safetensors#779), so files are opened on the CPU and tensors moved.
``TORCH_NEURONX_SAFETENSORS_HOOK=0`` turns this off."""

import os
from types import ModuleType, TracebackType
from typing import Any

import torch

from ._import_hooks import after_import


def install() -> None:
    if os.environ.get("TORCH_NEURONX_SAFETENSORS_HOOK", "1") != "0":
        after_import("safetensors", _patch)


def _patch(safetensors: ModuleType) -> None:
    # load_file and load_model open files with safe_open.
    safetensors.safe_open = _wrap(safetensors.safe_open)
    after_import("safetensors.torch", _patch_torch)


def _patch_torch(module: ModuleType) -> None:
    import safetensors

    module.safe_open = safetensors.safe_open


def _is_neuron(device: Any) -> bool:
    if isinstance(device, int):  # PyTorch's accelerator of that index
        return not isinstance(device, bool)
    return str(device).split(":")[0] == "neuron"


def _wrap(original: Any) -> type:
    class safe_open:
        """Opens a safetensors file; see safetensors' own ``safe_open``."""

        def __new__(
            cls, filename: Any, framework: str, device: Any = "cpu", **options: Any
        ) -> Any:
            if not _is_neuron(device) or framework not in ("pt", "torch", "pytorch"):
                return original(filename, framework, device=device, **options)
            self = super().__new__(cls)
            self._file = original(filename, framework, device="cpu", **options)
            self._device = torch.device(device)
            return self

        def __enter__(self) -> "safe_open":
            self._file.__enter__()
            return self

        def __exit__(
            self,
            kind: type[BaseException] | None,
            error: BaseException | None,
            traceback: TracebackType | None,
        ) -> None:
            self._file.__exit__(kind, error, traceback)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

        def get_tensor(self, name: str) -> torch.Tensor:
            return self._file.get_tensor(name).to(self._device)

        def get_tensors(self) -> dict[str, torch.Tensor]:
            tensors = self._file.get_tensors()
            return {name: t.to(self._device) for name, t in tensors.items()}

        def get_slice(self, name: str) -> "_Slice":
            return _Slice(self._file.get_slice(name), self._device)

    return safe_open


class _Slice:
    def __init__(self, slice_: Any, device: torch.device) -> None:
        self._slice = slice_
        self._device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(self._slice, name)

    def __getitem__(self, index: Any) -> torch.Tensor:
        return self._slice[index].to(self._device)
