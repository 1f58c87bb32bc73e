# SPDX-License-Identifier: Apache-2.0
"""The ``torch.compile`` backend "neuron". Not built yet: it says so."""

from collections.abc import Callable
from typing import Any

import torch

_model_name = ""


def neuron_backend(
    graph: torch.fx.GraphModule, example_inputs: list[Any], **options: Any
) -> Callable[..., Any]:
    """What ``torch.compile(backend="neuron")`` calls for each graph."""
    raise NotImplementedError(
        'torch.compile(backend="neuron") is not implemented yet. Run the model '
        'without torch.compile, or with backend="aot_eager" to check that it traces'
    )


def set_model_name(name: str) -> None:
    """Labels what is compiled from now on."""
    global _model_name
    _model_name = str(name)


def get_dynamo_metrics() -> dict[str, int]:
    """Graphs compiled by this backend: none yet."""
    return {"graphs": 0}


def reset_dynamo_metrics() -> None:
    """Sets the counts of ``get_dynamo_metrics`` to zero."""
