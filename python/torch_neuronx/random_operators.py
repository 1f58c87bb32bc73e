# SPDX-License-Identifier: Apache-2.0
"""Functional operators that draw random numbers, and the entries of the backend's
table of such operators (csrc/eager/random.cpp) that compute them."""

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

aten = torch.ops.aten

Call = tuple[str, list[Any]]
Rule = Callable[..., Call]


def _uniform(*_: Any) -> Call:
    return "aten::uniform_", [None, 0.0, 1.0]


def _normal(*_: Any) -> Call:
    return "aten::normal_", [None, 0.0, 1.0]


def _integers(low: int, high: int) -> Call:
    return "aten::random_.from", [None, low, high]


def _filled(name: str) -> Rule:
    """Of ``self`` only the shape matters."""
    return lambda self, *arguments: (name, [None, *arguments])


def _as(name: str) -> Rule:
    return lambda *arguments: (name, list(arguments))


RULES: dict[OpOverload, Rule] = {
    aten.rand.default: _uniform,
    aten.rand_like.default: _uniform,
    aten.randn.default: _normal,
    aten.randn_like.default: _normal,
    aten.randint.default: lambda high, *_: _integers(0, high),
    aten.randint.low: lambda low, high, *_: _integers(low, high),
    aten.randint_like.default: lambda self, high, *_: _integers(0, high),
    aten.randint_like.low_dtype: lambda self, low, high, *_: _integers(low, high),
    aten.randperm.default: lambda n, *_: ("aten::randperm.out", [n]),
    aten.uniform.default: _filled("aten::uniform_"),
    aten.normal_functional.default: _filled("aten::normal_"),
    aten.exponential.default: _filled("aten::exponential_"),
    aten.geometric.default: _filled("aten::geometric_"),
    aten.cauchy.default: _filled("aten::cauchy_"),
    aten.log_normal.default: _filled("aten::log_normal_"),
    aten.random.default: _filled("aten::random_"),
    aten.random.to: _filled("aten::random_.to"),
    getattr(aten.random, "from"): _filled("aten::random_.from"),
    aten.bernoulli.default: _as("aten::bernoulli.out"),
    aten.bernoulli.p: _as("aten::bernoulli.p"),
    aten.bernoulli.Tensor: _as("aten::bernoulli_.Tensor"),
    aten.native_dropout.default: _as("aten::native_dropout"),
    aten.normal.Tensor_float: _as("aten::normal.Tensor_float"),
    aten.normal.float_Tensor: _as("aten::normal.float_Tensor"),
    aten.normal.Tensor_Tensor: _as("aten::normal.Tensor_Tensor"),
    aten.normal.float_float: lambda mean, std, *_: (
        "aten::normal_",
        [None, mean, std],
    ),
    aten.multinomial.default: _as("aten::multinomial"),
    aten.rrelu_with_noise_functional.default: _as("aten::rrelu_with_noise_functional"),
    aten.poisson.default: _as("aten::poisson"),
    aten.binomial.default: _as("aten::binomial"),
    aten._standard_gamma.default: _as("aten::_standard_gamma"),
    aten._sample_dirichlet.default: _as("aten::_sample_dirichlet"),
}
_ATTENTION = aten._scaled_dot_product_fused_attention_overrideable.default
_ATTENTION_DROPOUT = 4


def may_draw(op: OpOverload) -> bool:
    return (
        op in RULES or op is _ATTENTION or torch.Tag.nondeterministic_seeded in op.tags
    )


def find(op: OpOverload, arguments: list[Any]) -> Call | None:
    """The table's entry and its arguments, or None if ``op`` draws nothing.

    Args:
        arguments: of ``op``, all, in the schema's order.
    """
    if op is _ATTENTION and arguments[_ATTENTION_DROPOUT] > 0:
        return op.name(), arguments
    rule = RULES.get(op)
    return rule(*arguments) if rule else None
