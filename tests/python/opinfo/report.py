# SPDX-License-Identifier: Apache-2.0
"""Writes docs/operators.md from what `make test-operators` found: what each operator
overload does on the device, which hardware programs are proven, and what of PyTorch's
operator database passes.

    python tests/python/opinfo/report.py

reads the files that pytest left in build/operators. aten_ops.csv lists the overloads
that the database of PyTorch 2.13 sends to a backend, with the number of its entries
that use them.
"""

import csv
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import torch

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
RESULTS = ROOT / "build" / "operators"
sys.path.insert(0, str(HERE.parent))

from opinfo.exceptions import EXCEPTIONS, METADATA_ONLY, ROUNDED_SUMS  # noqa: E402
from torch_neuronx import _C  # noqa: E402
from torch_neuronx.decompose import find_op  # noqa: E402

# The reason of fallbacks that is no news.
HOST_DTYPES = _C.host_dtypes_reason

LOWERING = "device: lowering"
DECOMPOSITION = "device: decomposition"
BOUNDED = "device: bounded program"
COMPOSITE = "device: core's composite"
VIEW = "device: view"
RUNTIME = "device: `csrc/aten`"
HOST = "host"
STATUS = {
    LOWERING: "a program from `csrc/lowering`",
    DECOMPOSITION: "a program from PyTorch's decomposition or one of ours",
    BOUNDED: "a result of the largest possible size and a count, which is read",
    COMPOSITE: "PyTorch itself calls other operators of this table",
    VIEW: "nothing is computed",
    RUNTIME: "allocation, copies, and what calls others of this table",
    HOST: "the CPU's kernel, counted and warned of",
}
SOURCES = {
    "lowering": LOWERING,
    "decomposition": DECOMPOSITION,
    "bounded program": BOUNDED,
}
TESTS = {
    "forward": "forward",
    "forward_dtypes": "forward",
    "backward": "backward",
    "double_backward": "double backward",
    "out": "`out=`",
    "in_place": "in-place",
    "errors": "errors",
    "forward_and_backward": "modules, forward and backward",
    "hardware_program": "programs",
}
NAME = re.compile(
    rf"test_({'|'.join(sorted(TESTS, key=len, reverse=True))})_(.*)_neuron_(\w+)$"
)


@dataclass
class Found:
    """In all tests of one numerics mode."""

    executed: set[str] = field(default_factory=set)
    host: dict[str, str] = field(default_factory=dict)  # reasons
    proofs: dict[str, list[dict]] = field(default_factory=lambda: defaultdict(list))
    # (test, dtype): passed, failed, excepted, skipped
    outcomes: dict[tuple[str, str], Counter] = field(
        default_factory=lambda: defaultdict(Counter)
    )


def read(mode: str) -> Found:
    """The results of every shard of ``mode``: "fast" or "decomposed"."""
    files = sorted(RESULTS.glob(f"{mode}-*.xml"))
    counts = {int(file.stem.rsplit("-", 1)[1]) for file in files}
    if len(counts) != 1 or len(files) != counts.pop():
        sys.exit(
            f"{RESULTS}: expected every shard of {mode}, found "
            f"{[file.name for file in files]}; run make test-operators"
        )
    found = Found()
    for file in files:
        for case in ElementTree.parse(file).iter("testcase"):
            add(found, case)
    return found


def add(found: Found, case: ElementTree.Element) -> None:
    name = case.get("name", "")
    if match := NAME.match(name):
        test, dtype = TESTS[match[1]], match[3]
    elif name.startswith("test_hardware_program_of_cases"):
        test, dtype = "programs of `tests/python/cases.py`", "several"
    else:
        return
    skipped = case.find("skipped")
    if case.find("failure") is not None or case.find("error") is not None:
        outcome = "failed"
    elif skipped is None:
        outcome = "passed"
    else:
        outcome = "excepted" if skipped.get("type") == "pytest.xfail" else "skipped"
    found.outcomes[test, dtype][outcome] += 1
    for item in case.iter("property"):
        if item.get("name") == "reached":
            reached = json.loads(item.get("value", ""))
            for name in reached["executed"]:
                found.executed.add(_C.functional_name(name) or name)
            for name, reason in reached["host"].items():
                if reason != HOST_DTYPES:
                    found.host[name] = reason
                found.host.setdefault(name, reason)
            for proof in reached["proofs"]:
                found.proofs[proof["op"]].append(proof)


def overloads() -> list[str]:
    """Names as the dispatcher prints them."""
    with (HERE / "aten_ops.csv").open() as file:
        return [
            row["overload"].removesuffix(".default") for row in csv.DictReader(file)
        ]


