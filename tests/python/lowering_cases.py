# SPDX-License-Identifier: Apache-2.0
"""Calls that cover every lowering: (overload, example arguments on the CPU).

``f(2, 3)`` stands for a random tensor, ``t([...])`` for a literal one; both become
tensors in ``Case.make``, from a seed that depends only on the case.
"""

import zlib
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_map

inf, nan = float("inf"), float("nan")
f32, bf16, f16, f64 = torch.float32, torch.bfloat16, torch.float16, torch.float64
i64, i32, i16, i8, u8 = torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8
boolean = torch.bool


@dataclass(frozen=True)
class Random:
    """Uniform in [low, high); integers for integer dtypes."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    low: float
    high: float

    def make(self, generator: torch.Generator) -> torch.Tensor:
        if self.dtype == boolean:
            return torch.rand(self.shape, generator=generator) < 0.5
        if not self.dtype.is_floating_point:
            low, high = int(self.low), int(self.high)
            return torch.randint(
                low, high, self.shape, generator=generator, dtype=self.dtype
            )
        x = torch.rand(self.shape, generator=generator, dtype=f64)
        return (x * (self.high - self.low) + self.low).to(self.dtype)


@dataclass(frozen=True)
class Literal:
    values: Any
    dtype: torch.dtype | None

    def make(self, generator: torch.Generator) -> torch.Tensor:
        return torch.tensor(self.values, dtype=self.dtype)


@dataclass(frozen=True)
class Case:
    op: str  # "add.Tensor"; "relu" is "relu.default"
    args: tuple
    kwargs: dict[str, Any] = field(default_factory=dict)
    # Absolute and relative tolerance, by default that of the result's dtype.
    tolerance: float | None = None
    # Results that are compared, by default all.
    results: tuple[int, ...] | None = None

    @property
    def overload(self) -> torch._ops.OpOverload:
        name, _, overload = self.op.partition(".")
        return getattr(getattr(torch.ops.aten, name), overload or "default")

    def make(self) -> tuple[tuple, dict[str, Any]]:
        generator = torch.Generator()
        generator.manual_seed(zlib.crc32(repr(self).encode()))

        def value(x: Any) -> Any:
            return x.make(generator) if isinstance(x, (Random, Literal)) else x

        return tree_map(value, self.args), tree_map(value, self.kwargs)

    def __str__(self) -> str:
        def show(x: Any) -> str:
            if isinstance(x, Random):
                return str(x.dtype).removeprefix("torch.") + str(list(x.shape))
            if isinstance(x, Literal):
                return f"t({x.values})"
            if isinstance(x, (list, tuple)):
                return "[" + ", ".join(map(show, x)) + "]"
            return str(x)

        args = [show(x) for x in self.args]
        args += [f"{k}={show(v)}" for k, v in self.kwargs.items()]
        return f"{self.op}({', '.join(args)})"


CASES: list[Case] = []


def case(op: str, *args: Any, tolerance=None, results=None, **kwargs: Any) -> None:
    CASES.append(Case(op, args, kwargs, tolerance, results))


def f(*shape: int, dtype: torch.dtype = f32, low: float = -2, high: float = 2) -> Random:
    return Random(shape, dtype, low, high)


def i(*shape: int, low: int = -5, high: int = 6, dtype: torch.dtype = i64) -> Random:
    return Random(shape, dtype, low, high)


def m(*shape: int) -> Random:
    return Random(shape, boolean, 0, 1)


def t(values: Any, dtype: torch.dtype | None = None) -> Literal:
    return Literal(values, dtype)


SPECIAL = t([0.0, -0.0, 1.0, -1.0, inf, -inf, nan, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-30, 3e38])
FLOATS = (f32, bf16, f16)


def _unary() -> None:
    smooth = {
        "exp": (-3, 3), "exp2": (-3, 3), "expm1": (-3, 3), "log": (0.01, 5),
        "log1p": (-0.9, 5), "log2": (0.01, 5), "log10": (0.01, 5), "sqrt": (0, 5),
        "rsqrt": (0.1, 5), "sin": (-9, 9), "cos": (-9, 9), "tan": (-1.4, 1.4),
        "tanh": (-3, 3), "sinh": (-3, 3), "cosh": (-3, 3), "asin": (-1, 1),
        "acos": (-1, 1), "atan": (-9, 9), "asinh": (-9, 9), "acosh": (1, 9),
        "atanh": (-0.99, 0.99), "lgamma": (0.1, 9), "digamma": (0.1, 9), "erf": (-3, 3),
        "erfc": (-3, 3), "erfinv": (-0.99, 0.99), "sigmoid": (-9, 9),
        "reciprocal": (0.1, 5), "logit": (0.05, 0.95), "sinc": (-3, 3),
        "deg2rad": (-180, 180), "rad2deg": (-3, 3), "special_entr": (0, 3),
        "special_ndtri": (0.05, 0.95), "special_log_ndtr": (-5, 5), "i0": (-5, 5),
        "special_i0e": (-5, 5), "special_i1": (-5, 5), "special_i1e": (-5, 5),
    }  # fmt: skip
    wide = {"tan", "sinh", "cosh", "lgamma", "digamma", "erfinv", "special_ndtri"}
    wide |= {"i0", "special_i1", "exp2"}
    for name, (low, high) in smooth.items():
        tolerance = 2e-4 if name in wide else None
        case(name, f(3, 4, low=low, high=high), tolerance=tolerance)
        case(name, f(low=low, high=high), tolerance=tolerance)
        if not name.startswith(("special_ndtri", "special_log_ndtr")):
            case(name, f(33, low=low, high=high, dtype=bf16))
    for name in smooth:
        # A limit of XLA's expansions, not of the lowering.
        if name in {"lgamma", "digamma", "i0", "special_i1", "special_ndtri", "sinc"}:
            continue
        if name in {"special_i0e", "special_i1e", "special_log_ndtr", "sinh", "cosh"}:
            continue
        case(name, SPECIAL, tolerance=2e-4)
        if name not in {"logit", "special_entr", "acosh", "atanh", "erfinv"}:
            case(name, i(5, low=1, high=3), tolerance=2e-4)
        case(name, m(4), tolerance=2e-4)
    for name in ("neg", "abs", "sign", "sgn", "ceil", "floor", "round", "trunc",
                 "isnan", "isinf", "isposinf", "isneginf", "signbit", "frac",
                 "logical_not", "relu", "positive"):  # fmt: skip
        for dtype in FLOATS:
            case(name, f(3, 4, dtype=dtype, low=-4, high=4))
        if name not in ("frac",):
            case(name, SPECIAL)
        case(name, f())
    for name in ("neg", "abs", "sign", "sgn", "ceil", "floor", "round", "trunc",
                 "isnan", "isinf", "isposinf", "signbit", "logical_not", "relu",
                 "bitwise_not"):  # fmt: skip
        for dtype in (i64, i32, i8):
            case(name, i(7, dtype=dtype))
        case(name, i(7, low=0, high=255, dtype=u8))
    for name in ("sign", "isnan", "isinf", "logical_not", "bitwise_not", "signbit"):
        case(name, m(4))
    for decimals in (2, 0, -1):
        case("round.decimals", f(9, low=-99, high=99), decimals=decimals)
    case("nan_to_num", SPECIAL)
    case("nan_to_num", SPECIAL, 1.0, 2.0, 3.0)
    case("nan_to_num", f(3, dtype=bf16))
    case("nan_to_num", i(3))
    case("logit", f(5, low=-0.2, high=1.2), 0.1)
    case("polygamma", 1, f(5, low=0.5, high=5), tolerance=1e-4)
    case("polygamma", 2, f(5, low=0.5, high=5), tolerance=1e-4)


def _binary() -> None:
    pairs = [
        (f(3, 4), f(3, 4)), (f(3, 1), f(4)), (f(2, 3), f()), (f(), f()),
        (f(3, dtype=bf16), f(3, dtype=bf16)), (f(3, dtype=f16), f(3, dtype=bf16)),
        (f(3, dtype=bf16), f(3)), (i(4, low=1), f(4)), (i(4, low=1), i(4, low=1)),
        (i(3, dtype=i32), i(3, low=1, high=9, dtype=i8)), (f(3), 2.5), (f(3), 2),
        (i(3), 2), (i(3), 2.5), (m(3), 2), (m(3), 1.5), (f(3, dtype=bf16), 0.3),
        (f(0, 3), f(3)), (i(3, low=0, high=9, dtype=u8), i(3, low=1, dtype=i8)),
        (f(3, dtype=bf16), f()),
    ]  # fmt: skip
    for name in ("add", "sub", "mul", "div", "maximum", "minimum", "eq", "ne", "lt",
                 "le", "gt", "ge", "fmod", "remainder", "pow"):  # fmt: skip
        overload = {"maximum": "", "minimum": "", "pow": ".Tensor_Tensor"}
        op = name + overload.get(name, ".Tensor")
        for a, b in pairs:
            if not isinstance(b, Random) and name not in ("add", "sub", "mul", "div"):
                continue
            if name == "pow":
                if not isinstance(b, Random):
                    continue
                a = Random(a.shape, a.dtype, abs(a.low), abs(a.high) + 3)
            case(op, a, b, tolerance=2e-4 if name in ("pow", "fmod", "remainder") else None)
        case(op, SPECIAL, t([[1.0], [nan], [-2.0], [inf], [0.0], [-inf], [0.5]]))
    case("add.Tensor", m(4), m(4))
    case("mul.Tensor", m(4), m(4))
    case("div.Tensor", m(4), t([True, True, True, True]))
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        for value in (1, 0.5, True):
            case(f"{name}.Scalar", f(5), value)
            case(f"{name}.Scalar", i(5), value)
        case(f"{name}.Scalar", m(5), 1)
        case(f"{name}.Scalar", f(5, dtype=bf16), 0.3)
        case(f"{name}.Tensor", m(5), m(5))
        case(f"{name}.Scalar", i(5, dtype=i8), 300)
        case(f"{name}.Scalar", i(5, low=0, high=200, dtype=u8), -1)
    for alpha in (2, 0.5):
        case("add.Tensor", f(3), f(3), alpha=alpha)
        case("sub.Tensor", f(3, dtype=bf16), f(3, dtype=bf16), alpha=alpha)
        case("rsub.Tensor", f(3), f(3), alpha=alpha)
        case("rsub.Scalar", f(3), 1.5, alpha)
    case("add.Tensor", i(3), i(3), alpha=3)
    case("add.Tensor", i(3), 2, alpha=3)
    case("sub.Tensor", i(3), i(3), alpha=3)
    for name in ("add", "sub", "mul", "div", "rsub", "remainder", "fmod"):
        for a, b in ((f(3), 2.5), (f(2, 2, dtype=bf16), 0.1), (i(3), 2), (i(3), 2.5),
                     (f(), 1)):  # fmt: skip
            case(f"{name}.Scalar", a, b)
    case("add.Scalar", f(3), 2.5, 3)
    case("sub.Scalar", i(3), 2, 3)
    numbers = t([7.0, -7.0, 7.5, -7.5, 0.0, inf, nan, 1.0])
    divisors = t([[2.0], [-2.0], [0.3], [0.0], [inf], [-0.7]])
    for mode in ("floor", "trunc", None):
        case("div.Tensor_mode", numbers, divisors, rounding_mode=mode)
        case("div.Tensor_mode", t([7, -7, 8, -8, 0]), t([[2], [-2], [3], [-3]]),
             rounding_mode=mode)  # fmt: skip
        case("div.Tensor_mode", f(9, dtype=bf16), f(9, dtype=bf16, low=0.1),
             rounding_mode=mode)  # fmt: skip
        case("div.Tensor_mode", i(5, dtype=i32), 3, rounding_mode=mode)
        case("div.Tensor_mode", i(5), 1.5, rounding_mode=mode)
        case("div.Scalar_mode", i(5), 2, rounding_mode=mode)
        case("div.Scalar_mode", f(5), 0.3, rounding_mode=mode)
        case("div.Tensor_mode", i(5, low=0, high=255, dtype=u8),
             i(5, low=1, high=255, dtype=u8), rounding_mode=mode)  # fmt: skip
    case("floor_divide", t([7, -7, 8, -8]), t([[2], [-2], [3]]))
    case("floor_divide", numbers, divisors)
    case("floor_divide", f(4), 0.3)
    case("floor_divide.Scalar", i(4), 3)
    for name in ("remainder.Tensor", "fmod.Tensor"):
        case(name, numbers, divisors)
        case(name, t([7, -7, 8, -8, 0]), t([[2], [-2], [3], [-3]]))
        case(name, i(6, dtype=i8), i(6, low=1, dtype=i8))
    case("remainder.Scalar_Tensor", 7, t([2, -3, 5]))
    case("remainder.Scalar_Tensor", -7.5, f(5, low=0.5))
    for e in (0, 1, 2, 3, 4, -1, -2, 0.5, -0.5, 1.5, 7, 2.0, 65, -3.0):
        case("pow.Tensor_Scalar", f(5, low=0.5), e, tolerance=2e-4)
        case("pow.Tensor_Scalar", f(5, low=0.5, dtype=bf16), e, tolerance=2e-2)
        case("pow.Tensor_Scalar", SPECIAL, e, tolerance=2e-4)
        if isinstance(e, int) and e >= 0:
            case("pow.Tensor_Scalar", i(5), e)
            case("pow.Tensor_Scalar", i(5, dtype=i32), e)
    case("pow.Tensor_Scalar", i(5, low=1), 0.5, tolerance=1e-4)
    case("pow.Tensor_Tensor", i(5), i(5, low=0, high=9))
    case("pow.Tensor_Tensor", f(5, low=0.1), i(5), tolerance=1e-4)
    case("pow.Scalar", 2, i(5, low=0, high=9))
    case("pow.Scalar", 2.5, f(5), tolerance=1e-4)
    case("pow.Scalar", 10000.0, f(8, low=0, high=1), tolerance=1e-4)
    case("pow.Scalar", 2, f(5), tolerance=1e-4)
    case("atan2", f(9), f(9))
    case("atan2", SPECIAL, t([[1.0], [-1.0], [0.0], [-0.0], [inf]]))
    case("atan2", i(4), i(4, low=1))
    case("hypot", f(4), f(4))
    case("copysign.Tensor", SPECIAL, t([[1.0], [-0.0], [-2.0]]))
    case("copysign.Scalar", f(4), -1.0)
    case("fmax", SPECIAL, t([[1.0], [nan]]))
    case("fmin", SPECIAL, t([[1.0], [nan]]))
    case("heaviside", t([-1.0, 0.0, 2.0]), f(3))
    case("logaddexp", f(5), f(5, low=-9, high=9))
    case("logaddexp2", f(5), f(5, low=-9, high=9))
    case("logaddexp", t([inf, -inf, 1.0]), t([inf, -inf, -inf]))
    case("xlogy.Tensor", t([0.0, 1.0, 0.0, 2.0]), t([0.0, 2.0, nan, 3.0]))
    case("special_xlog1py", t([0.0, 1.0, 2.0]), t([-1.0, 2.0, 0.5]))
    case("special_zeta", f(4, low=1.5, high=4), f(4, low=0.5, high=3), tolerance=1e-4)
    case("nextafter", f(4), f(4))
    case("ldexp.Tensor", f(4), i(4))
    case("gcd", t([12, 18, 0, -4]), t([8, 27, 5, 6]))
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        case(f"{name}.Tensor", i(5), i(5))
        case(f"{name}.Tensor", m(5), m(2, 5))
        case(f"{name}.Tensor", i(5, dtype=i32), t(6))
        case(f"{name}.Scalar", i(5), 6)
        case(f"{name}.Tensor", m(5), i(5, dtype=u8, low=0))
    for name in ("bitwise_left_shift", "bitwise_right_shift"):
        case(f"{name}.Tensor", i(5, low=-99, high=99), i(5, low=0, high=9))
        case(f"{name}.Tensor_Scalar", i(5, low=-99, high=99, dtype=i32), 3)
    for name in ("logical_and", "logical_or", "logical_xor"):
        case(name, m(5), m(5))
        case(name, i(5, low=-1, high=2), f(3, 5))
        case(name, t([0.0, nan, 1.0, -0.0]), m(4))
    for dtype in (f32, bf16):
        case("lerp.Scalar", f(5, dtype=dtype), f(5, dtype=dtype), 0.3)
        case("lerp.Scalar", f(5, dtype=dtype), f(5, dtype=dtype), 0.7)
        case("lerp.Tensor", f(5, dtype=dtype), f(5, dtype=dtype), f(5, dtype=dtype))
        case("addcmul", f(2, 3, dtype=dtype), f(3, dtype=dtype), f(2, 1, dtype=dtype))
        case("addcmul", f(3, dtype=dtype), f(3, dtype=dtype), f(3, dtype=dtype), value=0.5)
        case("addcdiv", f(3, dtype=dtype), f(3, dtype=dtype), f(3, dtype=dtype, low=1),
             value=0.5)  # fmt: skip
    case("lerp.Tensor", f(5), f(5), f())
    case("addcmul", i(3), i(3), i(3), value=2)


def _clamp() -> None:
    for args in ((-1, 1), (None, 0.5), (-0.5, None), (1, -1)):
        case("clamp", f(6), *args)
        case("clamp", SPECIAL, *args)
    case("clamp", f(6, dtype=bf16), -0.3, 0.7)
    case("clamp", i(6), -1, 2)
    case("clamp", i(6), -1.5, 2.5)
    case("clamp", i(6, dtype=u8, low=0, high=9), 2, 4)
    case("clamp", f(6), nan, 1.0)
    case("clamp.Tensor", f(2, 6), f(6), f(6))
    case("clamp.Tensor", i(6), f(6), None)
    case("clamp.Tensor", f(6), None, t([1.0, nan, 0.0, -1.0, 0.5, 2.0]))
    case("clamp.Tensor", i(6), i(6, dtype=i32), i(6))
    for name in ("clamp_min", "clamp_max"):
        case(name, f(6), 0.5)
        case(name, f(6, dtype=bf16), 0.3)
        case(name, i(6), 1)
        case(name, i(6), 1.5)
        case(f"{name}.Tensor", f(2, 6), f(6))
        case(f"{name}.Tensor", SPECIAL, t([[nan], [1.0]]))


def _where() -> None:
    case("where.self", m(3, 1), f(3, 4), f(4))
    case("where.self", m(3), i(3), f(3))
    case("where.self", m(3), f(3, dtype=bf16), f())
    case("where.self", m(), f(3), f(3))
    case("where.self", i(3, low=0, high=2, dtype=u8), f(3), f(3))
    case("where.ScalarOther", m(3), f(3), 1.5)
    case("where.ScalarSelf", m(3), 2, i(3))
    case("where.Scalar", m(3), 2, 3)
    for x in (f(2, 3), f(2, 3, dtype=bf16), i(2, 3), m(2, 3)):
        case("masked_fill.Scalar", x, m(3), 1)
        case("masked_fill.Tensor", x, m(2, 3), t(1))
    case("masked_fill.Scalar", f(2, 3), m(2, 1), -inf)
    case("masked_fill.Scalar", f(3, dtype=bf16), m(2, 3), -3.3e38)
    case("masked_fill.Scalar", f(), m(3), 2.0)


def _reductions() -> None:
    xs = [f(3, 4, 5), f(3, 4, 5, dtype=bf16), f(7), f(), f(3, 0, 2)]
    dims = [[0], [-1], [0, 2], [], [0, 1, 2]]
    for x in xs:
        rank = len(x.shape)
        case("sum", x)
        case("mean", x)
        for dim in dims:
            if any(not -max(rank, 1) <= d < max(rank, 1) for d in dim) or rank == 0 and len(dim) > 1:
                continue
            for keepdim in (False, True):
                case("sum.dim_IntList", x, dim, keepdim)
                case("mean.dim", x, dim, keepdim)
                case("linalg_vector_norm", x, 2, dim, keepdim)
                case("var.correction", x, dim, correction=1, keepdim=keepdim)
                if 0 not in x.shape:
                    case("amax", x, dim, keepdim)
                    case("amin", x, dim, keepdim)
                case("any.dims", x, dim, keepdim)
                case("all.dims", x, dim, keepdim)
                if dim or not rank:
                    case("logsumexp", x, dim, keepdim)
        case("sum.dim_IntList", x, None)
        case("mean.dim", x, None)
    for x in (i(3, 4), m(3, 4), i(3, 4, dtype=i32), i(3, 4, dtype=u8, low=0)):
        case("sum", x)
        case("sum.dim_IntList", x, [1], True)
        case("sum.dim_IntList", x, [0], dtype=f32)
        case("prod", x)
        case("prod.dim_int", x, 1)
        case("any", x)
        case("all", x)
        case("any.dim", x, 1, True)
        case("all.dim", x, 0)
        case("amax", x, [1])
        case("amin", x, [])
        case("max", x)
        case("min", x)
        case("mean", x, dtype=f32)
        case("cumsum", x, 1)
        case("count_nonzero", x)
        case("nansum", x)
    case("sum", f(3, 4, dtype=bf16), dtype=f32)
    case("sum", i(3), dtype=bf16)
    case("sum", f(0))
    case("mean", f(0))
    case("prod", f(3, 4))
    case("prod", f(3, 4), dtype=f64)
    case("prod", f(0))
    case("prod.dim_int", f(3, 4, dtype=bf16), -1, True)
    case("prod.dim_int", f(), 0)
    case("nansum", t([1.0, nan, 2.0]))
    case("nansum", t([[1.0, nan], [nan, nan]]), [1], True)
    case("count_nonzero", t([0.0, nan, 1.0, -0.0]))
    case("count_nonzero.dim_IntList", f(3, 4), [1])
    for name in ("any", "all"):
        case(name, t([0.0, nan]))
        case(name, t([0.0, -0.0]))
        case(name, m(0))
        case(name, m(3))
        case(f"{name}.dim", f(3), 0)
        case(f"{name}.dim", m(2, 0), 1)
        case(f"{name}.dims", m(2, 3), None)
        case(name, i(4, low=0, high=2, dtype=u8))
    case("_is_all_true", m(4))
    case("_is_any_true", m(4))
    for name in ("max", "min", "amax", "amin"):
        case(name, f(3, 4))
        case(name, f(3, 4, dtype=bf16))
        case(name, t([1.0, nan, 3.0]))
        case(name, t([-inf, -inf]))
        case(name, f())
    for name in ("max.dim", "min.dim", "argmax", "argmin", "cummax", "cummin", "median.dim"):
        for x in (f(3, 4), i(3, 4), i(3, 4, dtype=u8, low=0), t([[1.0, nan, 3.0, nan]]),
                  t([[1, 1, 0, 1]]), t([[-inf, -inf]]), t([[2.0, 5.0, 5.0, 2.0]]),
                  f(3, 4, dtype=bf16)):  # fmt: skip
            case(name, x, 1)
            if "." not in name and "arg" not in name:
                continue
            case(name, x, 0, True)
        if name != "median.dim" and "arg" not in name:
            case(name, t([[True, False, True]]), 1)
        if "arg" in name:
            case(name, f(3, 4))
            case(name, f(3, 4), None, True)
        case(name, f(), 0)
    case("median", f(7))
    case("median", f(6))
    case("median", t([1.0, nan]))
    case("nanmedian", t([1.0, nan, 3.0, 5.0]))
    case("nanmedian.dim", t([[1.0, nan, 3.0], [4.0, 2.0, 9.0]]), 1)
    case("kthvalue", f(3, 5), 2, 1)
    case("kthvalue", i(5), 2, 0, True)
    case("mode", t([[3, 1, 1, 2], [2, 2, 3, 3]]), 1)
    case("aminmax", f(3, 4))
    case("aminmax", f(3, 4), dim=1, keepdim=True)
    case("aminmax", t([1.0, nan]))
    for correction in (0, 1, 2, 0.5, 4):
        for name in ("var.correction", "std.correction", "var_mean.correction",
                     "std_mean.correction"):  # fmt: skip
            case(name, f(3, 4), [1], correction=correction)
            case(name, f(3, 4, dtype=bf16), None, correction=correction)
    case("var.correction", f(3, 4) , None)
    case("var.correction", f(1), [0])
    for p in (0, 1, 2, 3, 0.5, inf, -inf, -1):
        case("linalg_vector_norm", f(3, 4), p, [1], tolerance=1e-4)
        case("linalg_vector_norm", f(3, 4), p, tolerance=1e-4)
    case("linalg_vector_norm", f(3, 4, dtype=bf16), 2, None, True)
    case("linalg_vector_norm", f(3, 4, dtype=bf16), 2, [0], False, dtype=f32)
    case("norm.Scalar", f(3, 4))
    case("norm.ScalarOpt_dim", f(3, 4), 2, [1])
    case("norm.ScalarOpt_dim", f(3, 4), None, [0], True)
    case("dist", f(3), f(3))
    for name in ("cumsum", "cumprod"):
        for x in (f(3, 5), f(3, 5, dtype=bf16), i(6), f(), f(0, 3), f(1, 3), m(5)):
            case(name, x, 0)
        case(name, f(2, 3, 8), -1)
        case(name, i(4, dtype=i32), 0, dtype=f32)
    case("cumsum", f(2, 33), 1)
    case("cumsum", t([1.0, inf, nan, 2.0]), 0)
    case("logcumsumexp", f(3, 5), 1)
    case("logcumsumexp", t([-inf, -inf, 1.0, inf]), 0)
    case("trace", f(3, 4))
    case("trace", i(3, 4))
    case("renorm", f(3, 4), 2, 0, 1.0)
    case("histc", f(20), 5, -1, 1)
    case("histc", f(20), 5)
    case("histc", f(8, low=-1, high=1), 4, 2, 3)
    case("logsumexp", t([[-inf, -inf], [inf, 1.0], [nan, 0.0]]), [1])
    case("logsumexp", i(3, 4), [0])


def _softmax() -> None:
    for name in ("_softmax", "_log_softmax", "_safe_softmax"):
        for x in (f(3, 5, low=-9, high=9), f(3, 5, dtype=bf16), f(3, 5, dtype=f16),
                  f(), f(2, 0), t([[-inf, 0.0], [5.0, 1e4]])):  # fmt: skip
            args = (x, -1) if name == "_safe_softmax" else (x, -1, False)
            case(name, *args)
        case(name, *((f(2, 3, 4), 1) + (() if name == "_safe_softmax" else (False,))))
    case("_safe_softmax", t([[-inf, -inf], [0.0, 1.0]]), -1)
    case("_softmax", t([[-inf, -inf], [nan, 1.0]]), -1, False)
    for name in ("_softmax_backward_data", "_log_softmax_backward_data"):
        for dtype in FLOATS:
            case(name, f(3, 5, dtype=dtype), f(3, 5, low=0, high=1, dtype=dtype), 1, dtype)
        case(name, f(2, 3, 4), f(2, 3, 4), 0, f32)
        case(name, f(), f(), 0, f32)


def _matmul() -> None:
    for dtype in (*FLOATS, i64, i32):
        x = (lambda *s, d=dtype: f(*s, dtype=d)) if dtype.is_floating_point else (
            lambda *s, d=dtype: i(*s, dtype=d))
        case("mm", x(3, 4), x(4, 5))
        case("bmm", x(2, 3, 4), x(2, 4, 5))
        case("mv", x(3, 4), x(4))
        case("dot", x(4), x(4))
        case("addmm", x(5), x(3, 4), x(4, 5))
        case("addmv", x(3), x(3, 4), x(4))
        case("baddbmm", x(2, 3, 5), x(2, 3, 4), x(2, 4, 5))
    case("mm", f(3, 0), f(0, 5))
    case("mm", f(0, 4), f(4, 5))
    case("bmm", f(2, 3, 0), f(2, 0, 5))
    case("vdot", f(4), f(4))
    case("linear", f(2, 3, 4), f(5, 4), f(5))
    case("linear", f(4, dtype=bf16), f(5, 4, dtype=bf16))
    case("addmm", f(5), f(3, 4), f(4, 5), beta=0.5, alpha=2)
    case("addmm", f(1, 5), f(3, 4), f(4, 5), beta=2)
    case("addmm", t([nan, nan]), f(3, 4), f(4, 2), beta=0)
    case("addmm", f(), f(3, 4), f(4, 2))
    case("addmm", i(5), i(3, 4), i(4, 5), beta=2, alpha=3)
    case("addmm", f(3, 5, dtype=bf16), f(3, 4, dtype=bf16), f(4, 5, dtype=bf16), beta=0.5)
    case("addmv", f(3), f(3, 4), f(4), beta=0.5, alpha=2)
    case("addmv", f(), f(3, 4), f(4))
    case("baddbmm", f(1, 5), f(2, 3, 4), f(2, 4, 5), beta=0.5, alpha=2)
    case("baddbmm", t([nan]), f(2, 3, 4), f(2, 4, 5), beta=0)
    case("addbmm", f(3, 5), f(2, 3, 4), f(2, 4, 5), beta=0.5, alpha=2)
    case("addr", f(3, 4), f(3), f(4), beta=0.5, alpha=2)
    case("_addmm_activation", f(5), f(3, 4), f(4, 5))
    case("_addmm_activation", f(5), f(3, 4), f(4, 5), use_gelu=True)
    case("_trilinear", f(2, 3), f(3, 4), f(2, 4), [2], [0], [1], [1])
    for p in (2.0, 1.0, inf, 3.0, 0.0):
        case("_cdist_forward", f(2, 3, 4), f(2, 5, 4), p, None, tolerance=2e-4)
        case("_pdist_forward", f(4, 3), p, tolerance=2e-4)
    for upper in (False, True):
        for left in (False, True):
            for unit in (False, True):
                case("linalg_solve_triangular", f(2, 3, 3, low=0.5), f(2, 3, 3), upper=upper,
                     left=left, unitriangular=unit, tolerance=1e-3)  # fmt: skip
    case("linalg_solve_triangular", f(4, 4, low=1), f(4, 2), upper=True, tolerance=1e-3)
    offs = t([3, 3, 7], i32)
    bf = dict(dtype=bf16)
    case("_grouped_mm", f(7, 16, **bf), f(3, 16, 8, **bf), offs)
    case("_grouped_mm", f(16, 16, **bf), f(16, 8, **bf), t([8, 16], i32))
    case("_grouped_mm", f(2, 16, 16, **bf), f(2, 16, 8, **bf))
    case("_grouped_mm", f(2, 8, 16, **bf), f(16, 16, **bf), t([8, 16], i32))


def _convolution() -> None:
    for x, w, bias, rest in (
        (f(2, 3, 8), f(4, 3, 3), f(4), ([1], [1], [1], False, [0], 1)),
        (f(2, 3, 8, 7), f(4, 3, 3, 3), f(4), ([1, 1], [0, 0], [1, 1], False, [0, 0], 1)),
        (f(2, 3, 8, 7), f(4, 3, 3, 3), None, ([2, 1], [1, 2], [1, 2], False, [0, 0], 1)),
        (f(2, 4, 8, 8), f(4, 1, 3, 3), f(4), ([1, 1], [1, 1], [1, 1], False, [0, 0], 4)),
        (f(2, 4, 9, 8), f(6, 2, 3, 3), f(6), ([2, 2], [1, 1], [2, 1], False, [0, 0], 2)),
        (f(1, 2, 5, 6, 4), f(3, 2, 2, 3, 2), f(3), ([1] * 3, [1] * 3, [1] * 3, False, [0] * 3, 1)),
        (f(2, 3, 5), f(3, 4, 3), f(4), ([2], [1], [1], True, [1], 1)),
        (f(2, 4, 5, 4), f(4, 3, 3, 3), f(6), ([2, 1], [1, 0], [1, 2], True, [1, 0], 2)),
        (f(2, 4, 5, 4), f(4, 2, 3, 3), None, ([1, 1], [0, 0], [1, 1], True, [0, 0], 1)),
    ):
        case("convolution", x, w, bias, *rest, tolerance=1e-4)
        shape = torch.ops.aten.convolution(
            torch.empty(x.shape, device="meta"), torch.empty(w.shape, device="meta"),
            None, *rest).shape  # fmt: skip
        grad = f(*shape)
        sizes = None if bias is None else list(bias.shape)
        masks = [True, True, bias is not None]
        case("convolution_backward", grad, x, w, sizes, *rest, masks, tolerance=2e-4)
    case("convolution", f(2, 3, 8, 8, dtype=bf16), f(4, 3, 3, 3, dtype=bf16), f(4, dtype=bf16),
         [1, 1], [1, 1], [1, 1], False, [0, 0], 1, tolerance=3e-2)  # fmt: skip
    case("convolution_backward", f(2, 4, 6), f(2, 3, 8), f(4, 3, 3), [4], [1], [0], [1], False,
         [0], 1, [False, True, True], tolerance=2e-4)  # fmt: skip
    case("convolution", f(0, 3, 8), f(4, 3, 3), f(4), [1], [1], [1], False, [0], 1)


def _pooling() -> None:
    for args in (([2, 2],), ([3, 3], [2, 2], [1, 1]), ([3, 2], [2, 1], [1, 0], [1, 2]),
                 ([3, 3], [2, 2], [1, 1], [1, 1], True), ([2], [1]), ([2, 2], [])):  # fmt: skip
        case("max_pool2d_with_indices", f(2, 3, 7, 8), *args)
        stride = args[1] if len(args) > 1 and args[1] else args[0]
        padding = args[2] if len(args) > 2 else [0, 0]
        dilation = args[3] if len(args) > 3 else [1, 1]
        ceil = len(args) > 4
        x = torch.rand(2, 3, 7, 8, generator=torch.Generator().manual_seed(0))
        y, index = torch.ops.aten.max_pool2d_with_indices(
            x, args[0], stride, padding, dilation, ceil)
        case("max_pool2d_with_indices_backward", f(*y.shape), f(2, 3, 7, 8), args[0], stride,
             padding, dilation, ceil, t(index.tolist()))  # fmt: skip
    case("max_pool2d_with_indices", f(3, 7, 8, dtype=bf16), [2, 2])
    case("max_pool2d_with_indices", i(1, 1, 4, 4, high=2), [2, 2])
    case("max_pool2d_with_indices", t([[[1.0, nan], [nan, 2.0]]]), [2, 2])
    case("max_pool2d_with_indices", t([[[-inf, -inf], [-inf, -inf]]]), [2, 2])
    case("max_pool3d_with_indices", f(1, 2, 4, 5, 4), [2, 2, 2], [1, 2, 2])
    for args in (([2, 2],), ([3, 3], [2, 2], [1, 1]), ([3, 2], [2, 1], [1, 0], True),
                 ([3, 3], [2, 2], [1, 1], True, False), ([3, 3], [2, 2], [1, 1], False, False),
                 ([2, 2], [2, 2], [0, 0], False, True, 3), ([3, 3], [3, 3], [1, 1], True)):  # fmt: skip
        case("avg_pool2d", f(2, 3, 7, 8), *args)
        shape = torch.ops.aten.avg_pool2d(torch.empty(2, 3, 7, 8, device="meta"), *args).shape
        full = [args[0], args[1] if len(args) > 1 else args[0], [0, 0], False, True, None]
        full[2 : len(args)] = args[2:]
        case("avg_pool2d_backward", f(*shape), f(2, 3, 7, 8), *full)
    case("avg_pool2d", f(3, 6, 6, dtype=bf16), [2, 2])
    case("avg_pool3d", f(1, 2, 4, 5, 4), [2, 2, 2], [2, 2, 2], [1, 1, 1])
    case("avg_pool3d_backward", f(1, 2, 3, 3, 3), f(1, 2, 4, 5, 4), [2] * 3, [2] * 3, [1] * 3,
         False, True, None)  # fmt: skip
    for size in ([2, 3], [1, 1], [7, 8], [5, 3], [9, 9]):
        case("_adaptive_avg_pool2d", f(2, 3, 7, 8), size)
        case("_adaptive_avg_pool2d_backward", f(2, 3, *size), f(2, 3, 7, 8))
        case("adaptive_max_pool2d", f(2, 3, 7, 8), size)
    case("_adaptive_avg_pool2d", f(3, 6, 6, dtype=bf16), [2, 4])
    case("_adaptive_avg_pool3d", f(1, 2, 4, 5, 6), [2, 3, 4])
    case("_adaptive_avg_pool3d_backward", f(1, 2, 2, 3, 4), f(1, 2, 4, 5, 6))
    for dims in ((5,), (5, 6), (3, 4, 3)):
        n = len(dims)
        for p in ("reflection", "replication"):
            pads = [1, 2] * n
            size = [d + 3 for d in dims]
            case(f"{p}_pad{n}d", f(2, 3, *dims), pads)
            case(f"{p}_pad{n}d_backward", f(2, 3, *size), f(2, 3, *dims), pads)
    for align in (False, True):
        case("upsample_bilinear2d", f(1, 2, 4, 5), [7, 3], align)
        case("upsample_bilinear2d_backward", f(1, 2, 7, 3), [7, 3], [1, 2, 4, 5], align)
        case("upsample_linear1d", f(1, 2, 4), [7], align)
        case("upsample_linear1d_backward", f(1, 2, 7), [7], [1, 2, 4], align)
        case("upsample_bicubic2d", f(1, 2, 5, 6), [7, 9], align, tolerance=1e-4)
        case("upsample_trilinear3d", f(1, 2, 3, 4, 3), [5, 4, 6], align)
        for mode in (0, 1):
            for padding in (0, 1, 2):
                case("grid_sampler_2d", f(2, 3, 4, 5), f(2, 3, 3, 2, low=-1.2, high=1.2), mode,
                     padding, align, tolerance=1e-4)  # fmt: skip
    case("upsample_nearest1d", f(1, 2, 4), [7])
    case("upsample_nearest2d", f(1, 2, 4, 5), [7, 10])
    case("upsample_nearest2d", f(1, 2, 4, 5), [8, 10], 2.0, 2.0)
    case("upsample_nearest2d_backward", f(1, 2, 8, 10), [8, 10], [1, 2, 4, 5])
    case("upsample_nearest1d_backward", f(1, 2, 7), [7], [1, 2, 4])
    case("_upsample_nearest_exact2d", f(1, 2, 4, 5), [7, 3])
    case("_upsample_nearest_exact2d_backward", f(1, 2, 7, 3), [7, 3], [1, 2, 4, 5])


def _norms() -> None:
    for dtype in (f32, bf16):
        x, w = f(2, 3, 4, dtype=dtype), f(4, dtype=dtype)
        for weight, bias in ((w, w), (None, None), (w, None)):
            case("native_layer_norm", x, [4], weight, bias, 1e-5)
            case("_fused_rms_norm", x, [4], weight, 1e-6)
        stat = f(2, 3, 1, low=0.5)
        case("native_layer_norm_backward", x, x, [4], f(2, 3, 1, dtype=dtype),
             f(2, 3, 1, dtype=dtype, low=0.5), w, w, [True, True, True])  # fmt: skip
        case("native_layer_norm_backward", x, x, [4], f(2, 3, 1, dtype=dtype),
             f(2, 3, 1, dtype=dtype, low=0.5), w, w, [True, True, False])  # fmt: skip
    case("native_layer_norm", f(2, 3, 4), [3, 4], f(3, 4), f(3, 4), 1e-5)
    case("native_layer_norm", f(0, 4), [4], f(4), f(4), 1e-5)
    case("native_layer_norm", f(2, 4, dtype=bf16), [4], f(4), f(4), 1e-5)
    case("native_layer_norm_backward", f(2, 3, 4), f(2, 3, 4), [3, 4], f(2, 1, 1),
         f(2, 1, 1, low=0.5), None, None, [True, False, False])  # fmt: skip
    case("native_layer_norm_backward", f(2, 4, dtype=bf16), f(2, 4, dtype=bf16), [4], f(2, 1),
         f(2, 1, low=0.5), f(4), f(4), [True, True, True])  # fmt: skip
    case("_fused_rms_norm", f(2, 3, 4), [3, 4], f(3, 4), None)
    del stat
    for shape in ((4, 3, 5, 2), (6, 3)):
        x, c = f(*shape), f(3)
        v = f(3, low=0.5)
        case("_native_batch_norm_legit_functional", x, c, c, c, v, True, 0.1, 1e-5)
        case("_native_batch_norm_legit_functional", x, c, c, c, v, False, 0.1, 1e-5,
             results=(0, 3, 4))  # fmt: skip
        case("_native_batch_norm_legit.no_stats", x, c, None, True, 0.1, 1e-5)
        case("_native_batch_norm_legit_no_training", x, c, c, c, v, 0.1, 1e-5, results=(0,))
        case("native_batch_norm", x, c, c, c, v, False, 0.1, 1e-5, results=(0,))
        case("native_batch_norm", x, None, None, None, None, True, 0.1, 1e-5)
        case("native_batch_norm_backward", x, x, c, c, v, c, v, True, 1e-5, [True] * 3)
        case("native_batch_norm_backward", x, x, None, c, v, None, None, False, 1e-5,
             [True, False, False])  # fmt: skip
        case("native_batch_norm_backward", x, x, c, c, v, c, v, False, 1e-5, [True] * 3)
    x = f(4, 3, 5, dtype=bf16)
    case("_native_batch_norm_legit_functional", x, f(3), f(3), f(3), f(3, low=0.5), True, 0.1,
         1e-5)  # fmt: skip
    for weight in (f(6), None):
        case("native_group_norm", f(2, 6, 4, 3), weight, weight, 2, 6, 12, 3, 1e-5)
        case("native_group_norm_backward", f(2, 6, 4, 3), f(2, 6, 4, 3), f(2, 3),
             f(2, 3, low=0.5), weight, 2, 6, 12, 3, [True, weight is not None, weight is not None])  # fmt: skip
    case("native_group_norm", f(2, 6, dtype=bf16), f(6, dtype=bf16), f(6, dtype=bf16), 2, 6, 1, 2,
         1e-5)  # fmt: skip


def _indexing() -> None:
    case("embedding", f(7, 4), i(2, 3, low=0, high=7))
    case("embedding", f(7, 4), i(low=0, high=7))
    case("embedding", f(7, 4, dtype=bf16), i(3, low=0, high=7, dtype=i32), 2)
    case("embedding", f(7, 4), i(0, low=0, high=7))
    for padding in (-1, 2):
        case("embedding_dense_backward", f(2, 3, 4), t([[1, 2, 1], [6, 2, 0]]), 7, padding, False)
    case("embedding_dense_backward", f(3, 4, dtype=bf16), t([1, 1, 2], i32), 7, -1, False)
    case("embedding_dense_backward", f(3, 4), t([1, 1, 2]), 7, -1, True)
    for mode in (0, 1, 2):
        case("_embedding_bag", f(7, 4), t([1, 2, 4, 5, 4, 3]), t([0, 2, 2, 5]), False, mode,
             results=(0,))  # fmt: skip
    case("_embedding_bag", f(7, 4), t([1, 2, 4, 5, 4, 3]), t([0, 2, 6]), False, 0, False, f(6),
         True, results=(0,))  # fmt: skip
    for x in (f(4, 5), f(4, 5, dtype=bf16), i(4, 5), m(4, 5)):
        case("index_select", x, 0, t([3, 0, 0]))
        case("index_select", x, -1, t([1, 4], i32))
        case("gather", x, 0, t([[0, 1], [3, 2]]))
        case("gather", x, 1, t([[0, 4], [3, 2], [1, 1]]))
        case("index.Tensor", x, [t([0, -1, 2])])
        case("index.Tensor", x, [None, t([[0], [-5]])])
        case("index.Tensor", x, [t([0, -1]), t([[1], [2]])])
        case("take", x, t([[0, 19], [-1, 3]]))
    case("index_select", f(), 0, t([0]))
    case("index_select", f(3), 0, t(1))
    case("index_select", f(3, 2), 0, t([], i64))
    case("gather", f(), 0, t([0, 0]))
    case("gather", f(3), 0, t(2))
    case("gather", f(3, 2), 0, t([[]], i64))
    case("index.Tensor", f(2, 3, 4), [t([0, 1]), None, t([3, -2])])
    case("index.Tensor", f(2, 3, 4), [None, t([0, 1]), t([3, -2])])
    case("index.Tensor", f(2, 3, 4), [None, t([2], i32), None])
    case("index.Tensor", f(2, 3, 4), [t(1)])
    case("index.Tensor", f(3), [t([], i64)])
    case("_unsafe_index.Tensor", f(3), [t([0, 2])])
    for x in (f(4, 5), i(4, 5), f(4, 5, dtype=bf16)):
        v = f(3, 5, dtype=x.dtype) if x.dtype.is_floating_point else i(3, 5)
        for accumulate in (False, True):
            case("index_put", x, [t([0, -1, 2])], v, accumulate)
            case("_unsafe_index_put", x, [t([1, 3, 2])], v, accumulate)
        case("index_put", x, [t([0, 1])], Random((), x.dtype, 1, 9))
        case("index_put", x, [t([0, 1]), t([[1], [-2]])], Random((2, 2), x.dtype, 1, 9))
        case("index_add", x, 0, t([0, 2, 2]), v)
        case("index_add", x, 0, t([0, 2, 2]), v, alpha=2)
        case("index_copy", x, 0, t([0, 3, 2]), v)
        case("index_fill.int_Scalar", x, 0, t([0, -1]), 3)
        case("index_fill.int_Tensor", x, 1, t([0, 2]), Random((), x.dtype, 1, 9))
        case("put", x, t([0, 19, -2]), Random((3,), x.dtype, 1, 9))
        case("scatter.src", x, 0, t([[0, 1], [3, 2]]), v)
        case("scatter.src", x, 1, t([[0, 4], [3, 2], [1, 0]]), v)
        case("scatter.value", x, 0, t([[0, 1], [3, 3]]), 7)
        case("scatter_add", x, 0, t([[0, 1, 1], [3, 1, 0]]), v)
        for how in ("sum", "prod", "amax", "amin", "mean"):
            for include in (True, False):
                case("scatter_reduce.two", x, 0, t([[0, 1, 1], [3, 1, 0], [0, 0, 0]]), v, how,
                     include_self=include)  # fmt: skip
                if how != "sum":
                    case("index_reduce", x, 0, t([0, 2, 2]), v, how, include_self=include)
    case("index_put", f(3), [m(3)], t(2.0))
    case("index_put", f(2, 3, 4), [None, t([0, 1])], f(2, 2, 4))
    case("index_put", f(2, 3, 4), [t([0, 1]), None, t([3, -2])], f(2, 3), True)
    case("index_put", m(4), [t([0, 1])], m(2), True)
    case("index_add", f(), 0, t([0]), f())
    case("scatter.src", m(4), 0, t([0, 2]), m(2))
    case("scatter.value", f(), 0, t(0), 2.0)
    case("scatter.value", f(4), 0, t([], i64), 2.0)
    case("scatter.reduce", f(4), 0, t([0, 2]), f(2), reduce="multiply")
    case("scatter.value_reduce", f(4), 0, t([0, 2]), 3, reduce="add")
    case("scatter_add", f(), 0, t([0]), f(1))
    case("masked_scatter", f(3, 4), m(3, 4), f(12))
    case("masked_scatter", f(3, 4), m(4), f(12))
    case("masked_scatter", i(5), m(5), i(9))
    case("isin.Tensor_Tensor", i(3, 4), t([1, 2, -3]))
    case("isin.Tensor_Tensor", f(4), t([], f32))
    case("isin.Tensor_Tensor", i(4), t([1, 2, -3]), invert=True)
    case("isin.Tensor_Scalar", i(4), 2)
    case("isin.Scalar_Tensor", 2, i(4))
    for right in (False, True):
        case("searchsorted.Tensor", t([1.0, 2.0, 2.0, 5.0]), t([0.0, 2.0, 9.0, nan]), right=right)
        case("searchsorted.Tensor", t([[1, 3], [2, 4]]), t([[1, 2], [3, 4]]), right=right)
        case("bucketize.Tensor", t([0.0, 2.0, 9.0]), t([1.0, 2.0, 2.0, 5.0]), right=right)
        case("bucketize.Tensor", i(3), t([1, 2, 4]), right=right, out_int32=True)


def _shape() -> None:
    x = f(2, 3, 4)
    case("view", x, [6, -1])
    case("view", f(), [1, 1])
    case("view", f(0, 3), [3, 0])
    case("_unsafe_view", x, [2, 12])
    case("reshape", x, [4, 6])
    case("view_copy", x, [24])
    for dtype in (f32, i64, bf16, boolean, f16, i8, f64):
        case("_to_copy", x, dtype=dtype)
        case("_to_copy", i(4), dtype=dtype)
        case("_to_copy", m(4), dtype=dtype)
    case("_to_copy", t([1.7, -1.7, 0.0, 0.3]), dtype=i32)
    case("_to_copy", t([0.3, nan, 0.0, -0.0]), dtype=boolean)
    case("_to_copy", t([300, -1, 256]), dtype=u8)
    case("_to_copy", t([300.0, 2.5]), dtype=i16)
    for name in ("alias", "detach", "clone", "lift_fresh", "alias_copy", "contiguous"):
        case(name, x)
    case("expand", f(3, 1), [2, 3, 4])
    case("expand", f(3, 1), [-1, 4])
    case("expand_copy", f(), [2, 3])
    case("permute", x, [2, 0, -2])
    case("permute_copy", x, [1, 0, 2])
    case("t", f(2, 3))
    case("t", f(2))
    case("t_copy", f(2, 3))
    case("transpose.int", x, 0, -1)
    case("transpose.int", f(), 0, -1)
    case("transpose_copy.int", x, 0, 1)
    case("unsqueeze", x, -1)
    case("unsqueeze_copy", x, 0)
    case("squeeze", f(1, 3, 1))
    case("squeeze.dim", f(1, 3, 1), 0)
    case("squeeze.dim", f(1, 3, 1), 1)
    case("squeeze.dims", f(1, 3, 1), [0, -1])
    case("squeeze_copy", f(1, 3, 1))
    for args in ((1, 1, 3), (0, None, -1), (2, -3, 9, 2), (1, 2, 1), (1, 0, 9223372036854775807)):
        case("slice.Tensor", x, *args)
        case("slice_copy.Tensor", x, *args)
    case("slice_backward", f(2, 2, 4), [2, 3, 4], 1, 1, 3, 1)
    case("slice_backward", f(2, 3, 2), [2, 3, 4], 2, -3, 9, 2)
    case("slice_backward", f(2, 0, 4), [2, 3, 4], 1, 3, 3, 1)
    case("select.int", x, 1, -1)
    case("select_copy.int", x, 0, 0)
    case("select_backward", f(2, 4), [2, 3, 4], 1, -2)
    case("slice_scatter", x, f(2, 2, 4), 1, 1, 3)
    case("slice_scatter", x, f(2, 3, 2), 2, 0, None, 2)
    case("slice_scatter", x, f(2, 0, 4), 1, 1, 1)
    case("select_scatter", x, f(2, 4), 1, -1)
    case("diagonal_scatter", f(3, 4), f(3))
    case("as_strided_scatter", f(12), f(2, 3), [2, 3], [4, 1], 1)
    case("copy", x, f(3, 1))
    case("copy", i(3), f(3))
    case("narrow_copy", x, 1, 0, 2)
    for offset in (0, 1, -1, 3, -3, 5):
        case("diagonal", f(3, 4), offset)
        case("diagonal_copy", f(3, 4), offset)
        case("diagonal", f(2, 3, 4), offset, 0, 2)
        if -3 < offset < 4:
            n = torch.empty(3, 4).diagonal(offset).shape[0]
            case("diagonal_backward", f(n), [3, 4], offset, 0, 1)
        case("diag_embed", f(2, 3), offset)
        case("tril", f(3, 4), offset)
        case("triu", f(2, 3, 4), offset)
    case("diagonal", m(3, 4))
    case("diagonal", i(3, 3))
    case("diag_embed", f(2, 3), 1, 0, 2)
    case("diagonal", t([[1.0, nan], [inf, 2.0]]))
    case("tril", m(3, 3))
    case("tril", i(3, 3), -1)
    case("flip", x, [0, -1])
    case("flip", x, [])
    case("roll", x, [1], [1])
    case("roll", x, [1, -2], [0, 2])
    case("roll", x, [5])
    case("roll", f(0, 2), [1], [0])
    case("repeat", x, [2, 1, 3])
    case("repeat", f(2), [3, 2])
    case("repeat", f(), [3])
    case("repeat", f(2), [0])
    case("rot90", f(2, 3), 1, [0, 1])
    case("constant_pad_nd", x, [1, 2], 1.5)
    case("constant_pad_nd", x, [1, 2, -1, 1])
    case("constant_pad_nd", x, [-1, -1, 0, 0, 2, 0], 1)
    case("constant_pad_nd", i(3), [1, 1], 7)
    case("constant_pad_nd", m(3), [1, 1], True)
    case("constant_pad_nd", f(3, dtype=bf16), [0, 2], -inf)
    case("as_strided", f(12), [3, 2], [4, 1], 1)
    case("as_strided", f(3, 4), [2, 2], [1, 4])
    case("as_strided_copy", f(12), [3, 2], [2, 1])
    case("unfold", f(3, 8), 1, 3, 2)
    case("unfold", f(8), 0, 8, 1)
    case("unfold_copy", f(2, 8), -1, 2, 3)
    case("unfold_backward", f(3, 3, 3), [3, 8], 1, 3, 2)
    case("im2col", f(2, 3, 5, 6), [2, 3], [1, 1], [1, 0], [1, 2])
    case("col2im", f(2, 12, 8), [5, 3], [2, 2], [1, 1], [0, 0], [1, 1])
    case("pixel_shuffle", f(1, 8, 2, 3), 2)
    case("pixel_unshuffle", f(1, 2, 4, 6), 2)
    case("channel_shuffle", f(1, 6, 2, 2), 3)
    for dims in ((f(2, 3), f(2, 1)), (f(2, 3), i(2, 2)), (f(0), f(2, 3)), (f(2, 3),),
                 (f(2, 3, dtype=bf16), f(2, 3)), (m(2, 2), i(2, 1))):  # fmt: skip
        case("cat", list(dims), 1)
    case("cat", [f(3), f(0), f(2)])
    case("cat", [f(0), f(0)])
    case("cat", [f(2, 3), f(1, 3)], -2)
    case("stack", [f(2, 3), f(2, 3)], 1)
    case("stack", [f(2), i(2)], -1)
    case("stack", [f()])
    case("split_with_sizes", x, [1, 3], 2)
    case("split_with_sizes_copy", x, [1, 3], 2)
    case("split.Tensor", x, 2, 1)
    case("unsafe_split.Tensor", x, 2, 2)
    case("unbind.int", x, 1)
    case("unbind_copy.int", x)
    case("block_diag", [f(2, 3), f(1, 2)])
    case("_chunk_cat", [f(3, 2), f(2, 2)], 0, 2)


def _creation() -> None:
    for dtype in (f32, i64, bf16, boolean, i32):
        case("full", [2, 3], 3, dtype=dtype)
        case("full_like", f(2, 3), 2.5, dtype=dtype)
        case("scalar_tensor", 2, dtype=dtype)
        for name in ("zeros", "ones"):
            case(name, [2, 3], dtype=dtype)
            case(f"{name}_like", f(2), dtype=dtype)
            case(f"new_{name}", f(2), [3], dtype=dtype)
        case("new_full", f(2), [3], 2, dtype=dtype)
        case("eye", 3, dtype=dtype)
        case("eye.m", 2, 3, dtype=dtype)
        if dtype != boolean:
            case("arange", 5, dtype=dtype)
            case("arange.start", 2, 7, dtype=dtype)
            case("arange.start_step", 2, 9, 3, dtype=dtype)
            case("linspace", 0, 10, 5, dtype=dtype)
    case("full", [0], 1.0)
    case("full", [2], -inf)
    case("full", [2], 9007199254740993, dtype=i64)
    case("full", [2], 2**62 + 1)
    case("fill.Scalar", f(3), 2)
    case("fill.Scalar", i(3), 2.7)
    case("fill.Tensor", f(3), t(1.5))
    case("fill.Tensor", i(3), t(1.5))
    case("zero", f(3))
    case("arange", 5)
    case("arange", 4.5)
    case("arange.start", 1.5, 6)
    case("arange.start_step", 0, 1, 0.1)
    case("arange.start_step", 10, 0, -3)
    case("arange.start_step", 0, 2, 0.25, dtype=bf16)
    case("linspace", -1.0, 1.0, 8)
    case("linspace", 3, 3, 1)
    case("linspace", 5.0, -5.0, 11)
    case("logspace", 0, 2, 5, tolerance=1e-4)
    case("tril_indices", 3, 4, 1)
    case("triu_indices", 3, 4, -1)


def _activations() -> None:
    x, g = f(2, 9, low=-4, high=4), f(2, 9)
    xb, gb = f(2, 9, low=-4, high=4, dtype=bf16), f(2, 9, dtype=bf16)
    forward = {
        "gelu": [{}, {"approximate": "tanh"}], "silu": [{}], "mish": [{}],
        "leaky_relu": [{}, {"negative_slope": 0.3}], "hardsigmoid": [{}], "hardswish": [{}],
        "elu": [{}, {"alpha": 0.5, "scale": 2.0, "input_scale": 1.5}], "celu": [{}],
        "softplus": [{}, {"beta": 2.0, "threshold": 3.0}], "hardtanh": [{}],
        "threshold": [{"threshold": 0.5, "value": -3}], "selu": [{}], "relu6": [{}],
        "hardshrink": [{}], "softshrink": [{}], "glu": [{"dim": 0}],
    }  # fmt: skip
    special = t([0.0, -0.0, 1.0, -1.0, inf, -inf, nan, 100.0, -100.0, 3.0, -3.0, 0.5])
    for name, options in forward.items():
        for kwargs in options:
            case(name, x, **kwargs)
            case(name, xb, **kwargs)
            if name != "glu":
                case(name, special, **kwargs)
    case("log_sigmoid_forward", x, results=(0,))
    case("log_sigmoid_forward", special, results=(0,))
    case("log_sigmoid_backward", g, x, f(2, 9, low=0, high=1))
    case("hardtanh", i(5), -2, 3)
    case("relu", t([-1, 0, 3], i32))
    case("threshold", i(5), 1, 7)
    case("_prelu_kernel", x, f(9))
    case("_prelu_kernel_backward", g, x, f(9))
    for a, b in ((g, x), (gb, xb), (f(12), special)):
        case("gelu_backward", a, b)
        case("gelu_backward", a, b, approximate="tanh")
        case("silu_backward", a, b)
        case("mish_backward", a, b)
        case("hardswish_backward", a, b)
        case("hardsigmoid_backward", a, b)
        case("threshold_backward", a, b, 0)
        case("leaky_relu_backward", a, b, 0.1, False)
        case("hardtanh_backward", a, b, -1, 1)
        case("softplus_backward", a, b, 1, 20)
        case("hardshrink_backward", a, b, 0.5)
        case("softshrink_backward", a, b, 0.5)
        case("elu_backward", a, 1.0, 1.0, 1.0, False, b)
    y = f(2, 9, low=0.05, high=0.95)
    case("sigmoid_backward", g, y)
    case("tanh_backward", g, y)
    case("logit_backward", g, y)
    case("elu_backward", g, 1.5, 2.0, 1.0, True, x)
    case("glu_backward", f(1, 9), x, 0)
    case("rrelu_with_noise_backward", g, x, y, 0.1, 0.3, False, False)
    case("native_dropout_backward", g, m(2, 9), 2.0)


def _losses() -> None:
    for reduction in (0, 1, 2):
        for weight in (None, f(5, low=0.5)):
            target = t([1, 0, 4, 2])
            case("nll_loss_forward", f(4, 5), target, weight, reduction, -100)
            case("nll_loss_forward", f(4, 5), target, weight, reduction, 4)
            grad = f(4) if reduction == 0 else f()
            case("nll_loss_backward", grad, f(4, 5), target, weight, reduction, 4, t(3.0))
            plane = t([[[0, 1], [4, 2]], [[3, 3], [1, 0]]])
            case("nll_loss2d_forward", f(2, 5, 2, 2), plane, weight, reduction, 4)
            grad = f(2, 2, 2) if reduction == 0 else f()
            case("nll_loss2d_backward", grad, f(2, 5, 2, 2), plane, weight, reduction, 4, t(3.0))
        case("nll_loss_forward", f(4, 5, dtype=bf16), t([1, 0, 4, 2]), None, reduction, -100)
        for name in ("mse_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss"):
            case(name, f(3, 4), f(3, 4), reduction)
            case(name, f(3, 4, dtype=bf16), f(3, 4, dtype=bf16), reduction)
            shape = (3, 4) if reduction == 0 else ()
            extra = (1.0,) if name in ("smooth_l1_loss", "huber_loss") else ()
            case(f"{name}_backward", f(*shape), f(3, 4), f(3, 4), reduction, *extra)
        case("smooth_l1_loss", f(3, 4), f(3, 4), reduction, 0.5)
        case("huber_loss", f(3, 4), f(3, 4), reduction, 0.5)
        p, y = f(3, 4, low=0.05, high=0.95), f(3, 4, low=0, high=1)
        case("binary_cross_entropy", p, y, None, reduction)
        case("binary_cross_entropy", p, y, f(3, 4), reduction)
        case("binary_cross_entropy_backward", f(*shape), p, y, None, reduction)
        case("binary_cross_entropy_with_logits", f(3, 4), y, None, None, reduction)
        case("binary_cross_entropy_with_logits", f(3, 4), y, f(4), f(4, low=0.5), reduction)
    case("nll_loss_forward", f(5), t(2), None, 1, -100)
    case("nll_loss_backward", f(), f(5), t(2), None, 1, -100, t(1.0))
    case("nll_loss_forward", f(2, 5), t([3, 3]), None, 1, 3)
    case("nll_loss_forward", t([[-inf, 0.0], [0.0, -inf]]), t([1, 0]), None, 1, -100)


def _sorting() -> None:
    for x in (f(3, 5), i(3, 5), f(3, 5, dtype=bf16), t([[3.0, nan, -inf, 1.0, nan]]),
              t([[2, 1, 2, 1]]), m(2, 4)):  # fmt: skip
        for descending in (False, True):
            case("sort.stable", x, stable=True, dim=-1, descending=descending)
            case("argsort.stable", x, stable=True, dim=1, descending=descending)
            case("sort", x, -1, descending, results=(0,))
    case("sort", f(3, 5), 0)
    case("sort", f(), -1)
    for largest in (True, False):
        case("topk", f(3, 5), 2, -1, largest)
        case("topk", f(3, 5), 3, 0, largest)
        case("topk", t([[3.0, nan, -inf, 1.0]]), 2, 1, largest)
        case("topk", i(9, low=-99, high=99), 4, 0, largest, results=(0,))
    case("topk", f(), 1)
    case("topk", f(3), 0)


def _optimizers() -> None:
    a = [f(2, 3), f(4), f()]
    b = [f(2, 3), f(4), f()]
    p = [f(2, 3, low=1), f(4, low=1), f(low=1)]
    half = [f(2, 3, dtype=bf16), f(4, dtype=bf16)]
    for name in ("add", "sub", "mul", "div", "clamp_min", "clamp_max", "maximum", "minimum", "pow"):
        x = p if name == "pow" else a
        case(f"_foreach_{name}.Scalar", x, 0.5, tolerance=1e-5)
        case(f"_foreach_{name}.ScalarList", x, [0.5, 2.0, 3.0])
        case(f"_foreach_{name}.List", x, p)
        case(f"_foreach_{name}.Scalar", half if name != "pow" else p, 2)
    case("_foreach_add.List", a, b, alpha=0.5)
    case("_foreach_sub.List", a, b, alpha=0.5)
    case("_foreach_add.Tensor", a, f())
    case("_foreach_add.Tensor", a, f(), alpha=2)
    case("_foreach_mul.Tensor", a, f())
    case("_foreach_mul.Tensor", half, f())
    case("_foreach_div.Tensor", a, f(low=1))
    case("_foreach_add.Scalar", [i(3), f(2)], 1)
    case("_foreach_div.Scalar", [i(3)], 2)
    case("_foreach_mul.Scalar", [i(3)], 2.5)
    case("_foreach_pow.ScalarAndTensor", 2.0, a)
    for name in ("sqrt", "rsqrt", "neg", "exp", "abs", "reciprocal", "log", "sign", "sigmoid",
                 "tanh", "floor", "ceil", "round", "trunc", "frac", "sin", "cos", "tan", "erf",
                 "expm1", "log1p", "log2", "log10", "lgamma", "sinh", "cosh", "asin", "acos",
                 "atan", "erfc"):  # fmt: skip
        x = p if name not in ("asin", "acos") else [f(3, low=-1, high=1)]
        case(f"_foreach_{name}", x, tolerance=2e-4 if name in ("tan", "lgamma") else None)
        case(f"_foreach_{name}", [f(3, dtype=bf16, low=0.1, high=0.9)])
    case("_foreach_max", a)
    case("_foreach_zero", a)
    case("_foreach_copy", a, b)
    case("_foreach_copy", a, [f(2, 3, dtype=bf16), f(4), f()])
    for name in ("addcmul", "addcdiv"):
        case(f"_foreach_{name}.Scalar", a, b, p, 0.5)
        case(f"_foreach_{name}.ScalarList", a, b, p, [0.5, 1.0, 2.0])
        case(f"_foreach_{name}.Tensor", a, b, p, t([0.5, 1.0, 2.0]))
        case(f"_foreach_{name}.Scalar", half, half, [f(2, 3, dtype=bf16, low=1), f(4, dtype=bf16, low=1)])
    for w in (0.1, 0.9):
        case("_foreach_lerp.Scalar", a, b, w)
    case("_foreach_lerp.List", a, b, p)
    case("_foreach_lerp.ScalarList", a, b, [0.1, 0.5, 0.9])
    for ord in (2, 1, inf, 0, 3):
        case("_foreach_norm.Scalar", a, ord)
        case("_foreach_norm.Scalar", half, ord)
    case("_foreach_norm.Scalar", half, 2, f32)
    case("_foreach_norm.Scalar", [f(0), f(3)], 2)
    steps = [t(3.0), t(5.0), t(1.0)]
    v = [f(2, 3, low=0), f(4, low=0), f(low=0)]
    for name in ("_fused_adam", "_fused_adamw"):
        for extra in ({}, {"grad_scale": t(4.0), "found_inf": t(0.0)}, {"found_inf": t(1.0)}):
            for amsgrad in (False, True):
                for maximize in (False, True):
                    flags = dict(beta1=0.9, beta2=0.99, weight_decay=0.1, eps=1e-8,
                                 amsgrad=amsgrad, maximize=maximize, **extra)  # fmt: skip
                    case(name, a, b, a, v, v if amsgrad else [], steps, lr=0.01, **flags)
        case(f"{name}.tensor_lr", a, b, a, v, [], steps, lr=t(0.01), beta1=0.9, beta2=0.99,
             weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False)  # fmt: skip
    for momentum, nesterov, first in ((0.0, False, False), (0.9, False, True), (0.9, True, False)):
        buffers = b if momentum else []
        flags = dict(weight_decay=0.1, momentum=momentum, dampening=0.0 if nesterov else 0.1,
                     nesterov=nesterov, maximize=nesterov, is_first_step=first)  # fmt: skip
        case("_fused_sgd", a, b, buffers, lr=0.01, **flags)
        case("_fused_sgd.tensor_lr", a, b, buffers, lr=t(0.01), **flags)
        case("_fused_sgd", a, b, buffers, lr=0.01, grad_scale=t(4.0), found_inf=t(0.0), **flags)
    case("_fused_adagrad", a, b, v, steps, lr=0.01, lr_decay=0.1, weight_decay=0.1, eps=1e-10,
         maximize=False)  # fmt: skip
    for found in (0.0, 1.0):
        for tracker in (1, 4):
            case("_amp_update_scale", t([64.0]), t([tracker], i32), t([found]), 2.0, 0.5, 5)
    case("_amp_update_scale", t(3e38), t(4, i32), t(0.0), 2.0, 0.5, 5)
    case("_amp_foreach_non_finite_check_and_unscale", [f(3), f(2, 2)], t([0.0]), t(0.25))
    case("_amp_foreach_non_finite_check_and_unscale", [f(3), t([1.0, inf])], t([0.0]), t([0.25]))
    case("_amp_foreach_non_finite_check_and_unscale", [f(3, dtype=f16)], t([0.0]), t([0.5]))


for _family in (_unary, _binary, _clamp, _where, _reductions, _softmax, _matmul, _convolution,
                _pooling, _norms, _indexing, _shape, _creation, _activations, _losses, _sorting,
                _optimizers):  # fmt: skip
    _family()
