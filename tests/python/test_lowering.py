# SPDX-License-Identifier: Apache-2.0
"""Each lowering's StableHLO, run by XLA, gives what PyTorch gives on the CPU; so does
the same call on the device."""

import pytest
import torch
from torch.utils._pytree import tree_leaves, tree_map, tree_structure

import torch_neuronx
import xla
from cases import all_cases

CASES = all_cases()
IDS = [f"{op.name()}-{i}" for i, (op, _, _) in enumerate(CASES)]


def to_device(tree):
    return tree_map(
        lambda x: x.to("neuron") if isinstance(x, torch.Tensor) else x, tree
    )


def defined(tree):
    return [x for x in tree_leaves(tree) if isinstance(x, torch.Tensor)]


def extent(x):
    """The memory that a dense view covers: what the program's parameter is."""
    return x if x.is_contiguous() else x.as_strided([x.numel()], [1])


def assert_same(actual, expected):
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        assert a.dtype == e.dtype and a.shape == e.shape
        torch.testing.assert_close(a, e, rtol=2e-5, atol=2e-5, equal_nan=True)


@pytest.mark.parametrize("op,args,kwargs", CASES, ids=IDS)
def test_hardware_program_equals_cpu(op, args, kwargs):
    expected = [x for x in defined(op(*args, **kwargs)) if x.numel()]
    program = torch_neuronx.program(op, *to_device(args), **to_device(kwargs))
    inputs = [extent(x) for x in defined((args, kwargs)) if x.numel()]
    assert len(inputs) == len(program.inputs)
    assert_same(xla.run(program.stablehlo, inputs), expected)


@pytest.mark.parametrize("op,args,kwargs", CASES, ids=IDS)
def test_device_equals_cpu(op, args, kwargs, no_fallback):
    results = op(*args, **kwargs), op(*to_device(args), **to_device(kwargs))
    assert tree_structure(results[0]) == tree_structure(results[1])
    expected, actual = map(defined, results)
    assert all(x.device.type == "neuron" for x in actual)
    assert_same([x.cpu() for x in actual], expected)
