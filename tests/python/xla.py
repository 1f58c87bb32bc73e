# SPDX-License-Identifier: Apache-2.0
"""StableHLO text run by XLA's CPU compiler: the truth that the hardware's programs
are compared with."""

import jax
import numpy as np
import torch
from jaxlib import xla_client


def run(text: str, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """The results of the module's main function for the CPU tensors ``inputs``."""
    client = jax.local_devices(backend="cpu")[0].client
    devices = xla_client.DeviceList(tuple(client.local_devices()[:1]))
    options = xla_client.CompileOptions()
    # Most of the time is LLVM's, for code that runs once.
    debug = options.executable_build_options.debug_options
    debug.xla_backend_optimization_level = 0
    debug.xla_llvm_disable_expensive_passes = True
    executable = client.compile_and_load(text, devices, options)
    arguments = [
        jax.device_put(_to_numpy(x), client.local_devices()[0]) for x in inputs
    ]
    results = executable.execute_sharded(arguments)
    arrays = results.disassemble_into_single_device_arrays()
    return [_to_torch(np.asarray(array[0])) for array in arrays]


def _to_numpy(tensor: torch.Tensor) -> np.ndarray:
    import ml_dtypes

    tensor = tensor.contiguous()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    if tensor.dtype == torch.float8_e4m3fn:
        return tensor.view(torch.int8).numpy().view(ml_dtypes.float8_e4m3fn)
    return tensor.numpy()


def _to_torch(array: np.ndarray) -> torch.Tensor:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())