def kernel(name: str) -> str:
    """Where the operator's kernel for the device is registered."""
    if not torch._C._dispatch_has_kernel_for_dispatch_key(name, "PrivateUse1"):
        return ""
    lines = torch._C._dispatch_dump(name).splitlines()
    return next(line for line in lines if line.startswith("PrivateUse1"))


def is_view(name: str) -> bool:
    packet, _, overload = name.partition(".")
    schemas = torch._C._jit_get_schemas_for_operator(packet)
    schema = next(s for s in schemas if s.overload_name == overload)
    return torch.Tag.inplace_view in find_op(name).tags or any(
        a.alias_info and not a.alias_info.is_write for a in schema.arguments
    )


def is_composite(name: str) -> bool:
    kinds = ("ImplicitAutograd", "ExplicitAutograd", "ExplicitAutogradNonFunctional")
    return any(
        torch._C._dispatch_has_kernel_for_dispatch_key(name, f"Composite{kind}")
        for kind in kinds
    )


def status(name: str, found: Found) -> str:
    """Of an overload, by what happened to it."""
    functional = _C.functional_name(name) or name
    out = f"{name.partition('.')[0]}.out"
    registered = kernel(name)
    if "/data_dependent.cpp" in registered:
        return BOUNDED
    proofs = found.proofs.get(functional)
    if proofs:
        return SOURCES[Counter(p["source"] for p in proofs).most_common(1)[0][0]]
    if found.host.get(name, HOST_DTYPES) != HOST_DTYPES:
        return HOST
    if is_view(name):
        return VIEW
    random = torch.Tag.nondeterministic_seeded in find_op(name).tags
    executed = functional in found.executed
    if functional in _C.lowered_ops() or (random and executed):
        return LOWERING
    if executed:
        return DECOMPOSITION
    if name in found.host or out in found.host:
        return HOST
    if not registered:
        return COMPOSITE if is_composite(name) else HOST
    return RUNTIME if "/csrc/aten/" in registered else HOST


def reason(name: str, found: Found) -> str:
    out = f"{name.partition('.')[0]}.out"
    return (
        found.host.get(name)
        or found.host.get(out)
        or "not reached by the samples that ran"
    )


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    lines = [list(head), ["---"] * len(list(head)), *rows]
    return ["| " + " | ".join(str(cell) for cell in row) + " |" for row in lines] + [""]


def names(found: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(found))


def section_outcomes(modes: list[Found]) -> list[str]:
    rows = []
    for mode, found in zip(("", ", decomposed numerics"), modes, strict=True):
        for (test, dtype), n in sorted(found.outcomes.items()):
            tried = n["passed"] + n["failed"]
            if tried + n["excepted"]:
                rate = f"{100 * n['passed'] / tried:.1f} %" if tried else ""
                rows.append(
                    (test + mode, dtype, n["passed"], n["failed"], n["excepted"], rate)
                )
    return table(
        ("test", "dtype", "passed", "failed", "excepted", "of those not excepted"), rows
    )


def treatment(proofs: list[dict]) -> str:
    """Of 64-bit integers where the compiler has none."""
    kinds = {p["int64"] for p in proofs} - {""}
    rules = kinds - {"narrowed"}
    if not rules:
        return ", ".join(kinds)
    return (
        ("narrowed, or " if "narrowed" in kinds else "")
        + "refused: "
        + ", ".join(f"`{rule}`" for rule in sorted(rules))
    )


def section_refused(found: Found) -> list[str]:
    rules: dict[tuple[str, str], set[str]] = defaultdict(set)
    for name, proofs in found.proofs.items():
        for proof in proofs:
            for chip, rule in proof["refused"].items():
                rules[rule, chip].add(name)
    return table(
        ("rule", "chip", "operators"),
        (
            (f"`{rule}`", chip, names(ops))
            for (rule, chip), ops in sorted(rules.items())
        ),
    )


def by_reason(entries: dict[str, str]) -> list[str]:
    """A table of entries of the database that share a reason."""
    return table(
        ("reason", "entries"),
        (
            (why, ", ".join(op for op, w in entries.items() if w == why))
            for why in dict.fromkeys(entries.values())
        ),
    )


