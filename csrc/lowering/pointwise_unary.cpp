// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

using Unary = Value (*)(ir::Builder&, Value);

// Computed in floating point whatever the operand's dtype.
void lower_float(std::string_view name, Unary function) {
  lower(name, [function](Op& op) -> Values {
    const DType math = float_math(op.type(0).dtype);
    return {function(op.b, op.in(0, math))};
  });
}

// Computed in the operand's own dtype.
void lower_same(std::string_view name, Unary function) {
  lower(name, [function](Op& op) -> Values {
    return {function(op.b, op.in(0))};
  });
}

Value constant(ir::Builder& b, Value x, double value) {
  return fill_like(b, x, value);
}

Value named(ir::Builder& b, Value x, const char* op) { return b.unary(op, x); }

Value is_nan(ir::Builder& b, Value x) {
  return b.compare(ir::Compare::NE, x, x);
}

Value is_infinite(ir::Builder& b, Value x) {
  if (is_integral(b.dtype(x))) {
    return b.constant(DType::Bool, 0, b.shape(x));
  }
  return b.compare(ir::Compare::EQ, b.unary("abs", x),
                   constant(b, x, INFINITY));
}

// Integers are their own floor.
Value rounded(ir::Builder& b, Value x, const char* op) {
  return is_integral(b.dtype(x)) ? x : b.unary(op, x);
}

Value trunc(ir::Builder& b, Value x) {
  if (is_integral(b.dtype(x))) {
    return x;
  }
  const Value zero = constant(b, x, 0);
  return b.select(b.compare(ir::Compare::LT, x, zero), b.unary("ceil", x),
                  b.unary("floor", x));
}

Value sign(ir::Builder& b, Value x) {
  if (b.dtype(x) == DType::Bool) {
    return x;
  }
  if (is_unsigned(b.dtype(x))) {
    return b.min(x, constant(b, x, 1));
  }
  const Value zero = constant(b, x, 0);
  const Value above =
      b.convert(b.compare(ir::Compare::GT, x, zero), b.dtype(x));
  const Value below =
      b.convert(b.compare(ir::Compare::LT, x, zero), b.dtype(x));
  return b.sub(above, below);  // 0 for NaN, as ATen
}

Value absolute(ir::Builder& b, Value x) {
  return is_unsigned(b.dtype(x)) ? x : b.unary("abs", x);
}

Value log_base(ir::Builder& b, Value x, double base) {
  return b.mul(b.log(x), constant(b, x, 1 / std::log(base)));
}

Value sinh(ir::Builder& b, Value x) { return b.chlo("sinh", x); }
Value cosh(ir::Builder& b, Value x) { return b.chlo("cosh", x); }

const bool registered = [] {
  lower_float("aten::exp", [](auto& b, Value x) { return b.exp(x); });
  lower_float("aten::exp2", [](auto& b, Value x) {
    return b.exp(b.mul(x, constant(b, x, std::log(2.0))));
  });
  lower_float("aten::expm1", [](auto& b, Value x) {
    return named(b, x, "exponential_minus_one");
  });
  lower_float("aten::log", [](auto& b, Value x) { return b.log(x); });
  lower_float("aten::log1p", [](auto& b, Value x) {
    return named(b, x, "log_plus_one");
  });
  lower_float("aten::log2",
              [](auto& b, Value x) { return log_base(b, x, 2); });
  lower_float("aten::log10",
              [](auto& b, Value x) { return log_base(b, x, 10); });
  lower_float("aten::sqrt", [](auto& b, Value x) { return b.sqrt(x); });
  lower_float("aten::rsqrt", [](auto& b, Value x) { return b.rsqrt(x); });
  lower_float("aten::sin",
              [](auto& b, Value x) { return named(b, x, "sine"); });
  lower_float("aten::cos",
              [](auto& b, Value x) { return named(b, x, "cosine"); });
  lower_float("aten::tan",
              [](auto& b, Value x) { return named(b, x, "tan"); });
  lower_float("aten::tanh", [](auto& b, Value x) { return b.tanh(x); });
  lower_float("aten::sinh", &sinh);
  lower_float("aten::cosh", &cosh);
  for (const auto& [name, chlo] :
       {std::pair{"aten::asin", "asin"}, {"aten::acos", "acos"},
        {"aten::atan", "atan"}, {"aten::asinh", "asinh"},
        {"aten::acosh", "acosh"}, {"aten::atanh", "atanh"},
        {"aten::lgamma", "lgamma"}, {"aten::digamma", "digamma"},
        {"aten::erfc", "erfc"}, {"aten::erfinv", "erf_inv"}}) {
    lower(name, [chlo = std::string(chlo)](Op& op) -> Values {
      return {op.b.chlo(chlo, op.in(0, float_math(op.type(0).dtype)))};
    });
  }
  lower_float("aten::erf", [](auto& b, Value x) { return b.erf(x); });
  lower_float("aten::sigmoid",
              [](auto& b, Value x) { return named(b, x, "logistic"); });
  lower_float("aten::reciprocal", [](auto& b, Value x) {
    return b.div(constant(b, x, 1), x);
  });

  lower_same("aten::neg", [](auto& b, Value x) { return b.neg(x); });
  lower_same("aten::abs", &absolute);
  lower_same("aten::sign", &sign);
  lower_same("aten::ceil",
             [](auto& b, Value x) { return rounded(b, x, "ceil"); });
  lower_same("aten::floor",
             [](auto& b, Value x) { return rounded(b, x, "floor"); });
  lower_same("aten::round", [](auto& b, Value x) {
    return rounded(b, x, "round_nearest_even");
  });
  lower_same("aten::trunc", &trunc);
  lower_same("aten::frac",
             [](auto& b, Value x) { return b.sub(x, trunc(b, x)); });
  lower_same("aten::isnan", &is_nan);
  lower_same("aten::isinf", &is_infinite);
  lower_same("aten::bitwise_not",
             [](auto& b, Value x) { return b.logical_not(x); });
  lower_same("aten::logical_not", [](auto& b, Value x) {
    return b.compare(ir::Compare::EQ, x, constant(b, x, 0));
  });
  lower_same("aten::signbit", [](auto& b, Value x) -> Value {
    if (is_unsigned(b.dtype(x))) {
      return b.constant(DType::Bool, 0, b.shape(x));
    }
    if (is_integral(b.dtype(x))) {
      return b.compare(ir::Compare::LT, x, constant(b, x, 0));
    }
    const Value bits = b.bitcast(b.convert(x, DType::Float32), DType::Int32);
    return b.compare(ir::Compare::LT, bits, constant(b, bits, 0));
  });
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
