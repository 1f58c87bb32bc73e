# SPDX-License-Identifier: Apache-2.0
"""Random chains of views, writes through views, copies and casts, step by step as
on the CPU: values, shape, strides, storage offset, dtype, and the type of errors.

    TORCH_NEURONX_PROPERTY_EXAMPLES=100000 pytest tests/python/test_property.py

runs so many random chains (a new seed each time, which a failure prints); without
it a fixed set runs. A failing chain is shrunk by hypothesis and printed as the
list of its steps.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

EXAMPLES = int(os.environ.get("TORCH_NEURONX_PROPERTY_EXAMPLES", "0"))
# Each chain has up to STEPS steps; the fixed set is 4 times so many chains.
SETTINGS = settings(
    max_examples=EXAMPLES or 600,
    derandomize=not EXAMPLES,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
STEPS = 8

# Few shapes, so that programs repeat and chains run from the cache.
SHAPES = [(), (1,), (4,), (2, 3), (3, 4), (2, 1, 4), (0, 3)]
DTYPES = [torch.float32, torch.int64, torch.bool, torch.bfloat16]
CASTS = [*DTYPES, torch.float16, torch.int32, torch.uint8]

small = st.integers(-1, 2)
dims = st.integers(-3, 3)


def data(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Small numbers, on which every dtype and operator below is exact."""
    n = torch.Size(shape).numel()
    return ((torch.arange(n) * 7 + 3) % 5).reshape(shape).to(dtype)


@dataclass
class Step:
    """One function of the current tensor; `text` is what a failure shows."""

    text: str
    call: Callable[[Tensor], Tensor] = field(repr=False)

    def __repr__(self) -> str:
        return self.text


def step(
    name: str, function: Callable, *arguments: st.SearchStrategy
) -> st.SearchStrategy:
    """`function(tensor, *values)`; what it raises, the CPU must raise."""
    return st.tuples(*arguments).map(
        lambda values: Step(
            f"{name}{values}", lambda x, values=values: function(x, *values)
        )
    )


def as_strided(x: Tensor, size: list[int], stride: list[int], offset: int) -> Tensor:
    return x.as_strided(size, stride[: len(size)], offset)


def widen(x: Tensor, n: int) -> Tensor:
    return x.unsqueeze(0).expand(n, *x.shape)


