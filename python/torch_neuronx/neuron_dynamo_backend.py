# SPDX-License-Identifier: Apache-2.0
"""The ``torch.compile`` backend "neuron": AOTAutograd's forward and backward graphs
become programs (graphs.py)."""

import functools
import os
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from typing import Any

import torch
from torch._decomp import core_aten_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._ops import OpOverload
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves

from torch_neuronx import bucketing, graphs, padding, random_operators, regions
from torch_neuronx.decompositions import decompositions as written_decompositions
from torch_neuronx.lowering import EMPTIES, lowered

__all__ = [
    "get_dynamo_metrics",
    "neuron_backend",
    "reset_dynamo_metrics",
    "set_model_name",
]

_model_name = ""

aten = torch.ops.aten

# What they save for the gradient has the shapes of ATen's CPU kernels here, those of
# its CUDA kernels in PyTorch's meta kernels.
_SHAPED_OTHERWISE = (
    aten._embedding_bag.default,
    aten._embedding_bag_forward_only.default,
)


def neuron_backend(
    graph: GraphModule,
    example_inputs: list[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    **more: Any,
) -> Callable[..., Any]:
    """What ``torch.compile(backend="neuron")`` calls for each graph.

    Args:
        graph: of Dynamo.
        example_inputs: fake tensors and numbers.
        mode: has no effect but for a warning, unless it is "default".
        options: ``buckets`` pads dimensions (bucketing.py); ``model_name`` labels
            errors and artefacts (see ``set_model_name``); ``fallback_execution`` runs
            a graph that cannot be compiled operator by operator instead of raising,
            and wins over
            ``TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION``. Others are reported once.

    Raises GraphError for a graph that has no program.
    """
    given = {**(options or {}), **more}
    rules = bucketing.rules(given.pop("buckets", None))
    settings = replace(
        _settings(mode, given),
        buckets=bucketing.symbols(rules, graph, graphs.warn_once) if rules else {},
    )
    compilers = {
        f"{name}_compiler": functools.partial(_compile, replace(settings, kind=kind))
        for name, kind in {
            "fw": "forward",
            "bw": "backward",
            "inference": "inference",
        }.items()
    }
    return aot_autograd(
        **compilers,
        decompositions=decompositions(),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )(graph, example_inputs)


def set_model_name(name: str) -> None:
    """Labels what is compiled from now on."""
    global _model_name
    _model_name = str(name)


def get_dynamo_metrics() -> dict[str, int | float]:
    """Counts since the start or ``reset_dynamo_metrics``.

    ``graphs``: captured graphs, forward and backward; ``programs``: one for each
    combination of shapes; ``lowering_seconds``: spent on turning graphs into
    programs, without compiling these; ``fallbacks``: graphs that run operator by
    operator; ``cpu_graphs``: graphs without a neuron tensor, left to the CPU.
    """
    return asdict(graphs.counts)


def reset_dynamo_metrics() -> None:
    """Sets the counts of ``get_dynamo_metrics`` to zero."""
    for entry in fields(graphs.counts):
        setattr(graphs.counts, entry.name, type(getattr(graphs.counts, entry.name))())


@functools.cache
def decompositions() -> dict[OpOverload, Callable[..., Any]]:
    """What AOTAutograd takes apart: core ATen's decompositions of operators that
    have no lowering here. Others follow when the graph becomes a program."""
    written = written_decompositions()
    return {op: written[op] for op in _SHAPED_OTHERWISE} | {
        op: function
        for op, function in core_aten_decompositions().items()
        if isinstance(op, OpOverload)
        and op.name() not in lowered()
        and op not in EMPTIES
        and op not in random_operators.RULES
    }


def _compile(
    settings: graphs.Settings, module: GraphModule, args: list[Any]
) -> Callable[..., Any]:
    if not _uses_neuron(module):
        graphs.counts.cpu_graphs += 1
        return graphs.boxed(module.forward)
    if regions.repeated(module):
        one = functools.partial(_compile, settings)
        return regions.compile(module, args, one)
    pads = padding.applies(module, settings)
    graph = padding.PaddedGraph if pads else graphs.Graph
    return graph(module, settings).compile(args)


def _uses_neuron(module: GraphModule) -> bool:
    return any(
        isinstance(leaf, torch.Tensor) and leaf.device.type == "neuron"
        for node in module.graph.nodes
        for leaf in tree_leaves(node.meta.get("val"))
    )


def _settings(mode: str | None, options: dict[str, Any]) -> graphs.Settings:
    if mode not in (None, "default"):
        graphs.warn_once(f"torch.compile(mode={mode!r}) has no effect on neuron")
    disabled = os.environ.get("TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION", "1")
    name = options.pop("model_name", _model_name)
    fallback = options.pop("fallback_execution", disabled.lower() in ("0", "false"))
    for option in options:
        graphs.warn_once(
            f"torch.compile(options={{{option!r}: ...}}) has no effect on neuron"
        )
    return graphs.Settings(str(name), fallback=bool(fallback))
