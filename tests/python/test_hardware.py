# SPDX-License-Identifier: Apache-2.0
"""The form of a program that the hardware's compiler takes: it breaks no rule, and XLA
computes with it what PyTorch computes on the CPU."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torch_neuronx
import xla
from cases import aten, f
from test_lowering import CASES, IDS, assert_same, defined, extent, to_device
from torch_neuronx import _C

ROOT = Path(__file__).resolve().parents[2]


# Programs that the compiler does not take in any form: the rule says why. Maxima
# of int64 start from its smallest number, which 32 bits do not hold.
_MAXIMA = ("int64-constant",)
REFUSED = {
    "aten::scatter_reduce.two": ("integer-scatter", "int64-constant"),
    "aten::index_reduce": ("integer-scatter", "int64-constant"),
    "aten::_scaled_mm": ("float8-e4m3fn",),
    "aten::max_pool2d_with_indices": _MAXIMA,
    "aten::max_pool3d_with_indices": _MAXIMA,
    "aten::adaptive_max_pool2d": _MAXIMA,
    "aten::adaptive_max_pool3d": _MAXIMA,
}


def program_of(op, args, kwargs):
    return torch_neuronx.program(op, *to_device(args), **to_device(kwargs))


def run_by_xla(program, args, kwargs):
    inputs = [extent(x) for x in defined((args, kwargs)) if x.numel()]
    assert len(inputs) == len(program.inputs)
    return xla.run(program.stablehlo, inputs)


def results_on_cpu(op, args, kwargs):
    return [x for x in defined(op(*args, **kwargs)) if x.numel()]


def legal_form(op, program, target, **options):
    """Skips where the rule in REFUSED says that there is none."""
    try:
        legal = program.legalized(target, **options)
    except _C.IllegalProgram as error:
        rule = str(error)[1:].split(",")[0]
        if rule not in REFUSED.get(op.name(), ()):
            raise
        pytest.skip(f"refused by the rule {rule}")
    assert legal.violations(target, **options) == []
    assert legal.outputs == program.outputs
    return legal


@pytest.mark.parametrize("op,args,kwargs", CASES, ids=IDS)
def test_legal_program_breaks_no_rule_and_equals_cpu(op, args, kwargs):
    program = program_of(op, args, kwargs)
    texts = {
        legal_form(op, program, target).stablehlo: target for target in ("trn2", "trn3")
    }
    # float8_e4m3fn, which no other case has, is all that tells the chips apart.
    assert len(texts) == 1
    if program.stablehlo in texts:
        return  # test_lowering.py runs it
    legal = program.legalized("trn2")
    assert_same(run_by_xla(legal, args, kwargs), results_on_cpu(op, args, kwargs))


# XLA's CPU compiler of jaxlib 0.10.2 crashes on convert(and(convert, convert)) and
# the same of or, from int64 to int32 and back.
XLA_CRASHES = ("aten::bitwise_and.Tensor", "aten::bitwise_or.Tensor")


@pytest.mark.parametrize("op,args,kwargs", CASES, ids=IDS)
def test_narrowed_program_equals_cpu(op, args, kwargs):
    """Without native 64-bit integers: the cases' numbers are small."""
    program = program_of(op, args, kwargs)
    if op.name() in XLA_CRASHES and args[0].dtype == torch.int64:
        pytest.skip("XLA's compiler crashes on it")
    legal = legal_form(op, program, "trn2", native_int64=False)
    if legal.stablehlo == program.stablehlo:
        return  # nothing of 64 bits; test_lowering.py runs it
    assert_same(run_by_xla(legal, args, kwargs), results_on_cpu(op, args, kwargs))


def wide(dtype, *shape):
    """Integers with all bits in use."""
    info = torch.iinfo(dtype)
    return torch.randint(info.min, info.max, shape, dtype=dtype)


def _rows(count, high):
    return torch.randint(0, high, (count,))


