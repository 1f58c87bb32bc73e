# SPDX-License-Identifier: Apache-2.0
"""The ordered start-up: what ``import torch`` runs. It registers the device;
it starts no runtime and takes no core."""

import sys
import threading
import traceback
from types import ModuleType

import torch

_lock = threading.RLock()
_started = False
_failure: BaseException | None = None


def is_importing(module: ModuleType) -> bool:
    """Whether ``module`` is still being imported, as torch is in autoload."""
    return getattr(module.__spec__, "_initializing", False)


def autoload() -> None:
    """Starts the backend; a failure is told on stderr and leaves torch usable."""
    try:
        start()
    except Exception:
        traceback.print_exc()
        print(
            "torch_neuronx could not be loaded (see above); the device 'neuron' "
            "is not available. TORCH_DEVICE_BACKEND_AUTOLOAD=0 skips the attempt.",
            file=sys.stderr,
        )


def start() -> None:
    """Registers the device 'neuron', once.

    Raises ImportError, with its cause, when it could not be registered.
    """
    global _started, _failure
    with _lock:
        if _started:
            return
        if _failure is not None:
            raise ImportError("torch_neuronx is not usable") from _failure
        try:
            _register()
        except BaseException as failure:
            _failure = failure
            raise
        _started = True


def _register() -> None:
    _check_conflicts()

    import torch_neuronx._C  # noqa: F401  loads the kernels

    torch.utils.rename_privateuse1_backend("neuron")

    from torch_neuronx import neuron

    torch._register_device_module("neuron", neuron)
    for name in neuron.SUBMODULES:  # so that torch.neuron.memory is not a copy
        sys.modules[f"torch.neuron.{name}"] = getattr(neuron, name)

    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    torch.nn.parameter.UninitializedTensorMixin._allowed_methods.append(
        torch.Tensor.neuron
    )
    torch.set_autocast_dtype("neuron", torch.bfloat16)

    from torch_neuronx import (
        _callbacks,
        _compat,
        _data_parallel,
        _dynamo,
        _safetensors,
    )

    _callbacks.install()
    _compat.install()
    _data_parallel.install()
    _dynamo.install()
    _safetensors.install()


def _check_conflicts() -> None:
    name = torch._C._get_privateuse1_backend_name()
    if name not in ("privateuseone", "neuron"):
        raise ImportError(
            f"another PyTorch extension has registered the device {name!r}; one "
            "process has room for one such device. Uninstall one of the two"
        )
    accelerator = torch._C._get_accelerator()
    if accelerator.type not in ("cpu", "privateuseone", "neuron"):
        raise ImportError(
            f"this PyTorch already drives {accelerator.type!r} and torch.accelerator "
            "serves one device type. Use a CPU build of torch for 'neuron', or hide "
            f"the {accelerator.type} devices from this process"
        )
