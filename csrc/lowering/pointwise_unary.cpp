// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

using ir::Builder;
using ir::Compare;
using Unary = Value (*)(Builder&, Value);

// Computed in floating point whatever the operand's dtype; also the foreach
// form, one result per tensor of the list.
template <typename Function>
void lower_float(const std::string& name, Function f) {
  lower("aten::" + name, [f](Op& op) -> Values {
    return {f(op.b, op.in(0, float_math(op.type(0).dtype)))};
  });
  lower("aten::_foreach_" + name, [f](Op& op) -> Values {
    Values results;
    for (Value x : op.list(0)) {
      results.push_back(f(op.b, op.b.convert(x, float_math(op.b.dtype(x)))));
    }
    return results;
  });
}

// Computed in the operand's own dtype.
void lower_same(const std::string& name, Unary f) {
  lower("aten::" + name, [f](Op& op) -> Values { return {f(op.b, op.in(0))}; });
  lower("aten::_foreach_" + name, [f](Op& op) -> Values {
    Values results;
    for (Value x : op.list(0)) {
      results.push_back(f(op.b, x));
    }
    return results;
  });
}

Value k(Builder& b, Value x, double value) {
  return fill_like(b, x, value);
}

Value infinite(Builder& b, Value x, const char* chlo) {
  return is_integral(b.dtype(x)) ? b.constant(DType::Bool, 0, b.shape(x))
                                 : b.chlo(chlo, x);
}

// Integers are their own floor.
Value rounded(Builder& b, Value x, const char* op) {
  return is_integral(b.dtype(x)) ? x : b.unary(op, x);
}

Value sign(Builder& b, Value x) {
  if (b.dtype(x) == DType::Bool) {
    return x;
  }
  if (is_unsigned(b.dtype(x))) {
    return b.min(x, k(b, x, 1));
  }
  const Value above = b.convert(compare(b, Compare::GT, x, 0), b.dtype(x));
  const Value below = b.convert(compare(b, Compare::LT, x, 0), b.dtype(x));
  return b.sub(above, below);  // 0 for NaN, as ATen
}

Value absolute(Builder& b, Value x) {
  return is_integral(b.dtype(x)) && is_unsigned(b.dtype(x)) ? x
                                                            : b.unary("abs", x);
}

Value negative(Builder& b, Value x) {
  if (b.dtype(x) == DType::Bool) {
    return b.constant(DType::Bool, 0, b.shape(x));
  }
  if (is_integral(b.dtype(x))) {
    return compare(b, Compare::LT, x, 0);
  }
  // The sign bit itself: -0 and -nan have it too.
  const Value bits = b.bitcast(b.convert(x, DType::Float32), DType::Int32);
  return compare(b, Compare::LT, bits, 0);
}

Value sinc(Builder& b, Value x) {
  const Value angle = b.mul(x, k(b, x, M_PI));
  const Value at_zero = compare(b, Compare::EQ, x, 0);
  return b.select(at_zero, k(b, x, 1), b.div(b.unary("sine", angle), angle));
}

// -x ln x on [0, inf), with limits.
Value entropy(Builder& b, Value x) {
  const Value inside = b.neg(b.mul(x, b.log(x)));
  const Value outside =
      b.select(compare(b, Compare::EQ, x, 0), k(b, x, 0), k(b, x, -INFINITY));
  const Value defined =
      b.logical_or(compare(b, Compare::GT, x, 0), is_nan(b, x));
  return b.select(defined, inside, outside);
}

Values logit(Op& op) {
  auto& b = op.b;
  Value x = op.in(0, float_math(op.type(0).dtype));
  if (op.has(1)) {
    const double eps = op.number(1);
    x = b.min(b.max(x, k(b, x, eps)), k(b, x, 1 - eps));
  }
  return {b.log(b.div(x, b.sub(k(b, x, 1), x)))};
}

Values round_decimals(Op& op) {
  auto& b = op.b;
  const int64_t decimals = op.integer(1);
  if (is_integral(op.type(0).dtype)) {
    throw Unsupported("rounding integers to decimals");
  }
  const Value x = op.in(0, opmath(op.type(0).dtype));
  const Value ten = k(b, x, std::pow(10.0, std::abs(decimals)));
  const char* round = "round_nearest_even";
  return {decimals < 0 ? b.mul(b.unary(round, b.div(x, ten)), ten)
                       : b.div(b.unary(round, b.mul(x, ten)), ten)};
}