BREAKING = [
    ("integer-dot", aten.mm.default, lambda d: (wide(d, 5, 300), wide(d, 300, 4)), {}),
    (
        "integer-dot",
        aten.bmm.default,
        lambda d: (wide(d, 2, 3, 4), wide(d, 2, 4, 5)),
        {},
    ),
    (
        "integer-scatter",
        aten.index_add.default,
        lambda d: (wide(d, 4, 3), 0, _rows(50, 4), wide(d, 50, 3)),
        {},
    ),
    (
        "integer-scatter",
        aten.scatter_add.default,
        lambda d: (wide(d, 4, 30), 0, torch.randint(0, 4, (9, 30)), wide(d, 9, 30)),
        {},
    ),
    (
        "integer-scatter",
        aten.scatter_reduce.two,
        lambda d: (
            wide(d, 4, 6),
            1,
            torch.randint(0, 6, (4, 30)),
            wide(d, 4, 30),
            "amax",
        ),
        {},
    ),
    (
        "integer-scatter",
        aten.scatter_reduce.two,
        lambda d: (
            wide(d, 4, 6),
            1,
            torch.randint(0, 6, (4, 30)),
            wide(d, 4, 30),
            "amin",
        ),
        {},
    ),
    (
        "integer-scatter",
        aten.index_put.default,
        lambda d: (wide(d, 5), [_rows(40, 5)], wide(d, 40), True),
        {},
    ),
    ("sort", aten.sort.default, lambda d: (wide(d, 4, 37), -1, True), {}),
    ("sort", aten.topk.default, lambda d: (wide(d, 4, 50), 7), {}),
    (
        "sort",
        aten.sort.stable,
        lambda d: (torch.randint(0, 3, (3, 100), dtype=d),),
        {"stable": True, "dim": 1},
    ),
]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize(
    "rule,op,arguments,kwargs",
    BREAKING,
    ids=[f"{rule}-{op.name()}-{i}" for i, (rule, op, _, _) in enumerate(BREAKING)],
)
def test_integers_stay_exact(rule, op, arguments, kwargs, dtype):
    args = arguments(dtype)
    program = program_of(op, args, kwargs)
    assert any(text.startswith(f"[{rule}") for text in program.violations("trn2"))
    legal = program.legalized("trn2")
    assert legal.violations("trn2") == []
    expected = defined(op(*args, **kwargs))
    for a, e in zip(run_by_xla(legal, args, kwargs), expected, strict=True):
        assert torch.equal(a, e)


@pytest.mark.parametrize("how", ["amax", "amin"])
def test_narrowed_extremes_keep_signs_and_self(how):
    x = torch.randint(-(2**31), 2**31, (4, 6))
    updates = torch.randint(-(2**31), 2**31, (4, 30))
    args = (x, 1, torch.randint(0, 6, (4, 30)), updates, how)
    program = program_of(aten.scatter_reduce.two, args, {})
    legal = program.legalized("trn2", native_int64=False)
    assert legal.violations("trn2", native_int64=False) == []
    (actual,) = run_by_xla(legal, args, {})
    assert torch.equal(actual, aten.scatter_reduce.two(*args))


def test_shift_and_power_of_int64():
    x, n = wide(torch.int64, 200), torch.randint(0, 64, (200,))
    few = torch.randint(-3, 4, (200,))
    for rule, op, args in [
        ("arithmetic-shift", aten.bitwise_right_shift.Tensor, (x, n)),
        ("int64-power", aten.pow.Tensor_Tensor, (x, n)),
        (None, aten.pow.Tensor_Scalar, (x, 11)),  # products, which are taken
        ("int64-power", aten.pow.Tensor_Tensor, (few, n)),
    ]:
        program = program_of(op, args, {})
        broken = {text[1:].split(",")[0] for text in program.violations("trn2")}
        legal = program.legalized("trn2")
        assert rule in broken if rule else broken == set(), (op, broken)
        assert legal.violations("trn2") == []
        (actual,) = run_by_xla(legal, args, {})
        assert torch.equal(actual, op(*args)), op


def test_dilated_pooling_and_transposed_convolution():
    x = f(2, 4, 9, 9)
    cases = [
        (aten.max_pool2d_with_indices.default, (x, [3, 3], [1, 1], [1, 1], [2, 2])),
        (
            aten.convolution.default,
            (x, f(4, 3, 3, 3), None, [2, 2], [1, 1], [2, 2], True, [1, 1], 1),
        ),
    ]
    for op, args in cases:
        program = program_of(op, args, {})
        assert program.violations("trn2") != []
        legal = program.legalized("trn2")
        assert legal.violations("trn2") == []
        assert_same(run_by_xla(legal, args, {}), defined(op(*args)))