def same_numel(x: Tensor, choice: int) -> list[int]:
    n = x.numel()
    return [[n], [1, n], [n, 1], [-1], [2, -1], [n // 2, 2], [-1, 3]][choice]


VIEWS = [
    step("transpose", lambda x, a, b: x.transpose(a, b), dims, dims),
    step("select", lambda x, d, i: x.select(d, i), dims, small),
    step(
        "slice",
        lambda x, d, a, b, s: torch.ops.aten.slice.Tensor(x, d, a, b, s),
        dims,
        st.integers(-3, 3),
        st.integers(0, 5),
        st.integers(1, 3),
    ),
    step("narrow", lambda x, d, a, n: x.narrow(d, a, n), dims, small, small),
    step("unsqueeze", lambda x, d: x.unsqueeze(d), dims),
    step("squeeze", lambda x: x.squeeze()),
    step("squeeze_dim", lambda x, d: x.squeeze(d), dims),
    step("widen", widen, st.integers(1, 3)),
    step("expand_2_1", lambda x: x.expand(2, *x.shape) if x.dim() < 4 else x),
    step("diagonal", lambda x, o: x.diagonal(o), st.integers(-2, 2)),
    step(
        "unfold", lambda x, d, n, s: x.unfold(d, n, s), dims, small, st.integers(1, 2)
    ),
    step(
        "as_strided",
        as_strided,
        st.lists(st.integers(1, 3), max_size=3),
        st.lists(st.integers(0, 3), min_size=3, max_size=3),
        st.integers(0, 2),
    ),
    step("view", lambda x, c: x.view(same_numel(x, c)), st.integers(0, 6)),
    step("reshape", lambda x, c: x.reshape(same_numel(x, c)), st.integers(0, 6)),
    step("movedim", lambda x, a, b: x.movedim(a, b), dims, dims),
    step("flatten", lambda x: x.flatten()),
    step("mT", lambda x: x.mT),
    step("detach", lambda x: x.detach()),
    step("view_as", lambda x: x.view_as(x)),
    step("chunk", lambda x, n, d: x.chunk(n, d)[-1], st.integers(1, 3), dims),
]

COPIES = [
    step("flip", lambda x, d: x.flip(d), dims),
    step("contiguous", lambda x: x.contiguous()),
    step("clone", lambda x: x.clone()),
    step("to", lambda x, dtype: x.to(dtype), st.sampled_from(CASTS)),
    step("roll", lambda x, n: x.roll(n, 0), small),
    step("repeat", lambda x, n: x.repeat(n, *[1] * x.dim()), st.integers(0, 2)),
    step("stack", lambda x: torch.stack([x, x], -1)),
    step("cat", lambda x, d: torch.cat([x, x], d), dims),
    step("tril", lambda x: x.tril()),
    step("through_host", lambda x: x.cpu().clone().to(x.device)),
    step("where", lambda x: torch.where(x > 1, x, -x)),
    step("sum", lambda x, d: x.sum(d), dims),
    step("amax", lambda x, d: x.amax(d), dims),
]


def defined_overlap(x: Tensor) -> Tensor:
    """``x``, where the CPU notices that it is written while it is read; a copy where
    its result would depend on the order of its loops."""
    return x if x.is_contiguous() else x.clone()


def transposed_square(x: Tensor) -> Tensor:
    y = x.transpose(0, -1)
    return y if y.shape == x.shape else x


def fill_index(x: Tensor, i: int) -> Tensor:
    index = torch.tensor([i], device=x.device)
    return x.clone().index_fill_(0, index, 1) if x.numel() else x


def copy_reversed(x: Tensor) -> Tensor:
    return x.copy_(x.clone().flip(0))


def out_of(function: Callable) -> Callable:
    """`function` into an empty tensor, or into a strided part of a larger one. The
    former is laid out like the CPU's where the operands have no layout of their own:
    PyTorch's meta functions, which we ask, look at their sizes only."""

    def into(x: Tensor, strided: bool) -> Tensor:
        other = x.clone()
        if not strided:
            other = other.contiguous()
            out = torch.empty(0, dtype=x.dtype, device=x.device)
        else:
            out = torch.zeros(*x.shape, 2, dtype=x.dtype, device=x.device)[..., 1]
        return function(other, out)

    return into


WRITES = [
    step("add_", lambda x, n: x.add_(n), small),
    step("mul_", lambda x, n: x.mul_(n), small),
    step("fill_", lambda x, n: x.fill_(n), small),
    step("zero_", lambda x: x.zero_()),
    step("neg_", lambda x: x.neg_()),
    step("add_self", lambda x: x.add_(x)),
    step("add_first", lambda x: x.add_(x.select(0, 0).clone())),
    step("sub_clone", lambda x: x.sub_(x.clone())),
    step("copy_reversed", copy_reversed),
    step("copy_overlap", lambda x: x[1:].copy_(defined_overlap(x)[:-1])),
    step("add_overlap", lambda x: x[1:].add_(defined_overlap(x)[:-1])),
    step("copy_cast", lambda x, t: x.copy_(x.to(t)), st.sampled_from(CASTS)),
    step("copy_host", lambda x: x.copy_(x.cpu().add(1))),
    step("clamp_", lambda x, n: x.clamp_(max=n), small),
    step("masked_fill_", lambda x, n: x.clone().masked_fill_(x > 1, n), small),
    step("setitem", lambda x, i, n: (x.__setitem__(i, n), x)[1], small, small),
    step(
        "setitem_slice",
        lambda x, n: (x.__setitem__((..., slice(None, None, 2)), n), x)[1],
        small,
    ),
    step(
        "index_fill_",
        # Of nothing, the CPU raises what its storage happens to raise.
        fill_index,
        small,
    ),
    step("transpose_", lambda x: x.transpose_(0, -1)),
    step("t_add_", lambda x: x.transpose(0, -1).add_(1)),
    step("squeeze_", lambda x: x.squeeze_()),
    step("addcmul_", lambda x: x.addcmul_(x.clone(), x.clone(), value=2)),
    step("add.out", out_of(lambda x, out: torch.add(x, x, out=out)), st.booleans()),
    step("mul.out", out_of(lambda x, out: torch.mul(x, 2, out=out)), st.booleans()),
    step("neg.out", out_of(lambda x, out: torch.neg(x, out=out)), st.booleans()),
    step("sum.out", out_of(lambda x, out: torch.sum(x, 0, out=out)), st.booleans()),
    step("cat.out", out_of(lambda x, out: torch.cat([x, x], out=out)), st.booleans()),
    step("add.out_self", lambda x: torch.add(x, 1, out=x)),
    step(
        "mul.out_t",
        lambda x: torch.mul(defined_overlap(x), 2, out=transposed_square(x)),
    ),
]


def attempt(step: Step, x: Tensor) -> Tensor | Exception:
    try:
        result = step.call(x)
        torch.neuron.synchronize()
        return result
    except Exception as error:
        return error


def steps_between_elements(x: Tensor) -> list[int]:
    """Strides, of dimensions in which there is a step to take."""
    if x.numel() == 0:
        return []
    return [s for n, s in zip(x.shape, x.stride(), strict=True) if n > 1]


def check_same(actual: Tensor, expected: Tensor, path: list[Step]) -> None:
    for what in ("shape", "dtype"):
        assert getattr(actual, what) == getattr(expected, what), (what, path)
    assert steps_between_elements(actual) == steps_between_elements(expected), (
        "stride",
        path,
    )
    if expected.numel():
        assert actual.storage_offset() == expected.storage_offset(), ("offset", path)
    host = actual.cpu()
    assert torch.equal(host, expected), (path, host, expected)


def check_chain(shape: tuple[int, ...], dtype: torch.dtype, steps: list[Step]) -> None:
    """Every tensor of the chain is compared again at the end: a write to a view is
    seen by all that share its memory and by no other."""
    expected = data(shape, dtype)
    actual = expected.to("neuron")
    history = [(actual, expected)]
    path: list[Step] = []
    for step in steps:
        path.append(step)
        a, e = attempt(step, actual), attempt(step, expected)
        if isinstance(e, Exception):
            assert isinstance(a, type(e)), (path, "neuron", a, "cpu", e)
            continue
        assert not isinstance(a, Exception), (path, "neuron raises", a)
        check_same(a, e, path)
        actual, expected = a, e
        history.append((a, e))
    for a, e in history:
        check_same(a, e, path)


def chains(*kinds: list) -> st.SearchStrategy:
    steps = st.one_of(*(step for kind in kinds for step in kind))
    return st.lists(steps, min_size=1, max_size=STEPS)


shapes = st.sampled_from(SHAPES)
dtypes = st.sampled_from(DTYPES)


@pytest.mark.filterwarnings("ignore:An output with one or more elements")
@SETTINGS
@given(shapes, dtypes, chains(VIEWS))
def test_views(shape, dtype, steps):
    check_chain(shape, dtype, steps)


@pytest.mark.filterwarnings("ignore:An output with one or more elements")
@SETTINGS
@given(shapes, dtypes, chains(VIEWS, WRITES))
def test_writes_through_views(shape, dtype, steps):
    check_chain(shape, dtype, steps)


@pytest.mark.filterwarnings("ignore:An output with one or more elements")
@SETTINGS
@given(shapes, dtypes, chains(VIEWS, COPIES))
def test_copies_and_casts_of_views(shape, dtype, steps):
    check_chain(shape, dtype, steps)


@pytest.mark.filterwarnings("ignore:An output with one or more elements")
@SETTINGS
@given(shapes, dtypes, chains(VIEWS, COPIES, WRITES))
def test_chains(shape, dtype, steps):
    check_chain(shape, dtype, steps)
