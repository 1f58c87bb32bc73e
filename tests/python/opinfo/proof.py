# SPDX-License-Identifier: Apache-2.0
"""The hardware's programs of the operators that reach the device while PyTorch's
operator database runs, against the CPU."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._ops import OpOverload
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

import torch_neuronx
import xla
from opinfo import compare
from opinfo.compare import TOLERANCES
from torch_neuronx.decompose import find_op

HOST = (torch.float64, torch.complex32, torch.complex64, torch.complex128)

# An approximation of another kind than ATen's may differ more than rounding.
LOOSER = {torch.float32: (2e-3, 2e-4)}


@dataclass
class Recorder(TorchDispatchMode):
    """Keeps up to ``limit`` different calls of each overload; CPU copies of their
    arguments, contiguous."""

    limit: int
    calls: list[tuple[OpOverload, tuple, dict]] = field(default_factory=list)
    seen: dict[str, set] = field(default_factory=lambda: defaultdict(set))

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        self.note(func, args, kwargs)
        return func(*args, **kwargs)

    def note(self, func: OpOverload, args: tuple, kwargs: dict[str, Any]) -> None:
        name = functional(func)
        if name is None:
            return
        if func._schema.is_mutable:
            func, args, kwargs = without_out(func, find_op(name), args, kwargs)
        leaves, spec = tree_flatten((args, kwargs))
        key = str([_key(x) for x in leaves])
        if key in self.seen[name] or len(self.seen[name]) >= self.limit:
            return
        self.seen[name].add(key)
        copies = [
            x.detach().cpu().contiguous() if isinstance(x, torch.Tensor) else x
            for x in leaves
        ]
        self.calls.append((func, *tree_unflatten(copies, spec)))


def without_out(
    op: OpOverload, functional: OpOverload, args: tuple, kwargs: dict[str, Any]
) -> tuple[OpOverload, tuple, dict[str, Any]]:
    """The same call of the overload that returns new tensors."""
    given = dict(zip((a.name for a in op._schema.arguments), args, strict=False))
    given.update(kwargs)
    named = {
        a.name: given[a.name]
        for a in op._schema.arguments
        if not a.is_out and a.name in given
    }
    return functional, (), named


def record(recorder: Recorder, op: OpInfo, dtype: torch.dtype) -> None:
    """Runs the entry's samples on the device, forward and backward."""
    for sample in compare.samples(op, dtype, requires_grad=op.supports_autograd):
        device = compare.on_device(sample)
        try:
            with recorder:
                results = compare.call(op, device)
                wanted = [
                    x
                    for x in results
                    if isinstance(x, torch.Tensor) and x.requires_grad
                ]
                if wanted and device.tensors:
                    seeds = [torch.ones_like(x) for x in wanted]
                    torch.autograd.grad(
                        wanted, device.tensors, seeds, allow_unused=True
                    )
        except Exception:
            continue  # test_opinfo.py says whether that is right


def _key(x: Any) -> Any:
    return (x.dtype, tuple(x.shape)) if isinstance(x, torch.Tensor) else x


def functional(op: OpOverload) -> str | None:
    """The overload whose program is proven for ``op``; None: it has no program."""
    if op.namespace not in ("aten", "neuronx_bounded"):
        return None
    if torch.Tag.nondeterministic_seeded in op.tags or op.is_view:
        return None
    return torch_neuronx._C.functional_name(op.name()) or None


def prove(op: OpOverload, args: tuple, kwargs: dict[str, Any]) -> bool:
    """Compares XLA's results of the call's program with the CPU's.

    False if there is nothing to compare: the operator has no program for these
    arguments, or every result is empty.
    """
    tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
    if any(x.dtype in HOST for x in tensors):
        return False

    def move(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return x.to("neuron")
        return torch.device("neuron") if isinstance(x, torch.device) else x

    try:
        program = torch_neuronx.program(
            op.name(), *tree_map(move, args), **tree_map(move, kwargs)
        )
    except (NotImplementedError, RuntimeError):
        return False
    inputs = [x for x in tensors if x.numel()]
    if len(inputs) != len(program.inputs):
        return False
    wanted = [
        x
        for x in tree_leaves(op(*args, **kwargs))
        if isinstance(x, torch.Tensor) and x.numel()
    ]
    if any(x.dtype in HOST for x in wanted):
        return False
    actual = xla.run(program.stablehlo, [x.clone() for x in inputs])
    assert len(actual) == len(wanted)
    for a, w in zip(actual, wanted, strict=True):
        assert a.dtype == w.dtype and a.shape == w.shape
        rtol, atol = LOOSER.get(w.dtype) or TOLERANCES.get(w.dtype, (None, None))
        torch.testing.assert_close(a, w, rtol=rtol, atol=atol, equal_nan=True)
    return True
