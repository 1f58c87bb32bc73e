# SPDX-License-Identifier: Apache-2.0
"""Where the device may differ from PyTorch's CPU, and why: one row each.

``python tests/python/opinfo/report.py`` writes docs/operators.md with this table.
A test that an exception covers must fail, so that no row outlives its reason.
"""

from dataclasses import dataclass

import torch

# What is tested of an entry.
FORWARD, BACKWARD, DOUBLE_BACKWARD = "forward", "backward", "double backward"
OUT, IN_PLACE, ERRORS = "out=", "in-place", "errors"


@dataclass(frozen=True)
class Exception_:
    """An entry of PyTorch's operator database that may differ."""

    op: str  # OpInfo.full_name
    reason: str
    tests: tuple[str, ...] = ()  # all if empty
    dtypes: tuple[torch.dtype, ...] = ()  # all if empty


_SPARSE = "sparse layouts have no device representation"
_UNINITIALISED = "the memory is uninitialised: only its metadata is compared"

EXCEPTIONS: list[Exception_] = [
    *(
        Exception_(op, _SPARSE)
        for op in ("sparse.sampled_addmm", "sparse.mm.reduce", "to_sparse")
    ),
    Exception_(
        "tensor_split",
        "core reads a tensor of split points on the CPU; the test moves it",
        (FORWARD, BACKWARD, DOUBLE_BACKWARD),
    ),
    *(
        Exception_(
            op,
            "out= may be an operand itself: the program reads before it writes",
            (ERRORS,),
        )
        for op in ("cat", "gather", "kthvalue", "masked_select", "take")
    ),
    Exception_(
        "index_select",
        "an expanded out= of another size is resized, which ends its overlap",
        (ERRORS,),
    ),
    *(
        Exception_(
            op,
            "statistics are float32, as on other accelerators; the CPU rounds them",
            (FORWARD,),
            (torch.bfloat16, torch.float16),
        )
        for op in (
            "_batch_norm_with_update",
            "_native_batch_norm_legit",
            "native_batch_norm",
            "native_layer_norm",
        )
    ),
    *(
        Exception_(
            op,
            "PyTorch's own error: out= is not written, on the CPU neither, if one "
            "dimension is transformed",
            (OUT,),
        )
        for op in ("fft.ihfft2", "fft.ihfftn")
    ),
]

# bfloat16 and float16 on CPUs whose kernels round partial sums to that type: the
# device is compared with the CPU's float32 results, rounded once.
ROUNDED_SUMS: dict[str, str] = dict.fromkeys(
    (
        "nn.functional.conv_transpose1d",
        "nn.functional.conv_transpose2d",
        "nn.functional.conv_transpose3d",
    ),
    "the device sums products in float32; some CPU kernels round partial sums",
)

# Results that are random or uninitialised: shapes, dtypes and devices are compared
# here, distributions in test_random.py.
METADATA_ONLY: dict[str, str] = {
    **dict.fromkeys(
        (
            "empty",
            "empty_like",
            "empty_permuted",
            "empty_strided",
            "new_empty",
            "new_empty_strided",
        ),
        _UNINITIALISED,
    ),
    **dict.fromkeys(
        (
            "bernoulli",
            "cauchy",
            "exponential",
            "geometric",
            "log_normal",
            "multinomial",
            "normal",
            "normal.in_place",
            "normal.number_mean",
            "uniform",
            "rand_like",
            "randint",
            "randint_like",
            "randn",
            "randn_like",
            "nn.functional.dropout",
            "nn.functional.dropout2d",
            "nn.functional.dropout3d",
            "nn.functional.alpha_dropout",
            "nn.functional.feature_alpha_dropout.with_train",
            "nn.functional.fractional_max_pool2d",
            "nn.functional.fractional_max_pool3d",
            "nn.functional.multi_head_attention_forward",
            "nn.functional.rrelu",
            "pca_lowrank",
            "svd_lowrank",
        ),
        "the device draws other numbers than the CPU: its generator is Philox",
    ),
}


def find(op: str, test: str, dtype: torch.dtype | None = None) -> Exception_ | None:
    """The row that covers ``test`` of the entry ``op`` for ``dtype``."""
    for row in EXCEPTIONS:
        if (
            row.op == op
            and (not row.tests or test in row.tests)
            and (not row.dtypes or dtype in row.dtypes)
        ):
            return row
    return None
