# SPDX-License-Identifier: Apache-2.0
"""Random number generators of the devices. A state is 16 bytes: the Philox seed
and the offset, both 64-bit and little-endian. Seeds given before the runtime has
started are kept until then."""

from collections.abc import Iterable

import torch

from torch_neuronx import _C

from . import devices
from ._utils import _get_device_index


def _generator(index: int) -> torch.Generator:
    return _C.default_generator(index)


def _get_generator(device: torch.device) -> torch.Generator:
    """The default generator of ``device``; AOTAutograd's graph-safe state asks."""
    return _generator(_get_device_index(device, optional=True))


def default_generators() -> tuple[torch.Generator, ...]:
    """The default generator of each device."""
    return tuple(_generator(i) for i in range(devices.device_count()))


def get_rng_state(device: int | str | torch.device = "neuron") -> torch.Tensor:
    """The generator's state of ``device``: uint8[16] on the CPU. Starts the
    runtime."""
    devices._lazy_init()
    return _generator(_get_device_index(device, optional=True)).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """The state of each device."""
    return [get_rng_state(i) for i in range(devices.device_count())]


def set_rng_state(
    new_state: torch.Tensor, device: int | str | torch.device = "neuron"
) -> None:
    """Sets the generator's state of ``device`` to one of ``get_rng_state``."""
    if not devices.is_initialized():
        with torch._C._DisableFuncTorch():
            new_state = new_state.clone(memory_format=torch.contiguous_format)

    def call() -> None:
        _generator(_get_device_index(device, optional=True)).set_state(new_state)

    devices._lazy_call(call)


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Sets the state of each device."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seeds the current device's generator."""
    seed = int(seed)

    def call() -> None:
        _generator(devices.current_device()).manual_seed(seed)

    devices._lazy_call(call, seeds="current")


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all devices. Silently nothing without devices."""
    seed = int(seed)

    def call() -> None:
        for generator in default_generators():
            generator.manual_seed(seed)

    devices._lazy_call(call, seeds="all")


def seed() -> None:
    """Seeds the current device's generator with a random number."""

    def call() -> None:
        _generator(devices.current_device()).seed()

    devices._lazy_call(call)


def seed_all() -> None:
    """Seeds the generators of all devices with one random number."""

    def call() -> None:
        generators = default_generators()
        if generators:
            number = generators[0].seed()
            for generator in generators[1:]:
                generator.manual_seed(number)

    devices._lazy_call(call)


def initial_seed() -> int:
    """The current device's seed. Starts the runtime."""
    devices._lazy_init()
    return _generator(devices.current_device()).initial_seed()
