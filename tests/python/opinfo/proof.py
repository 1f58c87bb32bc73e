# SPDX-License-Identifier: Apache-2.0
"""The hardware's programs of the operators that reach the device while PyTorch's
operator database runs, against the CPU."""

import os
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._ops import OpOverload
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

import torch_neuronx
import xla
from opinfo import compare
from opinfo.compare import TOLERANCES
from torch_neuronx import _C
from torch_neuronx.decompose import find_op
from torch_neuronx.lowering import EMPTIES

# The simulator runs what hardware would: then the device is compared, not XLA.
DECOMPOSED = os.environ.get("TORCH_NEURONX_SIM_NUMERICS") == "decomposed"

HOST = (torch.float64, torch.complex32, torch.complex64, torch.complex128)

# An approximation of another kind than ATen's may differ more than rounding.
LOOSER = {torch.float32: (2e-3, 2e-4)}

# Where a program comes from.
LOWERING, DECOMPOSITION, BOUNDED = "lowering", "decomposition", "bounded program"


@dataclass(frozen=True)
class Proof:
    """One program that computes what the CPU does."""

    op: str  # the functional overload, "aten::add.Tensor", or a bounded program
    source: str
    dtypes: tuple[str, ...]  # of operands and results
    refused: dict[str, str]  # chip: the hardware's rule that refuses it
    # Without native 64-bit integers: "" (has none), "narrowed", or the rule that
    # refuses it.
    int64: str


@dataclass
class Call:
    """Arguments are on the device, but for numbers."""

    op: OpOverload
    args: tuple
    kwargs: dict[str, Any]

    @property
    def tensors(self) -> list[torch.Tensor]:
        leaves = tree_leaves((self.args, self.kwargs))
        return [x for x in leaves if isinstance(x, torch.Tensor)]

    def on_cpu(self) -> tuple[tuple, dict[str, Any]]:
        def move(x: Any) -> Any:
            if isinstance(x, torch.Tensor):
                return x.cpu()
            return torch.device("cpu") if isinstance(x, torch.device) else x

        return tree_map(move, (self.args, self.kwargs))

    def __str__(self) -> str:
        return f"{self.op.name()}{compare.describe((self.args, self.kwargs))}"


@dataclass
class Recorder(TorchDispatchMode):
    """Keeps up to ``limit`` different calls of each overload and first operand's
    dtype."""

    limit: int
    calls: list[Call] = field(default_factory=list)
    seen: dict[tuple, set] = field(default_factory=lambda: defaultdict(set))

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        call = self.unseen(func, args, kwargs)
        result = func(*args, **kwargs)
        if call is not None:  # arguments that are errors have no program
            self.calls.append(call)
        return result

    def unseen(self, func: OpOverload, args: tuple, kwargs: dict) -> Call | None:
        name = functional(func)
        if name is None:
            return None
        if func._schema.is_mutable:
            func, args, kwargs = without_out(func, find_op(name), args, kwargs)
        if _takes_number_as_tensor(func, args):
            return None  # the .Scalar overload's call
        leaves, spec = tree_flatten((args, kwargs))
        first = [x.dtype for x in leaves if isinstance(x, torch.Tensor)][:1]
        seen = self.seen[(name, *first)]
        key = str([_key(x) for x in leaves])
        # A list is many calls in one.
        limit = self.limit // 2 if name.startswith("aten::_foreach_") else self.limit
        if key in seen or len(seen) >= limit:
            return None
        seen.add(key)
        return Call(func, *tree_unflatten([_copy(x) for x in leaves], spec))


def _takes_number_as_tensor(op: OpOverload, args: tuple) -> bool:
    return any(
        isinstance(x, (bool, int, float)) and isinstance(a.type, torch.TensorType)
        for x, a in zip(args, op._schema.arguments, strict=False)
    )


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


