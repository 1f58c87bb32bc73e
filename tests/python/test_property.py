# SPDX-License-Identifier: Apache-2.0
"""Random chains of views, step by step as on the CPU: values, shape, strides, storage
offset, dtype, and the type of errors.

    TORCH_NEURONX_PROPERTY_EXAMPLES=100000 pytest tests/python/test_property.py

runs so many random chains (a new seed each time, which a failure prints); without
it a fixed set runs. A failing chain is shrunk by hypothesis and printed as the
list of its steps.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

EXAMPLES = int(os.environ.get("TORCH_NEURONX_PROPERTY_EXAMPLES", "0"))
# Each chain has up to STEPS steps.
SETTINGS = settings(
    max_examples=EXAMPLES or 500,
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


def attempt(step: Step, x: Tensor) -> Tensor | Exception:
    try:
        result = step.call(x)
        torch.neuron.synchronize()
        return result
    except Exception as error:
        return error


def check_same(actual: Tensor, expected: Tensor, path: list[Step]) -> None:
    for what in ("shape", "dtype"):
        assert getattr(actual, what) == getattr(expected, what), (what, path)
    assert actual.stride() == expected.stride(), ("stride", path)
    assert actual.storage_offset() == expected.storage_offset(), ("offset", path)
    host = actual.cpu()
    assert torch.equal(host, expected), (path, host, expected)


def check_chain(shape: tuple[int, ...], dtype: torch.dtype, steps: list[Step]) -> None:
    """Every tensor of the chain is compared again at the end too."""
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


@SETTINGS
@given(shapes, dtypes, chains(VIEWS))
def test_views(shape, dtype, steps):
    check_chain(shape, dtype, steps)