def main() -> None:
    fast, decomposed = read("fast"), read("decomposed")
    rows = [(name, status(name, fast)) for name in overloads()]
    counts = Counter(s for _, s in rows)
    host = [name for name, s in rows if s == HOST]
    partly = [
        (name, why)
        for name, why in sorted(fast.host.items())
        if why != HOST_DTYPES and name not in host
    ]
    sources = {
        source: {
            name
            for name, proofs in fast.proofs.items()
            if any(p["source"] == source for p in proofs)
        }
        for source in SOURCES
    }
    calls = sum(map(len, fast.proofs.values()))
    refused = sum(bool(p["refused"]) for proofs in fast.proofs.values() for p in proofs)
    wide = {name: treatment(proofs) for name, proofs in sorted(fast.proofs.items())}
    wide = {name: text for name, text in wide.items() if text}
    listed = {_C.functional_name(name) or name for name, _ in rows}
    lines = [
        "# Operators",
        "",
        "Written by `make test-operators`; do not edit.",
        "",
        f"PyTorch {torch.__version__.split('+')[0]}'s operator database sends "
        f"{len(rows)} overloads to a backend. What happens to them here, in the "
        "dtypes of *programs* below:",
        "",
        *table(
            ("status", "overloads", ""),
            ((s, counts[s], text) for s, text in STATUS.items()),
        ),
        "float64, complex and unsigned types of more than 8 bits compute on the host, "
        "in every operator: the hardware has none.",
        "",
        "## Tests",
        "",
        "PyTorch's operator and module databases on the simulator against its CPU. "
        "*Excepted* tests fail, as the table of exceptions says.",
        "",
        *section_outcomes([fast, decomposed]),
        "## Proof",
        "",
        "Each program that the database reaches, forward and backward, in the dtypes "
        "above (*programs*), is expanded and rewritten for the hardware's compiler, "
        "run by XLA and compared with PyTorch's CPU kernels; and run by the simulator "
        "in decomposed numerics, operation by operation. So are calls of "
        "`tests/python/cases.py`. Random operators are not among them: "
        "`tests/python/test_random.py`.",
        "",
        *table(
            ("", "operators", "programs"),
            [
                *(
                    (
                        f"{source}, XLA",
                        len(ops),
                        sum(
                            p["source"] == source
                            for name in ops
                            for p in fast.proofs[name]
                        ),
                    )
                    for source, ops in sources.items()
                ),
                ("all, XLA", len(fast.proofs), calls),
                (
                    "all, decomposed numerics",
                    len(decomposed.proofs),
                    sum(map(len, decomposed.proofs.values())),
                ),
            ],
        ),
        f"Of the {calls} programs, {calls - refused} break no "
        "[rule of the hardware](hardware.md) on either chip. The others are refused "
        "with the rule's name:",
        "",
        *section_refused(fast),
        *(
            line
            for source, ops in sources.items()
            for line in (f"By {source}: {names(ops)}.", "")
        ),
        "## 64-bit integers",
        "",
        "Native where the compiler has them (`--native-int64`). Where it has not, "
        "programs of these operators that have 64-bit integers, be it indices, are "
        "narrowed to 32 bits, and values that may not fit are checked and counted "
        "(*narrowed*), or refused with the rule's name.",
        "",
        *table(
            ("treatment", "operators"),
            (
                (text, names(n for n, t in wide.items() if t == text))
                for text in sorted(set(wide.values()))
            ),
        ),
        "## On the host",
        "",
        f"{len(host)} of the {len(rows)} overloads.",
        "",
        *table(
            ("overload", "reason"), ((f"`{n}`", reason(n, fast)) for n in sorted(host))
        ),
        *(
            [
                "Some calls of these, or overloads that the list does not have:",
                "",
                *table(("overload", "reason"), ((f"`{n}`", why) for n, why in partly)),
            ]
            if partly
            else []
        ),
        "## Exceptions",
        "",
        *table(
            ("entry", "tests", "dtypes", "reason"),
            (
                (
                    row.op,
                    ", ".join(row.tests) or "all",
                    ", ".join(str(d)[6:] for d in row.dtypes) or "all",
                    row.reason,
                )
                for row in EXCEPTIONS
            ),
        ),
        "Only shapes, dtypes, strides and devices are compared of:",
        "",
        *by_reason(METADATA_ONLY),
        "Compared, in bfloat16 and float16, with the CPU's float32 results rounded "
        "once:",
        "",
        *by_reason(ROUNDED_SUMS),
        "## Every overload",
        "",
        "The last columns count programs that were proven.",
        "",
        *table(
            ("overload", "status", "XLA", "decomposed"),
            (
                (
                    f"`{name}`",
                    s,
                    len(fast.proofs.get(_C.functional_name(name) or name, [])) or "",
                    len(decomposed.proofs.get(_C.functional_name(name) or name, []))
                    or "",
                )
                for name, s in rows
            ),
        ),
        f"Proven besides: {names(set(fast.proofs) - listed)}.",
        "",
    ]
    (ROOT / "docs" / "operators.md").write_text("\n".join(lines))
    print(dict(counts), f"{calls} programs of {len(fast.proofs)} operators proven")


if __name__ == "__main__":
    main()
