// SPDX-License-Identifier: Apache-2.0
// Arithmetic on two operands, tensors or numbers.
#include <cmath>

#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

using ir::Builder;
using ir::Compare;
using Binary = Value (*)(Builder&, Value, Value);

// Arguments 0 and 1 in one dtype and shape.
std::pair<Value, Value> operands(Op& op, DType dtype) {
  const Value a = op.scalar(0, dtype);
  return broadcast_pair(op.b, a, op.scalar(1, dtype));
}

DType arithmetic(Op& op) {
  return opmath(op.promoted({0, 1}));
}

void lower_each(std::initializer_list<const char*> names, Lowering f) {
  for (const char* name : names) {
    lower(std::string("aten::") + name, f);
  }
}

// In the promoted dtype.
void lower_binary(std::initializer_list<const char*> names, Binary f) {
  lower_each(names, [f](Op& op) -> Values {
    const auto [a, c] = operands(op, arithmetic(op));
    return {f(op.b, a, c)};
  });
}

// In floating point whatever the operands' dtypes.
void lower_float(std::initializer_list<const char*> names, Binary f) {
  lower_each(names, [f](Op& op) -> Values {
    const auto [a, c] = operands(op, float_math(op.promoted({0, 1})));
    return {f(op.b, a, c)};
  });
}

// Argument i times alpha, which is argument 2.
Value scaled(Op& op, int i, DType dtype) {
  const Value x = op.scalar(i, dtype);
  if (!op.has(2) ||
      (std::holds_alternative<int64_t>(op.argument(2)) && op.integer(2) == 1)) {
    return x;
  }
  const auto [a, alpha] = broadcast_pair(op.b, x, op.scalar(2, dtype));
  return dtype == DType::Bool ? op.b.logical_and(a, alpha) : op.b.mul(a, alpha);
}

Values add(Op& op) {
  const DType dtype = arithmetic(op);
  const Value first = op.scalar(0, dtype);
  const auto [a, c] = broadcast_pair(op.b, first, scaled(op, 1, dtype));
  return {dtype == DType::Bool ? op.b.logical_or(a, c) : op.b.add(a, c)};
}

Values sub(Op& op) {
  const DType dtype = arithmetic(op);
  const Value first = op.scalar(0, dtype);
  const auto [a, c] = broadcast_pair(op.b, first, scaled(op, 1, dtype));
  return {op.b.sub(a, c)};
}

Values rsub(Op& op) {
  const DType dtype = arithmetic(op);
  const Value first = scaled(op, 0, dtype);
  const auto [a, c] = broadcast_pair(op.b, first, op.scalar(1, dtype));
  return {op.b.sub(c, a)};
}

Value mul(Builder& b, Value a, Value c) {
  return b.dtype(a) == DType::Bool ? b.logical_and(a, c) : b.mul(a, c);
}

// `r` is not zero and of the other sign than the divisor.
Value signs_differ(Builder& b, Value r, Value divisor) {
  const Value low = compare(b, Compare::LT, r, 0);
  const Value differ =
      b.compare(Compare::NE, low, compare(b, Compare::LT, divisor, 0));
  return b.logical_and(compare(b, Compare::NE, r, 0), differ);
}

Value floor_divide_integers(Builder& b, Value a, Value c) {
  const Value q = b.div(a, c);
  if (is_unsigned(b.dtype(a))) {
    return q;
  }
  const Value adjust = signs_differ(b, b.binary("remainder", a, c), c);
  return b.sub(q, b.convert(adjust, b.dtype(a)));
}

