# SPDX-License-Identifier: Apache-2.0
"""Expresses an operator that has no lowering by ones that have, with PyTorch's own
decompositions. Runs once per cache key, for the result is cached as a Program."""

from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from torch_neuronx.lowering import Emitter, Operand, Undecomposable, run_apart

# Why the last decomposition of an operator failed, for the fallback's report.
failures: dict[str, str] = {}


def decompose(builder: Any, name: str, args: tuple, kwargs: dict[str, Any]) -> bool:
    """Adds the operator's decomposition to ``builder``.

    Args:
        builder: ``parameter(i)`` is the value of the call's i-th tensor,
            ``call(name, args, result_types)`` adds a lowered operator and gives the
            ids of its results, ``finish(ids)`` ends with those (-1: undefined).
        name: the functional overload, as in ``"aten::lerp.Scalar"``.
        args, kwargs: the call's arguments, with meta tensors in place of tensors.

    Returns False, and notes why in ``failures``, when it cannot.
    """
    try:
        run_apart(
            lambda: _decompose(builder, find_op(name), args, kwargs),
            name=f"decompose {name}",
        )
    except Exception as error:
        failures[name] = str(error).split("\n")[0] or type(error).__name__
        return False
    failures.pop(name, None)
    return True


def find_op(name: str) -> OpOverload:
    """The overload that ``"aten::add.Tensor"`` or ``"aten::relu"`` names."""
    namespace, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    return getattr(
        getattr(getattr(torch.ops, namespace), packet), overload or "default"
    )


def _decompose(
    builder: Any, op: OpOverload, args: tuple, kwargs: dict[str, Any]
) -> None:
    if op._schema.is_mutable:
        raise Undecomposable(f"{op.name()} writes to its arguments")
    emitter = Emitter(builder, FakeTensorMode(allow_fallback_kernels=False))
    leaves, spec = tree_flatten((args, kwargs))
    count = 0
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor):
            fake = FakeTensor(emitter.mode, leaf.detach(), emitter.device)
            leaves[i] = Operand(builder.parameter(count), fake)
            count += 1
    results = emitter.inline(op, *tree_unflatten(leaves, spec), depth=0)
    leaves, _ = tree_flatten(results, is_leaf=lambda leaf: leaf is None)
    if any(isinstance(leaf, (bool, int, float)) for leaf in leaves):
        raise Undecomposable(f"{op.name()} gives a number")
    builder.finish([-1 if leaf is None else leaf.id for leaf in leaves])
