# SPDX-License-Identifier: Apache-2.0
"""One sample of an operator on the CPU and on the device."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_leaves, tree_map

# `make test-operators` sets it: every dtype, and every hardware program.
EXHAUSTIVE = os.environ.get("TORCH_NEURONX_OPINFO") == "all"

# Of each entry and dtype; 0 is all.
SAMPLES = int(os.environ.get("TORCH_NEURONX_OPINFO_SAMPLES", "8"))

# (relative, absolute): the CPU's own kernels run behind the simulator, but sums
# may be split differently, and the CPU rounds statistics.
TOLERANCES = {
    torch.float32: (1e-4, 1e-4),
    torch.bfloat16: (1.6e-2, 2e-2),
    torch.float16: (4e-3, 4e-3),
    torch.complex64: (1e-4, 1e-4),
}


@dataclass
class Sample:
    """Arguments of one call; ``tensors`` are those that require a gradient."""

    input: Any
    args: tuple
    kwargs: dict[str, Any]

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [
            x
            for x in tree_leaves((self.input, self.args, self.kwargs))
            if isinstance(x, torch.Tensor) and x.requires_grad
        ]

    def __str__(self) -> str:
        return describe((self.input, self.args, self.kwargs))


def describe(tree: Any) -> str:
    """Tensors by dtype, shape and strides."""

    def text(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        return f"{str(x.dtype)[6:]}{list(x.shape)} strides {x.stride()}"

    return str(tree_map(text, tree))


def samples(
    op: OpInfo,
    dtype: torch.dtype,
    requires_grad: bool = False,
    most: int = SAMPLES,
) -> Iterator[SampleInput]:
    """On the CPU. Evenly spread over the entry's samples, at most ``most`` (0: all);
    without those that draw random numbers."""
    found = [
        sample
        for sample in op.sample_inputs("cpu", dtype, requires_grad=requires_grad)
        if not sample.kwargs.get("dropout_p")
    ]
    step = max(1, len(found) // most) if most else 1
    return islice(found[::step], most or None)


def on_cpu(sample: SampleInput) -> Sample:
    return Sample(sample.input, sample.args, sample.kwargs)


def to_device(x: torch.Tensor) -> torch.Tensor:
    """A leaf with x's values, strides and offset in a storage like x's."""
    plain = x.detach()
    if not x.is_cpu:
        return x
    if x.layout != torch.strided or x.is_conj() or x.is_neg():
        moved = plain.to("neuron")
    else:
        memory = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())
        moved = memory.to("neuron").as_strided(x.size(), x.stride(), x.storage_offset())
    return moved.detach().requires_grad_(x.requires_grad)


def mapped(function: Callable[[Any], Any], sample: SampleInput | Sample) -> Sample:
    """With ``function`` of each leaf among the arguments."""
    return Sample(
        *tree_map(function, (sample.input, sample.args, sample.kwargs)),
    )


def on_device(sample: SampleInput | Sample) -> Sample:
    def move(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return to_device(x)
        if isinstance(x, torch.device) or (isinstance(x, str) and x == "cpu"):
            return torch.device("neuron")
        return x

    return mapped(move, sample)


def call(function: Any, sample: Sample) -> list[Any]:
    """The leaves of the results."""
    return tree_leaves(function(sample.input, *sample.args, **sample.kwargs))


def layout(x: torch.Tensor) -> list[int]:
    """The strides that matter."""
    return [st for n, st in zip(x.shape, x.stride(), strict=True) if n > 1]


def is_dense(x: torch.Tensor) -> bool:
    """Not empty, and without gaps, for which CPU kernels have no rule."""
    return x.numel() > 0 and torch.ops.aten.is_non_overlapping_and_dense(x)


def assert_same(
    actual: list[Any], expected: list[Any], values: bool = True, strides: bool = True
) -> None:
    """Equal numbers, and tensors equal in value, dtype, shape and strides."""
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        if not isinstance(e, torch.Tensor):
            assert type(a) is type(e)
            if values and not isinstance(e, torch.device):
                assert a == e or (a != a and e != e)
            continue
        assert a.device.type == "neuron", a.device
        assert a.dtype == e.dtype and a.shape == e.shape, (
            f"{describe(a)} instead of {describe(e)}"
        )
        if strides and is_dense(e):
            assert layout(a) == layout(e), f"strides {a.stride()}, not {e.stride()}"
        if values:
            rtol, atol = TOLERANCES.get(e.dtype, (None, None))
            torch.testing.assert_close(
                a.detach().cpu(), e.detach(), rtol=rtol, atol=atol, equal_nan=True
            )