// c10::div_floor_floating: exact where the quotient is near an integer.
Value floor_divide_floats(Builder& b, Value a, Value c) {
  const Value zero = fill_like(b, a, 0), one = fill_like(b, a, 1);
  const Value mod = b.binary("remainder", a, c);
  Value div = b.div(b.sub(a, mod), c);
  div = b.select(signs_differ(b, mod, c), b.sub(div, one), div);
  const Value low = b.unary("floor", div);
  const Value up = compare(b, Compare::GT, b.sub(div, low), 0.5);
  const Value rounded = b.select(up, b.add(low, one), low);
  const Value quotient = b.div(a, c);
  // copysign(0, quotient): the product with 0 is NaN where that overflowed.
  const Value signed_zero =
      b.select(compare(b, Compare::LT, quotient, 0), b.neg(zero), zero);
  const Value nonzero =
      b.select(compare(b, Compare::NE, div, 0), rounded, signed_zero);
  return b.select(compare(b, Compare::EQ, c, 0), quotient, nonzero);
}

Value floor_divide(Builder& b, Value a, Value c) {
  return is_integral(b.dtype(a)) ? floor_divide_integers(b, a, c)
                                 : floor_divide_floats(b, a, c);
}

Values divide(Op& op, const std::string& mode) {
  const DType promoted = op.promoted({0, 1});
  if (mode.empty()) {
    const auto [a, c] = operands(op, float_math(promoted));
    return {op.b.div(a, c)};
  }
  if (promoted == DType::Bool) {
    throw Unsupported("integer division of bool");
  }
  const auto [a, c] = operands(op, opmath(promoted));
  if (mode == "floor") {
    return {floor_divide(op.b, a, c)};
  }
  Value q = op.b.div(a, c);
  if (!is_integral(promoted)) {
    // ATen truncates the quotient rounded to the operands' dtype.
    q = truncate(op.b, op.b.convert(q, promoted));
  }
  return {q};
}

// The result has the divisor's sign.
Value remainder(Builder& b, Value a, Value c) {
  const Value r = b.binary("remainder", a, c);
  if (is_unsigned(b.dtype(a))) {
    return r;
  }
  return b.select(signs_differ(b, r, c), b.add(r, c), r);
}

Value whole_power(Builder& b, Value x, int64_t exponent) {
  Value result, square = x;
  for (int64_t e = exponent; e > 0; e >>= 1) {
    if (e & 1) {
      result = result ? b.mul(result, square) : square;
    }
    if (e > 1) {
      square = b.mul(square, square);
    }
  }
  return result ? result : fill_like(b, x, 1);
}

Values power_of_scalar(Op& op) {
  auto& b = op.b;
  const DType dtype = opmath(op.result().dtype);
  const Value x = op.in(0, dtype);
  const double e = op.number(1);
  const bool whole = e == std::floor(e) && std::abs(e) < 0x1p62;
  if (whole && is_integral(dtype)) {
    if (e < 0) {
      throw Unsupported("integers to a negative power");
    }
    return {whole_power(b, x, op.integer(1))};
  }
  if (whole && std::abs(e) <= 64) {
    const Value p = whole_power(b, x, static_cast<int64_t>(std::abs(e)));
    return {e < 0 ? b.div(fill_like(b, p, 1), p) : p};
  }
  if (e == 0.5) {
    return {b.sqrt(x)};
  }
  if (e == -0.5) {
    return {b.rsqrt(x)};
  }
  return {b.binary("power", x, fill_like(b, x, e))};
}

Value hypotenuse(Builder& b, Value a, Value c) {
  const Value x = b.unary("abs", a), y = b.unary("abs", c);
  const Value large = b.max(x, y), ratio = b.div(b.min(x, y), large);
  const Value one = fill_like(b, x, 1);
  const Value h = b.mul(large, b.sqrt(b.add(one, b.mul(ratio, ratio))));
  const Value infinite = b.logical_or(b.chlo("is_inf", x), b.chlo("is_inf", y));
  const Value zero = compare(b, Compare::EQ, large, 0);
  return b.select(
      infinite, fill_like(b, x, INFINITY), b.select(zero, large, h));
}