// self, nan, posinf, neginf
Values nan_to_num(Op& op) {
  auto& b = op.b;
  const Value x = op.in(0);
  if (is_integral(b.dtype(x))) {
    return {x};
  }
  double largest = 3.4028234663852886e38;
  switch (b.dtype(x)) {
    case DType::Float64:
      largest = 1.7976931348623157e308;
      break;
    case DType::Float16:
      largest = 65504;
      break;
    case DType::BFloat16:
      largest = 0x1.fep127;
      break;
    default:
      break;
  }
  const auto with = [&](int i, double otherwise) {
    return k(b, x, op.has(i) ? op.number(i) : otherwise);
  };
  const Value finite =
      b.select(b.chlo("is_pos_inf", x),
               with(2, largest),
               b.select(b.chlo("is_neg_inf", x), with(3, -largest), x));
  return {b.select(is_nan(b, x), with(1, 0), finite)};
}

const bool registered = [] {
  for (const auto& [name, hlo] : {std::pair{"exp", "exponential"},
                                  {"expm1", "exponential_minus_one"},
                                  {"log", "log"},
                                  {"log1p", "log_plus_one"},
                                  {"sqrt", "sqrt"},
                                  {"rsqrt", "rsqrt"},
                                  {"sin", "sine"},
                                  {"cos", "cosine"},
                                  {"tan", "tan"},
                                  {"tanh", "tanh"},
                                  {"sigmoid", "logistic"}}) {
    lower_float(name, [hlo = std::string(hlo)](Builder& b, Value x) {
      return b.unary(hlo, x);
    });
  }
  for (const auto& [name, chlo] : {std::pair{"asin", "asin"},
                                   {"acos", "acos"},
                                   {"atan", "atan"},
                                   {"asinh", "asinh"},
                                   {"acosh", "acosh"},
                                   {"atanh", "atanh"},
                                   {"sinh", "sinh"},
                                   {"cosh", "cosh"},
                                   {"lgamma", "lgamma"},
                                   {"erf", "erf"},
                                   {"erfc", "erfc"},
                                   {"erfinv", "erf_inv"}}) {
    lower_float(name, [chlo = std::string(chlo)](Builder& b, Value x) {
      return b.chlo(chlo, x);
    });
  }
  lower_float("exp2", [](Builder& b, Value x) {
    return b.exp(b.mul(x, k(b, x, M_LN2)));
  });
  for (const auto& [name, base] : {std::pair{"log2", 2.0}, {"log10", 10.0}}) {
    lower_float(name, [base](Builder& b, Value x) {
      return b.mul(b.log(x), k(b, x, 1 / std::log(base)));
    });
  }
  lower_float("reciprocal",
              [](Builder& b, Value x) { return b.div(k(b, x, 1), x); });
  for (const auto& [name, factor] :
       {std::pair{"deg2rad", M_PI / 180}, {"rad2deg", 180 / M_PI}}) {
    lower_float(name, [factor](Builder& b, Value x) {
      return b.mul(x, k(b, x, factor));
    });
  }
  lower_float("sinc", &sinc);
  lower_float("special_entr", &entropy);
  lower("aten::logit", &logit);
  lower("aten::nan_to_num", &nan_to_num);
  lower("aten::round.decimals", &round_decimals);

  lower_same("neg", [](Builder& b, Value x) { return b.neg(x); });
  lower_same("positive", [](Builder&, Value x) { return x; });
  lower_same("abs", &absolute);
  lower_same("sign", &sign);
  lower_same("sgn", &sign);
  lower_same("ceil", [](Builder& b, Value x) { return rounded(b, x, "ceil"); });
  lower_same("floor",
             [](Builder& b, Value x) { return rounded(b, x, "floor"); });
  lower_same("round", [](Builder& b, Value x) {
    return rounded(b, x, "round_nearest_even");
  });
  lower_same("trunc", &truncate);
  lower_same("frac",
             [](Builder& b, Value x) { return b.sub(x, truncate(b, x)); });
  lower_same("isnan", &is_nan);
  lower_same("isinf",
             [](Builder& b, Value x) { return infinite(b, x, "is_inf"); });
  lower_same("isposinf",
             [](Builder& b, Value x) { return infinite(b, x, "is_pos_inf"); });
  lower_same("isneginf",
             [](Builder& b, Value x) { return infinite(b, x, "is_neg_inf"); });
  lower_same("bitwise_not",
             [](Builder& b, Value x) { return b.logical_not(x); });
  lower_same("logical_not",
             [](Builder& b, Value x) { return b.logical_not(truth(b, x)); });
  lower_same("signbit", &negative);
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
