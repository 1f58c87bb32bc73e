# SPDX-License-Identifier: Apache-2.0
"""Writes docs/operators.md: what each operator overload does on the device, and which
hardware programs are proven.

    python tests/python/opinfo/report.py

runs PyTorch's operator database (float32, forward and backward) on the simulator and
proves every program it reaches with XLA. aten_ops.csv lists the overloads that the
database of PyTorch 2.13 sends to a backend, with their class and the number of its
entries that use them.
"""

import csv
import os
import sys
import warnings
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parent))
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_ENABLE_X64", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import torch  # noqa: E402
from rich.progress import track  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

import torch_neuronx  # noqa: E402
from opinfo import proof  # noqa: E402
from opinfo.exceptions import EXCEPTIONS, METADATA_ONLY  # noqa: E402
from torch_neuronx import _C  # noqa: E402

CALLS = 4
BOUNDED = {
    "aten::nonzero",
    "aten::masked_select",
    "aten::_unique",
    "aten::_unique2",
    "aten::unique_dim",
    "aten::unique_dim_consecutive",
    "aten::unique_consecutive",
    "aten::repeat_interleave.Tensor",
    "aten::bincount",
}


def overloads() -> list[tuple[str, str]]:
    """(name as the dispatcher prints it, class)."""
    with (HERE / "aten_ops.csv").open() as file:
        return [
            (row["overload"].removesuffix(".default"), row["class"])
            for row in csv.DictReader(file)
        ]


def run_database() -> tuple[dict[str, str], Counter, Counter]:
    """Reasons of fallbacks by operator; programs proven, and failures, by name."""
    reasons: dict[str, str] = {}
    executed: Counter = Counter()
    recorder = proof.Recorder(CALLS)
    proven, failed = Counter(), Counter()
    for op in track(op_db, description="operators"):
        if torch.float32 not in op.supported_dtypes("cpu"):
            continue
        torch_neuronx.clear_op_tracking()
        recorder.calls.clear()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            proof.record(recorder, op, torch.float32)
        for name in torch_neuronx.get_fallback_ops():
            reasons.setdefault(name, reason(name, caught))
        executed.update(torch_neuronx.get_executed_ops())
        for function, args, kwargs in recorder.calls:
            try:
                if proof.prove(function, args, kwargs):
                    proven[function.name()] += 1
            except Exception:
                failed[function.name()] += 1
    # An operator that also runs on the device is on the host only for dtypes
    # that the hardware does not have.
    return (
        {k: v for k, v in reasons.items() if not executed[k]},
        proven,
        failed,
    )


def reason(name: str, caught: list[warnings.WarningMessage]) -> str:
    for warning in caught:
        text = str(warning.message)
        if text.startswith(f"[{name}] is not implemented"):
            return text.split("CPU (", 1)[1].split("); called from")[0]
    return "float64, complex and unsigned types compute on the host"


def status(name: str, host: dict[str, str], lowered: set[str]) -> str:
    if name in host:
        return "host"
    if name in BOUNDED:
        return "bounded device program"
    functional = _C.functional_name(name)
    if name in lowered or functional in lowered:
        return "device: lowering"
    schema = torch._C._jit_get_schemas_for_operator(name.partition(".")[0])
    if any(
        s.overload_name == name.partition(".")[2]
        and any(a.alias_info and not a.alias_info.is_write for a in s.arguments)
        for s in schema
    ):
        return "device: view"
    return "device: decomposition"


def main() -> None:
    host, proven, failed = run_database()
    lowered = set(_C.lowered_ops())
    rows = [(name, c, status(name, host, lowered)) for name, c in overloads()]
    counts = Counter(s for _, _, s in rows)
    lines = [
        "# Operators",
        "",
        "Written by `python tests/python/opinfo/report.py`; do not edit.",
        "",
        f"PyTorch {torch.__version__.split('+')[0]}'s operator database sends "
        f"{len(rows)} overloads to a backend (float32, forward and backward). What "
        "they do here:",
        "",
        "| status | overloads |",
        "|---|---|",
        *(f"| {s} | {n} |" for s, n in sorted(counts.items())),
        "",
        "A *lowering* or *decomposition* is a program for the device. A *bounded* "
        "program gives a result of the largest possible size and a count, which is "
        "read. *Host*: the operator runs on the CPU, counted and warned about.",
        "",
        "## Proof",
        "",
        f"Of {len(proven | failed)} operators that have a program, "
        f"{len(set(proven) - set(failed))} gave under XLA what they give on "
        f"PyTorch's CPU, in {sum(proven.values())} calls (at most {CALLS} an "
        "operator; composites expanded).",
        "",
        *(
            [
                "Not equal: " + ", ".join(f"`{name}`" for name in sorted(failed)) + ".",
                "",
            ]
            if failed
            else []
        ),
        "## On the host",
        "",
        "| overload | reason |",
        "|---|---|",
        *(f"| `{name}` | {why} |" for name, why in sorted(host.items())),
        "",
        "## Exceptions of the test of the operator database",
        "",
        "| entry | tests | dtypes | reason |",
        "|---|---|---|---|",
        *(
            f"| {row.op} | {', '.join(row.tests) or 'all'} | "
            f"{', '.join(str(d)[6:] for d in row.dtypes) or 'all'} | {row.reason} |"
            for row in EXCEPTIONS
        ),
        "",
        "Only shapes, dtypes and devices are compared of:",
        "",
        *(f"- {op}: {why}" for op, why in METADATA_ONLY.items()),
        "",
        "## Every overload",
        "",
        "| overload | status | proven calls |",
        "|---|---|---|",
        *(
            f"| `{name}` | {s} | {proven[_C.functional_name(name)] or ''} |"
            for name, _, s in rows
        ),
        "",
    ]
    (ROOT / "docs" / "operators.md").write_text("\n".join(lines))
    print(dict(counts), f"{len(proven)} proven, {len(failed)} not")


if __name__ == "__main__":
    main()
