# SPDX-License-Identifier: Apache-2.0
"""Operators that draw random numbers: elements get the numbers that they have without
padding.

An element's place among the true ones says which words of the generator's stream it
uses (csrc/lowering/random.cpp). So as many elements as the padded tensor has are drawn
in one dimension, the true ones first, and then moved to their places.
"""

from itertools import chain
from typing import Any

import sympy
import torch

from torch_neuronx import _C, random_operators
from torch_neuronx.lowering import Operand, positional
from torch_neuronx.padding_rules.call import Axes, Call, broadcast, product
from torch_neuronx.padding_rules.table import rule

aten = torch.ops.aten

# Whose elements have nothing to do with each other.
_BY_ELEMENT = {
    aten._standard_gamma.default,
    aten.bernoulli.Tensor,
    aten.bernoulli.default,
    aten.bernoulli.p,
    aten.binomial.default,
    aten.cauchy.default,
    aten.exponential.default,
    aten.geometric.default,
    aten.log_normal.default,
    aten.native_dropout.default,
    aten.normal.Tensor_Tensor,
    aten.normal.Tensor_float,
    aten.normal.float_Tensor,
    aten.normal.float_float,
    aten.normal_functional.default,
    aten.poisson.default,
    aten.rand.default,
    aten.rand_like.default,
    aten.randint.default,
    aten.randint.low,
    aten.randint_like.default,
    aten.randint_like.low_dtype,
    aten.randn.default,
    aten.randn_like.default,
    aten.random.default,
    aten.random.to,
    getattr(aten.random, "from"),
    aten.rrelu_with_noise_functional.default,
    aten.uniform.default,
}


def draw(call: Call) -> Any:
    """Draws for the true elements."""
    if call.op not in _BY_ELEMENT:
        call.refuse("what it draws depends on all elements")
    operands = [x for x in call.values.values() if isinstance(x, Operand)]
    if operands:
        axes = broadcast(call, operands)
    else:
        axes = call.emitter.guess(call.node.meta["val"])
    arguments = positional(call.op, (), call.values)
    name, arguments = random_operators.find(call.op, arguments)
    metas = call.meta()
    if isinstance(metas, torch.Tensor):
        return _drawn(call, name, arguments, [metas], axes)[0]
    return _drawn(call, name, arguments, metas, axes)


@rule(aten.native_dropout.default)
def _dropout(call: Call) -> Any:
    """Only the mask has to be moved."""
    if call["train"] is False:
        return draw(call)
    x, p, emitter = call["input"], call["p"], call.emitter
    axes = call.axes(x)
    like = emitter.fake(lambda: torch.empty_like(x.fake, dtype=torch.float32))
    (uniform,) = _drawn(call, "aten::uniform_", [None, 0.0, 1.0], [like], axes)
    keep = emitter.op(aten.ge.Scalar, uniform, p)
    scaled = emitter.op(aten.mul.Scalar, x, 0.0 if p == 1 else 1 / (1 - p))
    result = emitter.op(aten.where.ScalarOther, keep, scaled, 0.0)
    return [call.mark(result, axes), call.mark(keep, axes)]


def _drawn(
    call: Call,
    name: str,
    arguments: list[Any],
    metas: list[torch.Tensor],
    axes: Axes,
) -> list[Operand]:
    """The results, of the types ``metas``, of ``name`` in the backend's table."""
    emitter = call.emitter
    shape, factors = list(metas[0].shape), tuple(chain.from_iterable(axes))
    count = product(factors)
    if not emitter.is_padded(count):
        return [call.mark(x, axes) for x in emitter.draw(name, arguments, metas)]
    given = [
        emitter.gathered(emitter.op(aten.expand.default, x, shape), factors)
        if isinstance(x, Operand)
        else x
        for x in arguments
    ]
    flat = [
        emitter.fake(lambda m=m: torch.empty(m.numel(), dtype=m.dtype, device=m.device))
        for m in metas
    ]
    # Four words are a block, and a call uses whole ones.
    blocks = sympy.floor((_C.random_words(name) * count + 3) / 4)
    drawn = emitter.draw(name, given, flat, blocks=emitter.number(blocks).id)
    placed = [emitter.spread(x, factors) for x in drawn]
    return [call.mark(emitter.op(aten.view.default, x, shape), axes) for x in placed]