def test_float64_is_refused_with_the_rule_s_name():
    # An operator of float64 has no device program; one of a conversion has.
    x = torch.randn(3, dtype=torch.float64)
    try:
        program = program_of(aten._to_copy.default, (x,), {"dtype": torch.float32})
    except _C.Refused:
        pytest.skip("conversions of float64 run on the host")
    with pytest.raises(_C.IllegalProgram, match=r"\[float64, NCC_ESPP004\]"):
        program.legalized("trn2")


CALLS = [
    ("AwsNeuronSoftmax", aten._softmax.default, (f(2, 8), -1, False), {}),
    ("AwsNeuronGelu", aten.gelu.default, (f(2, 8),), {}),
    ("AwsNeuronGeluApprxTanh", aten.gelu.default, (f(2, 8),), {"approximate": "tanh"}),
    ("AwsNeuronSilu", aten.silu.default, (f(2, 8),), {}),
    ("AwsNeuronTopK", aten.topk.default, (f(2, 8), 3), {}),
    ("AwsNeuronArgMax", aten.argmax.default, (f(2, 8), 1), {}),
    ("AwsNeuronArgMin", aten.argmin.default, (f(2, 8), 0, True), {}),
]


@pytest.mark.parametrize("name,op,args,kwargs", CALLS, ids=[c[0] for c in CALLS])
def test_custom_call_is_valid_stablehlo(name, op, args, kwargs):
    from jaxlib._jax.mlir import mlir_module_to_xla_computation

    program = program_of(op, args, kwargs)
    legal = program.legalized("trn2", custom_calls="1")
    assert legal.violations("trn2") == []
    computation = mlir_module_to_xla_computation(
        legal.stablehlo, use_tuple_args=False, return_tuple=False
    )
    assert f'custom_call_target="{name}"' in computation.as_hlo_text()
    assert program.legalized("trn2", custom_calls=name).stablehlo == legal.stablehlo
    others = ",".join(n for n, *_ in CALLS if n != name)
    for without in ("0", others):
        text = program.legalized("trn2", custom_calls=without).stablehlo
        assert "custom_call" not in text


def test_unknown_custom_call_is_refused():
    program = program_of(aten.silu.default, (f(3),), {})
    with pytest.raises(ValueError, match="AwsNeuronSwiglu.*expected 0, 1 or names"):
        program.legalized("trn2", custom_calls="AwsNeuronSwiglu")


def test_unknown_target_is_refused():
    program = program_of(aten.silu.default, (f(3),), {})
    with pytest.raises(ValueError, match="expected trn2 or trn3, got 'trn1'"):
        program.legalized("trn1")


def test_random_numbers_do_not_depend_on_the_width_of_integers():
    x = torch.empty(1001, device="neuron")
    program = torch_neuronx.program("aten::uniform_", x)
    # What the memory holds, seed, offset.
    inputs = [torch.zeros(1001), torch.tensor(5), torch.tensor(-9)]
    assert [t for t, _ in program.inputs] == ["float32", "int64", "int64"]
    (a,) = xla.run(program.legalized("trn2").stablehlo, inputs)
    (b,) = xla.run(program.legalized("trn2", native_int64=False).stablehlo, inputs)
    assert torch.equal(a, b)


def test_documented_rules_are_those_of_the_code():
    table = subprocess.run(
        [sys.executable, ROOT / "tools" / "hardware_rules.py"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    assert table in (ROOT / "docs" / "hardware.md").read_text(), (
        "run: python tools/hardware_rules.py --write"
    )


def test_transposes_go_into_dot_products():
    """Strided and transposed matrices are contracted as they lie in memory."""
    weight, x = torch.randn(5, 4), torch.randn(3, 4)
    mm = torch.ops.aten.addmm.default
    args = (torch.randn(5), x, weight.t())
    program = program_of(mm, args, {})
    assert "stablehlo.transpose" in program.stablehlo
    legal = program.legalized("trn2")
    assert "stablehlo.transpose" not in legal.stablehlo
    assert_same(run_by_xla(legal, args, {}), results_on_cpu(mm, args, {}))


def test_passes_are_shown():
    program = program_of(torch.ops.aten.mm.default, (f(3, 4), f(4, 4).t()), {})
    passes = program.hardware_passes("trn2")
    assert [name for name, _, _ in passes] == [
        "expand composites",
        "fold constants",
        "sink transposes",
        "common subexpressions",
        "legalize",
    ]
    assert dict((name, n) for name, n, _ in passes)["sink transposes"] == 1
    assert passes[-1][2].text == program.legalized("trn2").text