Value copy_sign(Builder& b, Value a, Value c) {
  const Value bits = b.bitcast(b.convert(c, DType::Float32), DType::Int32);
  const Value size = b.unary("abs", a);
  return b.select(compare(b, Compare::LT, bits, 0), b.neg(size), size);
}

// log(base^a + base^c)
Value log_add(Builder& b, Value a, Value c, double base) {
  const Value scale = fill_like(b, a, std::log(base));
  const Value gap = b.unary("abs", b.sub(a, c));
  const Value tail =
      b.div(b.unary("log_plus_one", b.exp(b.neg(b.mul(gap, scale)))), scale);
  const Value same_infinity =
      b.logical_and(b.chlo("is_inf", a), b.compare(Compare::EQ, a, c));
  return b.select(same_infinity, a, b.add(b.max(a, c), tail));
}

// x * log, 0 where x is 0, NaN where y is.
Value times_log(Builder& b, Value x, Value y, const char* log) {
  const Value product = b.mul(x, b.unary(log, y));
  const Value kept =
      b.select(compare(b, Compare::EQ, x, 0), fill_like(b, x, 0), product);
  return b.select(is_nan(b, y), y, kept);
}

// Euclid's algorithm on all elements until none is left.
Value greatest_divisor(Builder& b, Value a, Value c) {
  const Value x = is_unsigned(b.dtype(a)) ? a : b.unary("abs", a);
  const Value y = is_unsigned(b.dtype(c)) ? c : b.unary("abs", c);
  return b.while_loop(
      {x, y},
      [](Builder& r, const ir::Values& v) -> ir::Values {
        return {r.reduce(compare(r, Compare::NE, v[1], 0),
                         ir::Reduce::Or,
                         range(0, r.rank(v[1])))};
      },
      [](Builder& r, const ir::Values& v) -> ir::Values {
        const Value more = compare(r, Compare::NE, v[1], 0);
        const Value divisor = r.select(more, v[1], fill_like(r, v[1], 1));
        const Value rest = r.binary("remainder", v[0], divisor);
        return {r.select(more, v[1], v[0]), r.select(more, rest, v[1])};
      })[0];
}

Value integral(Builder& b, Value x) {
  return b.compare(Compare::EQ, x, b.unary("floor", x));
}

// XLA's holds for x > 1 and q > 0. Below, where x is integral, the terms
// (q + i)^-x are added one by one until q is positive. Integers are poles.
Value zeta(Builder& b, Value x, Value q) {
  const auto left = [](Builder& r, const ir::Values& v) {
    return r.logical_and(
        r.logical_and(compare(r, Compare::LT, v[1], 0), integral(r, v[0])),
        r.logical_not(integral(r, v[1])));
  };
  const auto results = b.while_loop(
      {x, q, fill_like(b, q, 0)},
      [left](Builder& r, const ir::Values& v) -> ir::Values {
        return {r.reduce(left(r, v), ir::Reduce::Or, range(0, r.rank(v[1])))};
      },
      [left](Builder& r, const ir::Values& v) -> ir::Values {
        const Value more = left(r, v);
        const Value term = r.binary("power", v[1], r.neg(v[0]));
        const Value next = r.add(v[1], fill_like(r, v[1], 1));
        return {v[0],
                r.select(more, next, v[1]),
                r.select(more, r.add(v[2], term), v[2])};
      });
  const Value value = b.add(results[2], b.chlo("zeta", x, results[1]));
  const Value pole = fill_like(b, x, INFINITY), none = fill_like(b, x, NAN);
  const Value below =
      b.select(integral(b, q), pole, b.select(integral(b, x), value, none));
  const Value above = b.select(compare(b, Compare::LE, q, 0), below, value);
  return b.select(compare(b, Compare::EQ, x, 1),
                  pole,
                  b.select(compare(b, Compare::LT, x, 1), none, above));
}

Value shift_right(Builder& b, Value a, Value c) {
  return b.binary(is_unsigned(b.dtype(a)) ? "shift_right_logical"
                                          : "shift_right_arithmetic",
                  a,
                  c);
}