def _key(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return (x.dtype, tuple(x.shape), x.device.type)
    return x


def _copy(x: Any) -> Any:
    if not isinstance(x, torch.Tensor):
        return x
    return x.detach().clone(memory_format=torch.contiguous_format)


def functional(op: OpOverload) -> str | None:
    """The overload whose program is proven for ``op``; None: it has no program, or
    its results are random or uninitialised."""
    if op.namespace != "aten" or op.is_view or op in EMPTIES:
        return None
    if torch.Tag.nondeterministic_seeded in op.tags:
        return None
    return _C.functional_name(op.name()) or None


def record(recorder: Recorder, op: OpInfo, dtype: torch.dtype) -> dict[str, str]:
    """Runs the entry's samples on the device, forward and backward. Gives the
    operators that ran on the host, and why."""
    differentiable = dtype in op.supported_backward_dtypes("cpu")
    torch_neuronx.clear_op_tracking()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for sample in compare.samples(op, dtype, requires_grad=differentiable):
            device = compare.on_device(sample)
            try:
                with recorder:
                    _run(op, device)
            except Exception:
                continue  # test_opinfo.py says whether that is right
    return {
        name: _reason(name, [str(warning.message) for warning in caught])
        for name in torch_neuronx.get_fallback_ops()
    }


def _run(op: OpInfo, sample: compare.Sample) -> None:
    results = compare.call(op, sample)
    wanted = [x for x in results if isinstance(x, torch.Tensor) and x.requires_grad]
    if wanted and sample.tensors:
        seeds = [torch.ones_like(x) for x in wanted]
        torch.autograd.grad(wanted, sample.tensors, seeds, allow_unused=True)


def _reason(name: str, messages: list[str]) -> str:
    for text in messages:
        if text.startswith(f"[{name}] is not implemented"):
            return text.split("CPU (", 1)[1].split("); called from")[0]
    raise AssertionError(f"{name} ran on the host without a warning")


# Programs of data-dependent operators: name, arguments, and of the program's and
# the CPU's results what must be equal.
Bounded = tuple[str, tuple, Callable[..., list], Callable[..., list]]


def _nonzero(self: torch.Tensor) -> Bounded:
    x = self.reshape(1) if self.dim() == 0 else self
    return (
        "nonzero",
        (x,),
        lambda padded, count: [padded[:, : int(count)].t(), count],
        lambda x: [torch.nonzero(x), torch.count_nonzero(x)],
    )


def _masked_select(self: torch.Tensor, mask: torch.Tensor) -> Bounded:
    x, mask = (y.contiguous() for y in torch.broadcast_tensors(self, mask))
    return (
        "masked_select",
        (x, mask),
        lambda padded, count: [padded[: int(count)]],
        lambda x, mask: [torch.masked_select(x, mask)],
    )


def _unique_rows(rows: torch.Tensor, is_sorted: bool) -> Bounded:
    function = torch.unique if is_sorted else torch.unique_consecutive

    def cut(values, inverse, counts, count):
        n = int(count)
        return [values[:n], inverse, counts[:n]]

    return (
        "unique",
        (rows, is_sorted),
        cut,
        lambda x, _: list(function(x, return_inverse=True, return_counts=True, dim=0)),
    )


def _unique_slices(self: torch.Tensor, dim: int, is_sorted: bool) -> Bounded:
    front = self.movedim(dim, 0)
    return _unique_rows(front.reshape(front.shape[0], -1).contiguous(), is_sorted)


def _unique_consecutive(self, return_inverse=False, return_counts=False, dim=None):
    if dim is None:
        return _unique_rows(self.reshape(-1), False)
    return _unique_slices(self, dim, False)


def _repeat_interleave(repeats: torch.Tensor, *, output_size=None) -> Bounded:
    size = int(repeats.sum())
    return (
        "repeat_interleave",
        (repeats, size),
        lambda rows: [rows],
        lambda repeats, _: [torch.repeat_interleave(repeats).long()],
    )


def _bincount(self: torch.Tensor, weights=None, minlength: int = 0) -> Bounded:
    size = max(int(self.max()) + 1, minlength)
    return (
        "bincount",
        (self, weights, size),
        lambda counts: [counts],
        lambda x, weights, size: [
            torch.bincount(x, weights, size).to(
                torch.int64 if weights is None else torch.float32
            )
        ],
    )


BOUNDED_PROGRAMS: dict[str, Callable[..., Bounded]] = {
    "aten::nonzero": _nonzero,
    "aten::masked_select": _masked_select,
    "aten::_unique": lambda self, *_, **__: _unique_rows(self.reshape(-1), True),
    "aten::_unique2": lambda self, *_, **__: _unique_rows(self.reshape(-1), True),
    "aten::unique_dim": lambda self, dim, *_, **__: _unique_slices(self, dim, True),
    "aten::unique_dim_consecutive": lambda self, dim, *_, **__: _unique_slices(
        self, dim, False
    ),
    "aten::unique_consecutive": _unique_consecutive,
    "aten::repeat_interleave.Tensor": _repeat_interleave,
    "aten::bincount": _bincount,
}


def _attention_backward(
    grad, query, key, value, bias, mask, *saved, scale=None
) -> list[torch.Tensor]:
    """By autograd over the plain mathematics."""
    dropout, is_causal = saved[6:8]
    assert dropout == 0
    operands = [query, key, value] + ([bias] if bias is not None else [])
    leaves = [x.detach().requires_grad_() for x in operands]
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        result = scaled_dot_product_attention(
            *leaves,
            is_causal=is_causal,
            scale=scale,
            enable_gqa=query.dim() == 4 and query.shape[1] != key.shape[1],
        )
        found = iter(torch.autograd.grad(result, leaves, grad))
    gradients = [next(found) for _ in operands]
    return [x for x, wanted in zip(gradients, mask, strict=False) if wanted]


# The CPU's results of operators that it has no kernel for.
REFERENCES: dict[str, Callable[..., Any]] = {
    "aten::_scaled_dot_product_fused_attention_overrideable_backward": (
        _attention_backward
    ),
}


# Their positions may be of any of equal elements.
CHOICES = ("aten::kthvalue", "aten::topk")


def _chosen(
    op: OpOverload, args: tuple, kwargs: dict[str, Any], results: list[torch.Tensor]
) -> list[torch.Tensor]:
    """The values, and the elements that the positions, each another one, choose."""
    given = dict(zip((a.name for a in op._schema.arguments), args, strict=False))
    given.update(kwargs)
    x, dim = given["self"], given.get("dim", -1)
    values, positions = results
    assert positions.dtype == torch.int64 and positions.shape == values.shape
    if x.dim() == 0:
        return [values, x.take(positions)]
    if positions.dim() < x.dim():
        positions = positions.unsqueeze(dim)
    assert positions.sort(dim).values.diff(dim=dim).ne(0).all()
    return [values, x.gather(dim, positions).reshape(values.shape)]


def prove(call: Call) -> Proof | None:
    """Compares the call's program, run by XLA or, in decomposed numerics, by the
    simulator, with the CPU.

    None if there is nothing to compare: no program for these arguments, or every
    result is empty.
    """
    if any(x.dtype in HOST for x in call.tensors):
        return None
    name = _C.functional_name(call.op.name())
    if name == "aten::index.Tensor":
        call = _by_positions(call)
    args, kwargs = call.on_cpu()
    if name in BOUNDED_PROGRAMS:
        if any(x.numel() == 0 for x in call.tensors):
            return None
        bounded, args, cut, on_cpu = BOUNDED_PROGRAMS[name](*args, **kwargs)
        call = Call(find_op(f"neuronx_bounded::{bounded}"), to_device(args), {})
        wanted = on_cpu(*args)
    else:
        cut = None
        wanted = _tensors(REFERENCES.get(name, call.op)(*args, **kwargs))
    if not wanted or any(x.dtype in HOST for x in wanted):
        return None
    decompositions = torch_neuronx.metrics()["decompositions"]
    try:
        program = torch_neuronx.program(call.op, *call.args, **call.kwargs)
    except _C.Refused:
        return None
    if cut is not None:
        source = BOUNDED
    elif torch_neuronx.metrics()["decompositions"] > decompositions:
        source = DECOMPOSITION
    else:
        source = LOWERING
    refused = {}
    legal = program
    for chip in ("trn3", "trn2"):
        try:
            legal = program.legalized(chip)
            assert legal.violations(chip) == []
        except _C.IllegalProgram as error:
            refused[chip] = _rule(error)
    if DECOMPOSED:
        actual = _tensors(call.op(*call.args, **call.kwargs))
        actual = [x.cpu() for x in actual]
    else:
        inputs = [
            _extent(x.cpu())
            for x in call.tensors
            if x.device.type == "neuron" and x.numel()
        ]
        actual = xla.run(legal.stablehlo, inputs)
    if cut is not None:
        actual = cut(*actual)
    if name in CHOICES:
        actual = _chosen(call.op, args, kwargs, actual)
        wanted = _chosen(call.op, args, kwargs, wanted)
    _assert_close(actual, wanted)
    dtypes = {str(x.dtype)[6:] for x in (*call.tensors, *wanted)}
    return Proof(
        _C.functional_name(call.op.name()),
        source,
        tuple(sorted(dtypes)),
        refused,
        _narrowing(program),
    )


def _by_positions(call: Call) -> Call:
    """Masks among the indices as the positions that ``nonzero`` gives of them."""
    self, indices = call.args
    positions: list[torch.Tensor | None] = []
    for index in indices:
        if index is not None and index.dtype in (torch.bool, torch.uint8):
            positions += index.nonzero().unbind(1)
        else:
            positions.append(index)
    return Call(call.op, (self, positions), call.kwargs)


def to_device(tree: Any) -> Any:
    return tree_map(
        lambda x: x.to("neuron") if isinstance(x, torch.Tensor) else x, tree
    )


def _extent(x: torch.Tensor) -> torch.Tensor:
    """The memory that a dense view covers: what the program's parameter is."""
    return x if x.is_contiguous() else x.as_strided([x.numel()], [1])


def _tensors(results: Any) -> list[torch.Tensor]:
    return [
        x for x in tree_leaves(results) if isinstance(x, torch.Tensor) and x.numel()
    ]


def _rule(error: Exception) -> str:
    """The name of the rule: "[int64-constant, ...] ..."."""
    return str(error)[1:].split(",")[0].split("]")[0]


def _narrowing(program: torch_neuronx.Program) -> str:
    broken = program.violations("trn3", native_int64=False)
    if not any(text.startswith("[int64") for text in broken):
        return ""
    try:
        legal = program.legalized("trn3", native_int64=False)
    except _C.IllegalProgram as error:
        return _rule(error)
    assert legal.violations("trn3", native_int64=False) == []
    return "narrowed"


def _assert_close(actual: list[torch.Tensor], wanted: list[torch.Tensor]) -> None:
    assert len(actual) == len(wanted), f"{len(actual)} results, not {len(wanted)}"
    for a, w in zip(actual, wanted, strict=True):
        assert a.dtype == w.dtype and a.shape == w.shape, (
            f"{compare.describe(a)} instead of {compare.describe(w)}"
        )
        rtol, atol = LOOSER.get(w.dtype) or TOLERANCES.get(w.dtype, (None, None))
        torch.testing.assert_close(a, w, rtol=rtol, atol=atol, equal_nan=True)
