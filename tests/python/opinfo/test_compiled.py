# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operator database under ``torch.compile(backend="neuron")``: one sample
of each entry, forward and backward, and with dynamic shapes.

A third of the entries, unless TORCH_NEURONX_OPINFO=all (`make test-operators`).
"""

import re

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed
from torch.testing._internal.common_device_type import (
    instantiate_device_type_tests,
    ops,
)
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestCase

import torch_neuronx
from opinfo import compare
from opinfo.exceptions import FORWARD, METADATA_ONLY, find
from opinfo.test_opinfo import gradients, outputs
from torch_neuronx.graphs import GraphError

SHARDS = 3
ENTRIES = [op for op in op_db if op.full_name not in METADATA_ONLY]
if not compare.EXHAUSTIVE:
    ENTRIES = ENTRIES[::SHARDS]

# Why a graph has no program although the operator alone does not use the host.
NO_PROGRAM = re.compile(
    "depends on the data of a tensor"  # sizes that only the data gives
    "|_linalg_check_errors"  # an error that only the data gives
    "|has no device representation|view_as_real|view_as_complex"  # complex, float64
    "|reads memory outside the tensor"  # as_strided over more than its operand
)
# How fake tensors fail in a kernel of the device.
NO_META = re.compile("Cannot access data pointer of Tensor")


def first_sample(op, requires_grad):
    """With a tensor that has elements, if there is one."""
    found = list(compare.samples(op, torch.float32, requires_grad))
    tensors = [
        sample
        for sample in found
        if isinstance(sample.input, torch.Tensor) and sample.input.numel() > 1
    ]
    return (tensors or found or [None])[0]


def detached(sample):
    def clone(x):
        if not isinstance(x, torch.Tensor):
            return x
        return x.detach().clone().requires_grad_(x.requires_grad)

    return compare.mapped(clone, sample)


class TestCompiledOperators(TestCase):
    def setUp(self):
        super().setUp()
        torch._dynamo.reset()

    @ops(ENTRIES, allowed_dtypes=(torch.float32,))
    def test_static(self, device, dtype, op):
        self.check(op, dynamic=False)

    @ops(
        ENTRIES[:: 1 if compare.EXHAUSTIVE else SHARDS], allowed_dtypes=(torch.float32,)
    )
    def test_dynamic(self, device, dtype, op):
        self.check(op, dynamic=True)

    def check(self, op, dynamic):
        if row := find(op.full_name, FORWARD, torch.float32):
            self.skipTest(row.reason)
        sample = first_sample(op, requires_grad=op.supports_autograd)
        if sample is None:
            self.skipTest("the entry has no sample")
        cpu, device = compare.on_cpu(sample), compare.on_device(sample)
        before = detached(cpu)
        try:
            wanted = compare.call(op, detached(before))
        except Exception:
            self.skipTest("the CPU refuses the sample")

        def function(input, *args, **kwargs):
            return op.op(input, *args, **kwargs)

        def compile(backend):
            return torch.compile(
                function, backend=backend, fullgraph=True, dynamic=dynamic
            )

        try:
            actual = compare.call(compile("neuron"), device)
        except (BackendCompilerFailed, GraphError) as error:
            cause = getattr(error, "inner_exception", error)
            self.assertIsInstance(cause, GraphError)
            self.check_host(op, compare.on_device(sample), error)
            return
        except Exception as error:
            if NO_META.search(str(error)):
                self.skipTest("PyTorch has no meta function of the operator")
            # What Dynamo or AOTAutograd cannot capture at all.
            torch._dynamo.reset()
            try:
                compare.call(compile("aot_eager"), detached(before))
            except Exception as other:
                self.skipTest(f"PyTorch does not capture it: {type(other).__name__}")
            raise error
        compare.assert_same(actual, wanted, strides=False)
        self.check_backward(op, before, device, actual)

    def check_host(self, op, device, error):
        """Only operators of the host have no program."""
        if NO_PROGRAM.search(str(error)):
            return
        torch_neuronx.clear_op_tracking()
        compare.call(op, device)
        self.assertTrue(torch_neuronx.get_fallback_ops(), str(error))
        torch_neuronx.clear_op_tracking()

    def check_backward(self, op, cpu, device, results):
        actual = outputs(results)
        if not cpu.tensors or not actual:
            return
        wanted = outputs(compare.call(op, cpu))
        seeds = [torch.randn_like(x) for x in wanted]
        try:
            expected = gradients(wanted, cpu.tensors, seeds)
        except RuntimeError:
            return
        try:
            given = gradients(actual, device.tensors, [x.to("neuron") for x in seeds])
        except (BackendCompilerFailed, GraphError) as error:
            if NO_PROGRAM.search(str(error)):
                return
            torch_neuronx.clear_op_tracking()
            again = compare.on_device(cpu)
            eager = outputs(compare.call(op, again))
            gradients(eager, again.tensors, [x.to("neuron") for x in seeds])
            self.assertTrue(torch_neuronx.get_fallback_ops())
            torch_neuronx.clear_op_tracking()
            return
        for a, w in zip(given, expected, strict=True):
            if w is not None:
                zero = torch.zeros_like(w, device="neuron")
                compare.assert_same([zero if a is None else a], [w], strides=False)


instantiate_device_type_tests(TestCompiledOperators, globals(), only_for="cpu")
pytestmark = pytest.mark.timeout(120)
