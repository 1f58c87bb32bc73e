# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operator database on the device against its CPU kernels.

float32 only, unless TORCH_NEURONX_OPINFO=all (`make test-operators`).
TORCH_NEURONX_OPINFO_SAMPLES=0 runs every sample of every entry.
"""

import contextlib

import pytest
import torch
from torch.testing._internal.common_device_type import (
    instantiate_device_type_tests,
    ops,
)
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestCase, noncontiguous_like

from opinfo import compare
from opinfo.exceptions import (
    BACKWARD,
    DOUBLE_BACKWARD,
    ERRORS,
    FORWARD,
    IN_PLACE,
    METADATA_ONLY,
    OUT,
    ROUNDED_SUMS,
    find,
)

DIFFERENTIABLE = [op for op in op_db if op.supports_autograd]
SMALL_DTYPES = (
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
)


@contextlib.contextmanager
def expected(op, test: str, dtype: torch.dtype):
    """Fails where the table has an exception and the body passes."""
    row = find(op.full_name, test, dtype)
    if row is None:
        yield
        return
    try:
        yield
    except (Exception, pytest.fail.Exception):
        pytest.xfail(row.reason)
    pytest.fail(f"passes now, remove its exception: {row.reason}")


@contextlib.contextmanager
def told(sample):
    """Adds the arguments to a failure."""
    try:
        yield
    except Exception as error:
        error.add_note(f"arguments: {sample}")
        raise


def raises_on_cpu(function, sample) -> bool:
    try:
        compare.call(function, sample)
    except Exception:
        return True
    return False


def check_forward(op, dtype) -> None:
    values = op.full_name not in METADATA_ONLY
    for sample in compare.samples(op, dtype):
        cpu = compare.on_cpu(sample)
        for variant in (cpu, noncontiguous(cpu)):
            with told(variant):
                device = compare.on_device(variant)
                try:
                    wanted = compare.call(op, variant)
                except Exception as error:
                    if variant is cpu:
                        with pytest.raises(type(error)):
                            compare.call(op, device)
                    continue  # a layout that only the CPU's kernel refuses
                if dtype.itemsize == 2 and op.full_name in ROUNDED_SUMS:
                    wanted = rounded_once(op, variant, wanted)
                compare.assert_same(compare.call(op, device), wanted, values=values)


def rounded_once(op, sample, results) -> list:
    """``results`` with the values that float32 gives."""

    def wide(x):
        return x.float() if isinstance(x, torch.Tensor) else x

    exact = compare.call(op, compare.mapped(wide, sample))
    return [torch.empty_like(x).copy_(e) for x, e in zip(results, exact, strict=True)]


def noncontiguous(sample: compare.Sample) -> compare.Sample:
    def spread(x):
        return noncontiguous_like(x) if isinstance(x, torch.Tensor) else x

    return compare.mapped(spread, sample)


def outputs(results) -> list[torch.Tensor]:
    return [x for x in results if isinstance(x, torch.Tensor) and x.requires_grad]


def gradients(results, tensors, seeds, create_graph=False):
    return torch.autograd.grad(
        results, tensors, seeds, allow_unused=True, create_graph=create_graph
    )


class TestOperators(TestCase):
    @ops(op_db, allowed_dtypes=(torch.float32,))
    def test_forward(self, device, dtype, op):
        with expected(op, FORWARD, dtype):
            check_forward(op, dtype)

    if compare.EXHAUSTIVE:  # thousands that are skipped take minutes

        @ops(op_db, allowed_dtypes=SMALL_DTYPES)
        def test_forward_dtypes(self, device, dtype, op):
            with expected(op, FORWARD, dtype):
                check_forward(op, dtype)

    @ops(DIFFERENTIABLE, allowed_dtypes=(torch.float32,))
    def test_backward(self, device, dtype, op):
        with expected(op, BACKWARD, dtype):
            self.check_backward(op, dtype, double=False)

    @ops(
        [op for op in DIFFERENTIABLE if op.supports_gradgrad],
        allowed_dtypes=(torch.float32,),
    )
    def test_double_backward(self, device, dtype, op):
        with expected(op, DOUBLE_BACKWARD, dtype):
            self.check_backward(op, dtype, double=True)

    def check_backward(self, op, dtype, double):
        if op.full_name in METADATA_ONLY:
            self.skipTest(METADATA_ONLY[op.full_name])
        # Twice is slow: half of the samples will do.
        most = compare.SAMPLES
        if double and not compare.EXHAUSTIVE:
            most = (most + 1) // 2
        for sample in compare.samples(op, dtype, requires_grad=True, most=most):
            cpu, device = compare.on_cpu(sample), compare.on_device(sample)
            if not cpu.tensors or raises_on_cpu(op, cpu):
                continue
            with told(cpu):
                wanted = outputs(compare.call(op, cpu))
                actual = outputs(compare.call(op, device))
                self.assertEqual(len(actual), len(wanted))
                if not wanted:
                    continue
                seeds = [torch.randn_like(x) for x in wanted]
                device_seeds = [x.to("neuron") for x in seeds]
                if double:
                    seeds = [x.requires_grad_() for x in seeds]
                    device_seeds = [x.requires_grad_() for x in device_seeds]
                try:
                    cpu_gradients = gradients(wanted, cpu.tensors, seeds, double)
                except RuntimeError as error:
                    with pytest.raises(type(error)):
                        gradients(actual, device.tensors, device_seeds, double)
                    continue
                device_gradients = gradients(
                    actual, device.tensors, device_seeds, double
                )
                self.compare_gradients(device_gradients, cpu_gradients)
                if double:
                    self.check_second(
                        cpu,
                        device,
                        cpu_gradients,
                        device_gradients,
                        seeds,
                        device_seeds,
                    )

    def check_second(
        self, cpu, device, cpu_gradients, device_gradients, seeds, device_seeds
    ):
        first = [x for x in cpu_gradients if x is not None and x.requires_grad]
        again = [x for x in device_gradients if x is not None and x.requires_grad]
        self.assertEqual(len(again), len(first))
        if not first:
            return
        weights = [torch.randn_like(x) for x in first]
        try:
            wanted = gradients(first, [*cpu.tensors, *seeds], weights)
        except RuntimeError:
            return
        actual = gradients(
            again,
            [*device.tensors, *device_seeds],
            [x.to("neuron") for x in weights],
        )
        self.compare_gradients(actual, wanted)

    def compare_gradients(self, actual, wanted):
        for a, w in zip(actual, wanted, strict=True):
            self.assertEqual(a is None, w is None)
            if w is not None:
                compare.assert_same([a], [w], strides=False)

    @ops([op for op in op_db if op.supports_out], allowed_dtypes=(torch.float32,))
    def test_out(self, device, dtype, op):
        if op.full_name in METADATA_ONLY:
            self.skipTest(METADATA_ONLY[op.full_name])
        with expected(op, OUT, dtype):
            for sample in compare.samples(op, dtype):
                cpu, device_sample = compare.on_cpu(sample), compare.on_device(sample)
                if raises_on_cpu(op, cpu):
                    continue
                with told(cpu):
                    self.check_out(op, cpu, device_sample)

    def check_out(self, op, cpu, device):
        wanted = op(cpu.input, *cpu.args, **cpu.kwargs)
        results = [wanted] if isinstance(wanted, torch.Tensor) else wanted
        if (
            not isinstance(results, (list, tuple))
            or not all(isinstance(x, torch.Tensor) for x in results)
            or "as_tuple" in cpu.kwargs
        ):
            return

        def run(make):
            out = [make(x) for x in results]
            given = {"out": out[0] if isinstance(wanted, torch.Tensor) else tuple(out)}
            if isinstance(op.op, torch._ops.OpOverloadPacket):  # names of their own
                named = op.op.out._schema.arguments
                names = [a.name for a in named if a.is_out]
                given = dict(zip(names, out, strict=True))
            op(device.input, *device.args, **device.kwargs, **given)
            return out

        def empty(x):
            return torch.empty(0, dtype=x.dtype, device="neuron")

        def laid_out(x):
            # Every second element of a larger tensor.
            size = [*x.shape, 2]
            return torch.full(size, 7, dtype=x.dtype, device="neuron")[..., 0]

        compare.assert_same(run(empty), list(results), strides=False)
        compare.assert_same(run(laid_out), list(results), strides=False)

    @ops(
        [op for op in op_db if op.inplace_variant is not None],
        allowed_dtypes=(torch.float32,),
    )
    def test_in_place(self, device, dtype, op):
        if op.full_name in METADATA_ONLY:
            self.skipTest(METADATA_ONLY[op.full_name])
        variant = op.get_inplace()
        with expected(op, IN_PLACE, dtype):
            for sample in compare.samples(op, dtype):
                if sample.broadcasts_input:
                    continue
                cpu, device_sample = compare.on_cpu(sample), compare.on_device(sample)
                with told(cpu):
                    try:
                        wanted = compare.call(variant, cpu)
                    except Exception as error:
                        with pytest.raises(type(error)):
                            compare.call(variant, device_sample)
                        continue
                    actual = compare.call(variant, device_sample)
                    self.assertIs(actual[0], device_sample.input)
                    compare.assert_same(actual, wanted)

    @ops(
        [op for op in op_db if op.error_inputs_func is not None],
        allowed_dtypes=(torch.float32,),
    )
    def test_errors(self, device, dtype, op):
        with expected(op, ERRORS, dtype):
            for error in op.error_inputs("cpu"):
                cpu = compare.on_cpu(error.sample_input)
                device_sample = compare.on_device(error.sample_input)
                with told(cpu):
                    try:
                        compare.call(op, cpu)
                    except Exception as raised:
                        # Indices are data: reported at the next synchronisation.
                        with pytest.raises((type(raised), IndexError)):
                            compare.call(op, device_sample)
                            torch.neuron.synchronize()


instantiate_device_type_tests(TestOperators, globals(), only_for="privateuse1")
