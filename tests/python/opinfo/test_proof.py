# SPDX-License-Identifier: Apache-2.0
"""Every program that PyTorch's operator database reaches, forward and backward, is
right on hardware's terms: its StableHLO, composites expanded, run by XLA.

TORCH_NEURONX_PROOF_CALLS=0 proves every different call, not the first few of each
operator.
"""

import os
import sys

import pytest
import torch
from torch.testing._internal.common_device_type import (
    instantiate_device_type_tests,
    ops,
)
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestCase

from opinfo import compare, proof
from opinfo.exceptions import PROOF, find

# Of each operator in one process.
CALLS = int(os.environ.get("TORCH_NEURONX_PROOF_CALLS", "4")) or sys.maxsize

recorder = proof.Recorder(CALLS)


class TestProof(TestCase):
    @ops(op_db, allowed_dtypes=(torch.float32, torch.int64))
    def test_hardware_program(self, device, dtype, op):
        if not compare.EXHAUSTIVE:
            self.skipTest("part of make test-operators")
        if dtype == torch.int64 and torch.float32 in op.supported_dtypes("cpu"):
            self.skipTest("proven in float32")
        recorder.calls.clear()
        proof.record(recorder, op, dtype)
        failures = []
        for function, args, kwargs in recorder.calls:
            name = function.name()
            try:
                proof.prove(function, args, kwargs)
            except Exception as error:
                if find(name, PROOF, dtype) is None:
                    failures.append(f"{name}: {str(error).splitlines()[0]}")
        if failures:
            pytest.fail("\n".join(failures))


instantiate_device_type_tests(TestProof, globals(), only_for="privateuse1")
