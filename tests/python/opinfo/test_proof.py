# SPDX-License-Identifier: Apache-2.0
"""Every program that PyTorch's operator database reaches, forward and backward, is
right on hardware's terms: its StableHLO, composites expanded, in the form that breaks
no rule of the compiler's, run by XLA; with TORCH_NEURONX_SIM_NUMERICS=decomposed run
by the simulator, operation by operation.

TORCH_NEURONX_PROOF_CALLS=0 proves every different call, not the first few of each
operator and dtype.
"""

import json
import os
import sys
from collections import defaultdict
from dataclasses import asdict

import pytest
import torch
from torch.testing._internal.common_device_type import (
    instantiate_device_type_tests,
    ops,
)
from torch.testing._internal.common_methods_invocations import (
    foreach_binary_op_db,
    foreach_other_op_db,
    foreach_pointwise_op_db,
    foreach_reduce_op_db,
    foreach_unary_op_db,
    op_db,
)
from torch.testing._internal.common_utils import TestCase

import torch_neuronx
from cases import all_cases
from opinfo import compare, proof

if not compare.EXHAUSTIVE:  # before thousands are made and skipped one by one
    pytest.skip("part of make test-operators", allow_module_level=True)

# Of each operator and dtype in one process.
CALLS = int(os.environ.get("TORCH_NEURONX_PROOF_CALLS", "4")) or sys.maxsize

recorder = proof.Recorder(CALLS)


DATABASE = [*op_db, *foreach_unary_op_db, *foreach_binary_op_db]
DATABASE += [*foreach_pointwise_op_db, *foreach_reduce_op_db, *foreach_other_op_db]

CASES = defaultdict(list)
for case in all_cases():
    CASES[case[0].name()].append(case)


def prove(calls, record_property, executed=(), host=None) -> None:
    proofs, failures = [], []
    for call in calls:
        try:
            proved = proof.prove(call)
        except Exception as error:
            text = str(error).strip().replace("\n", " ")
            failures.append(f"{call}: {type(error).__name__}: {text[:400]}")
        else:
            if proved is not None:
                proofs.append(asdict(proved))
    # What report.py makes docs/operators.md of.
    reached = {"executed": list(executed), "host": host or {}, "proofs": proofs}
    record_property("reached", json.dumps(reached))
    if failures:
        pytest.fail("\n".join(failures))


class TestProof(TestCase):
    @pytest.fixture(autouse=True)
    def _recorded(self, record_property):
        self.record_property = record_property

    @ops(DATABASE, allowed_dtypes=(torch.float32, torch.int64))
    def test_hardware_program(self, device, dtype, op):
        recorder.calls.clear()
        host = proof.record(recorder, op, dtype)
        prove(
            recorder.calls,
            self.record_property,
            torch_neuronx.get_executed_ops(),
            host,
        )


@pytest.mark.parametrize("name", sorted(CASES))
def test_hardware_program_of_cases(name, record_property):
    calls = [
        proof.Call(op, *proof.to_device((args, kwargs)))
        for op, args, kwargs in CASES[name][:CALLS]
    ]
    prove(calls, record_property)


instantiate_device_type_tests(TestProof, globals(), only_for="privateuse1")
