# SPDX-License-Identifier: Apache-2.0
"""Counters of what would otherwise happen silently."""

from torch_neuronx import _C


def metrics() -> dict[str, int]:
    """Counts since the start or ``reset_metrics``: launches, cache
    misses, programs compiled, decompositions, fallbacks, bytes copied..."""
    return _C.metrics()


def reset_metrics() -> None:
    """Sets every count to zero."""
    _C.reset_metrics()
