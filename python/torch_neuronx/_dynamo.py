# SPDX-License-Identifier: Apache-2.0
"""What TorchDynamo knows of the device, and Inductor's requests for it."""

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from ._import_hooks import after_import

# Interfaces are looked up by "neuron" and "neuron:<index>"; a trn2.48xlarge shows
# 64 logical cores, or 128 with NEURON_LOGICAL_NC_CONFIG=1.
_MAX_DEVICES = 128


def install() -> None:
    after_import("torch._dynamo.device_interface", _register_interface)
    after_import("torch._inductor.compile_fx", _redirect_compile_fx)
    _redirect_wrapper()


def _register_interface(dynamo: ModuleType) -> None:
    from torch_neuronx import neuron

    class NeuronInterface(dynamo.DeviceInterface):  # type: ignore[name-defined]
        device = neuron.device
        Event = neuron.Event
        Stream = neuron.Stream

        class Worker:
            set_device = staticmethod(neuron.set_device)
            current_device = staticmethod(neuron.current_device)
            get_device_properties = staticmethod(neuron.get_device_properties)

        current_device = staticmethod(neuron.current_device)
        set_device = staticmethod(neuron.set_device)
        device_count = staticmethod(neuron.device_count)
        is_available = staticmethod(neuron.is_available)
        stream = staticmethod(neuron.stream)
        current_stream = staticmethod(neuron.current_stream)
        set_stream = staticmethod(neuron.set_stream)
        synchronize = staticmethod(neuron.synchronize)
        get_device_properties = staticmethod(neuron.get_device_properties)
        memory_allocated = staticmethod(neuron.memory_allocated)

        @staticmethod
        def exchange_device(device: int) -> int:
            previous = neuron.current_device()
            if device >= 0:
                neuron.set_device(device)
            return previous

        maybe_exchange_device = exchange_device

        @staticmethod
        def _set_stream_by_id(stream: int, index: int, type_: int) -> None:
            neuron.set_stream(
                torch.Stream(stream_id=stream, device_index=index, device_type=type_)
            )

        @staticmethod
        def get_raw_stream(index: int) -> int:
            return neuron.current_stream(index).stream_id

        @staticmethod
        def get_compute_capability(device: Any = None) -> str:
            return neuron.get_device_properties(device).arch

        @staticmethod
        def is_bf16_supported(including_emulation: bool = False) -> bool:
            return True

    for name in ("neuron", *(f"neuron:{i}" for i in range(_MAX_DEVICES))):
        dynamo.register_interface_for_device(name, NeuronInterface)


def _holds_neuron(inputs: Any) -> bool:
    return any(
        isinstance(x, torch.Tensor) and x.device.type == "neuron" for x in inputs
    )


def _compile(graph: Any, inputs: Any) -> Callable[..., Any]:
    """Inductor has no code generator for the device; ``generate`` with a static
    cache and ``torch.compile`` without a backend ask for it all the same."""
    from torch_neuronx import graphs, neuron_dynamo_backend

    graphs.warn_once(
        'tensors on neuron were to be compiled by "inductor"; the backend "neuron" '
        "compiles them instead"
    )
    return neuron_dynamo_backend.neuron_backend(graph, inputs)


def _redirect_wrapper() -> None:
    wrapper = torch._TorchCompileInductorWrapper
    original = wrapper.__call__

    @functools.wraps(original)
    def call(self: Any, model_: Any, inputs_: Any, **kwargs: Any) -> Any:
        if _holds_neuron(inputs_):
            return _compile(model_, inputs_)
        return original(self, model_, inputs_, **kwargs)

    wrapper.__call__ = call  # type: ignore[method-assign]


def _redirect_compile_fx(module: ModuleType) -> None:
    original = module.compile_fx

    @functools.wraps(original)
    def compile_fx(model_: Any, example_inputs_: Any, *args: Any, **kwargs: Any) -> Any:
        if _holds_neuron(example_inputs_):
            return _compile(model_, example_inputs_)
        return original(model_, example_inputs_, *args, **kwargs)

    module.compile_fx = compile_fx
