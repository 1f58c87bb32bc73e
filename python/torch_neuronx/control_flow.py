# SPDX-License-Identifier: Apache-2.0
"""Higher-order operators as branches and loops of a Program."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.effects import with_effects
from torch._higher_order_ops.flex_attention import (
    flex_attention,
    flex_attention_backward,
    sdpa_dense,
    sdpa_dense_backward,
)
from torch._higher_order_ops.invoke_subgraph import invoke_subgraph
from torch._higher_order_ops.map import map_impl
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.while_loop import while_loop_op
from torch._ops import HigherOrderOperator, OpOverload
from torch._prims.rng_prims import graphsafe_run_with_rng_state
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves, tree_map

from torch_neuronx import _C, random_operators
from torch_neuronx.lowering import Emitter, Number, Operand, Undecomposable, positional

# Scores of flex_attention that are held at a time, as in the blocked attention of
# csrc/lowering/attention.cpp.
_SCORE_BYTES = 64 << 20


def emit(
    emitter: Emitter,
    op: HigherOrderOperator,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    result: Any,
) -> Any:
    """Adds one higher-order operator: its results as Operands.

    Args:
        args, kwargs: with graph modules for functions.
        result: the results as fake tensors.

    Raises Undecomposable for one that is not part of programs.
    """
    if op not in _RULES:
        raise Undecomposable(why_not(op, args))
    # From torch 2.14 on, of scan and map.
    if kwargs.get("mutated_arg_indices"):
        raise Undecomposable(f"the body of {op.name()} writes to its arguments")
    kwargs = {k: v for k, v in kwargs.items() if k != "mutated_arg_indices"}
    return _RULES[op](emitter, result, *args, **kwargs)


def is_supported(op: HigherOrderOperator) -> bool:
    return op in _RULES


def why_not(op: HigherOrderOperator, args: Sequence[Any]) -> str:
    if op is with_effects:
        return f"{args[1]} has an effect besides its results"
    return f"{op.name()} cannot be part of a program"


def _operands(emitter: Emitter, values: Sequence[Any]) -> list[Operand]:
    """Numbers become constants."""
    return [_operand(emitter, value) for value in values]


def _operand(emitter: Emitter, value: Any) -> Operand:
    if isinstance(value, Operand):
        return value
    if isinstance(value, Number):
        return Operand(value.id, value.fake)
    if isinstance(value, (bool, int, float)):
        return emitter.constant(torch.tensor(value))
    raise Undecomposable(f"a {type(value).__name__} cannot enter a branch or a loop")


def _body(
    emitter: Emitter, module: GraphModule, operands: Sequence[Operand]
) -> Callable[[Any, list[int]], list[int]]:
    """A region that computes ``module`` of its parameters, which have the operands'
    types."""

    def body(builder: Any, ids: list[int]) -> list[int]:
        inner = emitter.region(builder)
        results = inner.emit(module, _rewrap(ids, operands))
        return [operand.id for operand in _operands(inner, tree_leaves(results))]

    return body


def _wrap(ids: list[int], result: Sequence[Any]) -> list[Operand]:
    return [Operand(id_, fake) for id_, fake in zip(ids, result, strict=True)]


# Random blocks set aside for a loop whose number of steps only the data tells. Offsets
# have 64 bits.
_LOOP_BLOCKS = 1 << 40


def _random_state(emitter: Emitter, *modules: GraphModule) -> list[int]:
    """Seed and offset as operands of the regions, if one of these draws numbers."""
    if not any(map(_draws, modules)):
        return []
    return list(emitter.builder.random_state())


def _draws(module: GraphModule) -> bool:
    return any(
        isinstance(node.target, OpOverload) and random_operators.may_draw(node.target)
        for part in module.modules()
        if isinstance(part, GraphModule)
        for node in part.graph.nodes
    )


def _hand_over(builder: Any, state: list[int]) -> None:
    if state:
        builder.set_random_state(*state)


def _used(builder: Any) -> int:
    return sum(blocks for _, blocks, _ in builder.draws)


def _cond(
    emitter: Emitter,
    result: Any,
    predicate: Any,
    true: GraphModule,
    false: GraphModule,
    operands: Sequence[Any] = (),
) -> Any:
    if isinstance(predicate, bool):
        return emitter.emit(true if predicate else false, list(operands))
    captures = _operands(emitter, operands)
    state = _random_state(emitter, true, false)
    index = emitter.builder.convert(_operand(emitter, predicate).id, torch.int32)
    blocks = [0]

    def branch(module: GraphModule) -> Callable[[Any, list[int]], list[int]]:
        compute = _body(emitter, module, captures)

        def body(builder: Any, ids: list[int]) -> list[int]:
            _hand_over(builder, ids[len(captures) :])
            results = compute(builder, ids[: len(captures)])
            blocks.append(_used(builder))
            return results

        return body

    ids = emitter.builder.conditional(
        emitter.builder.reshape(index, []),
        [*(capture.id for capture in captures), *state],
        [branch(module) for module in (false, true)],
    )
    if state:
        # Whichever branch runs, what follows draws the same numbers.
        emitter.builder.skip_random_blocks(max(blocks))
    return _wrap(ids, result)


def _while_loop(
    emitter: Emitter,
    result: Any,
    condition: GraphModule,
    body: GraphModule,
    carried: Sequence[Any],
    additional: Sequence[Any] = (),
) -> Any:
    fixed = _operands(emitter, (*carried, *additional))
    state = _random_state(emitter, body)
    test = _body(emitter, condition, fixed)
    compute = _body(emitter, body, fixed)

    def step(builder: Any, ids: list[int]) -> list[int]:
        _hand_over(builder, ids[len(fixed) :])
        results = compute(builder, ids[: len(fixed)])
        kept = ids[len(carried) : len(fixed)]
        return results + kept + (list(builder.random_state()) if state else [])

    ids = emitter.builder.while_loop(
        [*(operand.id for operand in fixed), *state],
        lambda builder, ids: test(builder, ids[: len(fixed)]),
        step,
    )
    if state:
        emitter.builder.skip_random_blocks(_LOOP_BLOCKS)
    return _wrap(ids[: len(carried)], result)


def _scan(
    emitter: Emitter,
    result: Any,
    combine: GraphModule,
    init: Sequence[Any],
    xs: Sequence[Any],
    additional: Sequence[Any] = (),
) -> Any:
    carried, rest = result[: len(init)], result[len(init) :]
    length = xs[0].fake.shape[0]
    if length == 0:
        raise Undecomposable("a scan over nothing has no program")
    start = _operands(emitter, init)
    ys = [emitter.full(fake, 0) for fake in rest]
    scanned, more = _operands(emitter, xs), _operands(emitter, additional)
    groups = [start, ys, scanned, more]
    ends = [sum(len(group) for group in groups[: i + 1]) for i in range(len(groups))]
    slices = [_slice_of(operand.fake) for operand in scanned]
    state = _random_state(emitter, combine)
    blocks = [0]

    def step(builder: Any, i: int, ids: list[int]) -> list[int]:
        inner = emitter.region(builder)
        _hand_over(builder, ids[ends[-1] :])
        carry, written, whole, kept = (
            ids[begin:end] for begin, end in zip((0, *ends), ends, strict=False)
        )
        zero = builder.constant(torch.int64, [], bytes(8))
        x = []
        for id_, fake in zip(whole, slices, strict=True):
            position = [i, *[zero] * fake.dim()]
            part = builder.dynamic_slice(id_, position, [1, *fake.shape])
            x.append(Operand(builder.reshape(part, list(fake.shape)), fake))
        results = inner.emit(
            combine,
            [
                *_rewrap(carry, start),
                *x,
                *_rewrap(kept, more),
            ],
        )
        leaves = _operands(inner, tree_leaves(results))
        new = [
            builder.convert(leaf.id, fake.dtype)
            for leaf, fake in zip(leaves, carried, strict=False)
        ]
        filled = []
        for id_, leaf in zip(written, leaves[len(carry) :], strict=True):
            shape = list(leaf.fake.shape)
            row = builder.reshape(leaf.id, [1, *shape])
            filled.append(
                builder.dynamic_update_slice(id_, row, [i, *[zero] * len(shape)])
            )
        blocks.append(_used(builder))
        following = builder.random_state() if state else ()
        return [*new, *filled, *whole, *kept, *following]

    start_ids = [o.id for group in groups for o in group]
    ids = _count_up(emitter, length, [*start_ids, *state], step)
    if state:
        emitter.builder.skip_random_blocks(length * max(blocks))
    return _wrap(ids[: ends[1]], result)


def _rewrap(ids: Sequence[int], operands: Sequence[Operand]) -> list[Operand]:
    return [Operand(id_, o.fake) for id_, o in zip(ids, operands, strict=True)]


def _slice_of(fake: Any) -> Any:
    with fake.fake_mode:
        return torch.empty(fake.shape[1:], dtype=fake.dtype, device=fake.device)


def _count_up(
    emitter: Emitter,
    length: int,
    init: list[int],
    step: Callable[[Any, int, list[int]], list[int]],
) -> list[int]:
    """``for i in range(length): state = step(builder, i, state)``."""
    counter = emitter.constant(torch.tensor(0))

    def condition(builder: Any, ids: list[int]) -> list[int]:
        limit = emitter.region(builder).constant(torch.tensor(length))
        types = [(torch.bool, [])]
        return builder.call("aten::lt.Tensor", _values(ids[0], limit.id), types)

    def body(builder: Any, ids: list[int]) -> list[int]:
        one = emitter.region(builder).constant(torch.tensor(1))
        arguments = [*_values(ids[0], one.id), 1]
        following = builder.call("aten::add.Tensor", arguments, [(torch.int64, [])])
        return following + step(builder, ids[0], ids[1:])

    return emitter.builder.while_loop([counter.id, *init], condition, body)[1:]


def _values(*ids: int) -> list[Any]:
    return [_C.Value(id_) for id_ in ids]


def _map(
    emitter: Emitter,
    result: Any,
    function: GraphModule,
    xs: Sequence[Any],
    more: Sequence[Any] = (),
) -> Any:
    return _scan(emitter, result, function, (), xs, more)


def _invoke_subgraph(
    emitter: Emitter, result: Any, module: GraphModule, name: Any, *operands: Any
) -> Any:
    return emitter.emit(module, operands)


def _block_rows(query: Operand, key: Operand) -> int:
    """Queries of a block: a divisor of their number, or all of them."""
    batch, heads, length, _ = query.fake.shape
    rows = max(1, _SCORE_BYTES // max(1, 4 * batch * heads * key.fake.shape[2]))
    if length <= rows:
        return length
    while length % rows:
        rows -= 1
    return rows


def _start_of_block(inner: Emitter, i: int, rows: int) -> tuple[Operand, list[int]]:
    """The number of the first query of block ``i``, and its position in the queries
    (batch, head, query, element)."""
    zero = inner.builder.constant(torch.int64, [], bytes(8))
    size = inner.constant(torch.tensor(rows))
    product = inner.builder.call(
        "aten::mul.Tensor", _values(i, size.id), [(torch.int64, [])]
    )
    first = Operand(product[0], size.fake)
    return first, [zero, zero, first.id, zero]


def _flex_attention(
    emitter: Emitter,
    result: Any,
    query: Operand,
    key: Operand,
    value: Operand,
    score_mod: Any,
    block_mask: tuple,
    scale: float,
    options: dict[str, Any],
    score_buffers: tuple = (),
    mask_buffers: tuple = (),
) -> Any:
    """Blocks of queries in a loop, so that the scores of one are held at a time."""
    batch, heads, length, width = query.fake.shape
    rows = _block_rows(query, key)
    mask_mod = block_mask[-1]

    def attention(query: Any, key: Any, value: Any, first: Any, *more: Any) -> Any:
        scores, masks = more[: len(score_buffers)], more[len(score_buffers) :]

        def score(s: Any, b: Any, h: Any, m: Any, n: Any, *buffers: Any) -> Any:
            return score_mod(s, b, h, m + first, n, *buffers)

        def mask(b: Any, h: Any, m: Any, n: Any, *buffers: Any) -> Any:
            return mask_mod(b, h, m + first, n, *buffers)

        masked = (*block_mask[:-1], mask)
        return sdpa_dense(
            query, key, value, score, masked, scale, options, scores, masks
        )

    fixed = _operands(emitter, (key, value, *score_buffers, *mask_buffers))
    if length == rows:
        zero = emitter.constant(torch.tensor(0))
        return emitter.trace(attention, (query, *fixed[:2], zero, *fixed[2:]), {})
    with emitter.mode:
        block = torch.empty((batch, heads, rows, width), dtype=query.fake.dtype)
    outputs = [emitter.full(fake, 0) for fake in result]

    def step(builder: Any, i: int, ids: list[int]) -> list[int]:
        inner = emitter.region(builder)
        first, start = _start_of_block(inner, i, rows)
        whole, *rest = ids[len(outputs) :]
        part = builder.dynamic_slice(whole, start, list(block.shape))
        given = _rewrap(rest, fixed)
        q = Operand(part, block.to(emitter.device))
        made = inner.trace(attention, (q, *given[:2], first, *given[2:]), {})
        filled = [
            builder.dynamic_update_slice(id_, leaf.id, start[: leaf.fake.dim()])
            for id_, leaf in zip(ids, made, strict=False)
        ]
        return [*filled, whole, *rest]

    state = [o.id for o in (*outputs, query, *fixed)]
    ids = _count_up(emitter, length // rows, state, step)
    return _wrap(ids[: len(outputs)], result)


def _flex_attention_backward(
    emitter: Emitter,
    result: Any,
    query: Operand,
    key: Operand,
    value: Operand,
    out: Operand,
    logsumexp: Operand,
    grad_out: Operand | None,
    grad_logsumexp: Operand | None,
    score_mod: Any,
    joint_mod: Any,
    block_mask: tuple,
    scale: float,
    options: dict[str, Any],
    score_buffers: tuple = (),
    mask_buffers: tuple = (),
) -> Any:
    """As the forward; what all queries give keys, values and captured tensors adds
    up over the blocks."""
    length = query.fake.shape[2]
    rows = _block_rows(query, key)
    mask_mod = block_mask[-1]
    by_query = [query, out, logsumexp, grad_out, grad_logsumexp]
    given = [i for i, operand in enumerate(by_query) if operand is not None]

    def backward(first: Any, *operands: Any) -> Any:
        at_hand: list[Any] = [None] * len(by_query)
        for i, operand in zip(given, operands, strict=False):
            at_hand[i] = operand
        key, value, *buffers = operands[len(given) :]
        # Only captured tensors that require gradients get some.
        captured = [
            buffer if gradient is None else buffer.detach().requires_grad_()
            for buffer, gradient in zip(buffers, result[3], strict=False)
        ]

        def score(s: Any, b: Any, h: Any, m: Any, n: Any, *more: Any) -> Any:
            return score_mod(s, b, h, m + first, n, *more)

        def joint(s: Any, b: Any, h: Any, m: Any, n: Any, *more: Any) -> Any:
            return joint_mod(s, b, h, m + first, n, *more)

        def mask(b: Any, h: Any, m: Any, n: Any, *more: Any) -> Any:
            return mask_mod(b, h, m + first, n, *more)

        q, *rest = at_hand
        *gradients, more = sdpa_dense_backward(
            q,
            key,
            value,
            *rest,
            score,
            joint,
            (*block_mask[:-1], mask),
            scale,
            options,
            tuple(captured),
            tuple(buffers[len(score_buffers) :]),
        )
        return *gradients, *(x for x in more if isinstance(x, torch.Tensor))

    def tree(leaves: Sequence[Any]) -> Any:
        more = iter(leaves[3:])
        captured = tuple(None if x is None else next(more) for x in result[3])
        return (*leaves[:3], captured)

    sliced = _operands(emitter, [by_query[i] for i in given])
    fixed = _operands(emitter, (key, value, *score_buffers, *mask_buffers))
    if length == rows:
        zero = emitter.constant(torch.tensor(0))
        return tree(emitter.trace(backward, (zero, *sliced, *fixed), {}))
    fakes = [*result[:3], *(x for x in result[3] if x is not None)]
    # Sums are of float32.
    with emitter.mode:
        sums = [torch.empty_like(x, dtype=torch.float32) for x in fakes[1:]]
        blocks = [
            x.fake.new_empty([*x.fake.shape[:2], rows, *x.fake.shape[3:]])
            for x in sliced
        ]
    outputs = [emitter.full(fake, 0) for fake in (fakes[0], *sums)]

    def step(builder: Any, i: int, ids: list[int]) -> list[int]:
        inner = emitter.region(builder)
        first, start = _start_of_block(inner, i, rows)
        wholes = ids[len(outputs) : len(outputs) + len(sliced)]
        rest = ids[len(outputs) + len(sliced) :]
        parts = [
            Operand(
                builder.dynamic_slice(id_, start[: fake.dim()], list(fake.shape)), fake
            )
            for id_, fake in zip(wholes, blocks, strict=True)
        ]
        made = inner.trace(backward, (first, *parts, *_rewrap(rest, fixed)), {})
        filled = [builder.dynamic_update_slice(ids[0], made[0].id, start)]
        for id_, leaf, fake in zip(ids[1:], made[1:], sums, strict=False):
            part = builder.convert(leaf.id, torch.float32)
            types = [(torch.float32, list(fake.shape))]
            filled += builder.call("aten::add.Tensor", [*_values(id_, part), 1], types)
        return [*filled, *wholes, *rest]

    state = [o.id for o in (*outputs, *sliced, *fixed)]
    ids = _count_up(emitter, length // rows, state, step)
    return tree(
        [
            Operand(emitter.builder.convert(id_, fake.dtype), fake)
            for id_, fake in zip(ids, fakes, strict=False)
        ]
    )


def _run_with_rng_state(
    emitter: Emitter,
    result: Any,
    op: OpOverload,
    *args: Any,
    rng_state: Any = None,
    **kwargs: Any,
) -> Any:
    """A random operator of a checkpointed region draws from a generator of its own,
    so that the recomputation draws the same numbers."""
    if result is None:  # partitioners give the node no meta
        fakes = tree_map(lambda x: x.fake if isinstance(x, Operand) else x, args)
        with emitter.mode:
            result = op(*fakes, **kwargs)
    arguments = positional(op, args, kwargs)
    call = random_operators.find(op, arguments)
    if call is None:
        return emitter.call(op, args, kwargs, result)
    return emitter.draw(*call, result, generator=rng_state)


_RULES: dict[HigherOrderOperator, Callable[..., Any]] = {
    cond_op: _cond,
    while_loop_op: _while_loop,
    scan_op: _scan,
    map_impl: _map,
    invoke_subgraph: _invoke_subgraph,
    flex_attention: _flex_attention,
    flex_attention_backward: _flex_attention_backward,
    graphsafe_run_with_rng_state: _run_with_rng_state,
}