const bool registered = [] {
  lower_each({"add.Tensor", "add.Scalar"}, &add);
  lower_each({"sub.Tensor", "sub.Scalar"}, &sub);
  lower_each({"rsub.Tensor", "rsub.Scalar"}, &rsub);
  lower_binary({"mul.Tensor", "mul.Scalar"}, &mul);
  lower_each({"div.Tensor", "div.Scalar"},
             [](Op& op) { return divide(op, ""); });
  lower_each({"div.Tensor_mode", "div.Scalar_mode"},
             [](Op& op) { return divide(op, op.has(2) ? op.string(2) : ""); });
  lower_each({"floor_divide", "floor_divide.Scalar"},
             [](Op& op) { return divide(op, "floor"); });
  lower_binary(
      {"remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor"},
      &remainder);
  lower_binary(
      {"fmod.Tensor", "fmod.Scalar"},
      [](Builder& b, Value a, Value c) { return b.binary("remainder", a, c); });
  lower("aten::pow.Tensor_Scalar", &power_of_scalar);
  lower_each({"pow.Tensor_Tensor", "pow.Scalar"}, [](Op& op) -> Values {
    const auto [x, e] = operands(op, opmath(op.result().dtype));
    return {op.b.binary("power", x, e)};
  });
  lower_float({"atan2"}, [](Builder& b, Value a, Value c) {
    return b.binary("atan2", a, c);
  });
  lower_float({"hypot"}, &hypotenuse);
  lower_float({"copysign.Tensor", "copysign.Scalar"}, &copy_sign);
  lower_float({"logaddexp"}, [](Builder& b, Value a, Value c) {
    return log_add(b, a, c, M_E);
  });
  lower_float({"logaddexp2"},
              [](Builder& b, Value a, Value c) { return log_add(b, a, c, 2); });
  lower_float(
      {"xlogy.Tensor", "xlogy.Scalar_Other", "xlogy.Scalar_Self"},
      [](Builder& b, Value x, Value y) { return times_log(b, x, y, "log"); });
  lower_float({"special_xlog1py",
               "special_xlog1py.other_scalar",
               "special_xlog1py.self_scalar"},
              [](Builder& b, Value x, Value y) {
                return times_log(b, x, y, "log_plus_one");
              });
  lower_float(
      {"special_zeta", "special_zeta.other_scalar", "special_zeta.self_scalar"},
      &zeta);
  lower("aten::nextafter", [](Op& op) -> Values {
    const auto [a, c] = operands(op, op.promoted({0, 1}));
    return {op.b.chlo("next_after", a, c)};
  });
  lower_float({"ldexp.Tensor"}, [](Builder& b, Value x, Value e) {
    return b.mul(x, b.binary("power", fill_like(b, e, 2), e));
  });
  lower_binary({"gcd"}, &greatest_divisor);

  for (const auto& [name, hlo] : {std::pair{"bitwise_and", "and"},
                                  {"bitwise_or", "or"},
                                  {"bitwise_xor", "xor"},
                                  {"bitwise_left_shift", "shift_left"},
                                  {"__lshift__", "shift_left"}}) {
    for (const char* overload :
         {".Tensor", ".Scalar", ".Scalar_Tensor", ".Tensor_Scalar"}) {
      lower(std::string("aten::") + name + overload,
            [hlo = std::string(hlo)](Op& op) -> Values {
              const auto [a, c] = operands(op, op.promoted({0, 1}));
              return {op.b.binary(hlo, a, c)};
            });
    }
  }
  lower_binary({"bitwise_right_shift.Tensor",
                "bitwise_right_shift.Tensor_Scalar",
                "bitwise_right_shift.Scalar_Tensor",
                "__rshift__.Tensor",
                "__rshift__.Scalar"},
               &shift_right);
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
