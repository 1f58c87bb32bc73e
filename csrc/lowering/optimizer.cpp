// SPDX-License-Identifier: Apache-2.0
// Foreach operators: one program for a whole list.
#include <cmath>

#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

using ir::Builder;
using ir::Compare;

// Element k of a ScalarList argument, or the Scalar argument itself.
Value scalar_at(Op& op, int i, size_t k, DType dtype) {
  const auto& a = op.argument(i);
  if (std::holds_alternative<ir::OperandList>(a)) {
    return op.b.convert(op.list(i).at(k), dtype);
  }
  if (const auto* reals = std::get_if<std::vector<double>>(&a)) {
    return op.b.constant(dtype, reals->at(k));
  }
  if (const auto* wholes = std::get_if<std::vector<int64_t>>(&a)) {
    return op.b.constant(dtype, wholes->at(k));
  }
  return std::holds_alternative<ir::NumberTensor>(a) ? op.in(i, dtype)
                                                     : op.scalar(i, dtype);
}

// One result per element of list 0.
template <typename Function>
void lower_each(std::string_view name, Function f) {
  lower(name, [f](Op& op) -> Values {
    Values results;
    const auto self = op.list(0);
    for (size_t k = 0; k < self.size(); ++k) {
      const DType dtype = opmath(op.result(static_cast<int>(k)).dtype);
      results.push_back(f(op, k, op.b.convert(self[k], dtype), dtype));
    }
    return results;
  });
}

Value binary(Builder& b, const std::string& hlo, Value x, Value y) {
  const auto [a, c] = broadcast_pair(b, x, y);
  return b.binary(hlo, a, c);
}

void lower_binary(const std::string& name, const std::string& hlo, bool alpha) {
  for (const char* overload : {".Scalar", ".ScalarList"}) {
    lower_each("aten::_foreach_" + name + overload,
               [hlo](Op& op, size_t k, Value x, DType dtype) {
                 return binary(op.b, hlo, x, scalar_at(op, 1, k, dtype));
               });
  }
  lower_each("aten::_foreach_" + name + ".List",
             [hlo, alpha](Op& op, size_t k, Value x, DType dtype) {
               Value y = op.b.convert(op.list(1)[k], dtype);
               if (alpha && op.has(2)) {
                 y = binary(op.b, "multiply", y, op.scalar(2, dtype));
               }
               return binary(op.b, hlo, x, y);
             });
  lower_each("aten::_foreach_" + name + ".Tensor",
             [hlo, alpha](Op& op, size_t, Value x, DType dtype) {
               Value y = op.in(1, dtype);
               if (alpha && op.has(2)) {
                 y = binary(op.b, "multiply", y, op.scalar(2, dtype));
               }
               return binary(op.b, hlo, x, y);
             });
}

// The call of `base` on element k of every list.
Value element(Op& op, const char* base, size_t k) {
  Values operands;
  std::vector<ir::Attribute> arguments;
  const auto add = [&](Value x) {
    operands.push_back(x);
    arguments.push_back(ir::Operand{static_cast<int32_t>(operands.size() - 1)});
  };
  for (int i = 0; i < op.argument_count(); ++i) {
    const auto& a = op.argument(i);
    if (std::holds_alternative<ir::OperandList>(a)) {
      add(op.list(i).at(k));
    } else if (std::holds_alternative<ir::Operand>(a)) {
      add(op.in(i));
    } else if (const auto* reals = std::get_if<std::vector<double>>(&a)) {
      arguments.push_back(reals->at(k));
    } else if (const auto* wholes = std::get_if<std::vector<int64_t>>(&a)) {
      arguments.push_back(wholes->at(k));
    } else {
      arguments.push_back(a);
    }
  }
  const auto results =
      call(op.b, base, operands, arguments, {op.result(static_cast<int>(k))});
  if (!results) {
    throw Unsupported(std::string(base) + " has no lowering");
  }
  return (*results)[0];
}

// Each element by the lowering of another operator.
void lower_by(const std::string& name, const char* base) {
  lower("aten::_foreach_" + name, [base](Op& op) -> Values {
    Values results;
    for (int k = 0; k < op.result_count(); ++k) {
      results.push_back(element(op, base, static_cast<size_t>(k)));
    }
    return results;
  });
}

void lower_unary(const std::string& name, const std::string& hlo) {
  lower_each("aten::_foreach_" + name, [hlo](Op& op, size_t, Value x, DType) {
    return op.b.unary(hlo, x);
  });
}

// self + value * (t1 op t2)
void lower_pointwise(const std::string& name, const std::string& hlo) {
  for (const char* overload : {".Scalar", ".ScalarList"}) {
    lower_each("aten::_foreach_" + name + overload,
               [hlo](Op& op, size_t k, Value x, DType dtype) {
                 auto& b = op.b;
                 const Value t1 = b.convert(op.list(1)[k], dtype);
                 const Value t2 = b.convert(op.list(2)[k], dtype);
                 const Value scaled =
                     binary(b, "multiply", t1, scalar_at(op, 3, k, dtype));
                 return b.add(x, binary(b, hlo, scaled, t2));
               });
  }
}

Value lerp(Op& op, size_t k, Value x, DType dtype, Value weight) {
  auto& b = op.b;
  const Value end = b.convert(op.list(1)[k], dtype);
  const Value w = b.broadcast(weight, b.shape(x));
  const Value d = b.sub(end, x);
  const Value near =
      b.compare(Compare::LT, b.unary("abs", w), fill_like(b, w, 0.5));
  return b.select(near,
                  b.add(x, b.mul(w, d)),
                  b.sub(end, b.mul(d, b.sub(fill_like(b, w, 1), w))));
}

// The sum of |x|^p, and its p-th root.
Value power_sum(Op& op, Value x, double p) {
  auto& b = op.b;
  const Value a = b.unary("abs", x);
  const Value powers = p == 1   ? a
                       : p == 2 ? b.mul(a, a)
                       : p == 0 ? b.convert(truth(b, a), b.dtype(a))
                                : b.binary("power", a, fill_like(b, a, p));
  return b.reduce(powers, ir::Reduce::Add, wrap_dims({}, b.rank(x)));
}

Value norm(Op& op, size_t, Value x, DType) {
  // list, ord, dtype
  auto& b = op.b;
  const double p = op.has(1) ? op.number(1) : 2;
  if (std::isinf(p)) {
    const auto kind = p > 0 ? ir::Reduce::Max : ir::Reduce::Min;
    return b.reduce(b.unary("abs", x), kind, wrap_dims({}, b.rank(x)));
  }
  const Value sum = power_sum(op, x, p);
  return p == 2             ? b.sqrt(sum)
         : p == 1 || p == 0 ? sum
                            : b.binary("power", sum, fill_like(b, sum, 1 / p));
}

// _amp_foreach_non_finite_check_and_unscale: scaled grads, found_inf,
// inv_scale.
Values unscale(Op& op) {
  auto& b = op.b;
  Values results;
  Value found = op.in(1, DType::Float32);
  const Shape shape = b.shape(found);
  for (Value grad : op.list(0)) {
    const Value x = b.convert(grad, DType::Float32);
    const Value bad = b.logical_not(b.is_finite(x));
    const Value any = b.reduce(bad, ir::Reduce::Or, wrap_dims({}, b.rank(x)));
    found = b.select(b.broadcast(any, shape), fill_like(b, found, 1), found);
    const Value inverse =
        b.broadcast(b.reshape(op.in(2, DType::Float32), {}), b.shape(x));
    results.push_back(
        b.select(b.compare(Compare::EQ, inverse, fill_like(b, inverse, 1)),
                 x,
                 b.mul(x, inverse)));
  }
  results.push_back(found);
  return results;
}

// _amp_update_scale: scale, growth_tracker, found_inf, growth, backoff,
// interval. Results: new scale, new tracker. The three hold one element each,
// of whatever rank.
Values update_scale(Op& op) {
  auto& b = op.b;
  const Value scale = op.in(0, DType::Float32);
  const Value tracker = b.reshape(op.in(1), b.shape(scale));
  const Value found = b.reshape(op.in(2, DType::Float32), b.shape(scale));
  const Value bad = b.compare(Compare::NE, found, fill_like(b, found, 0));
  const Value next = b.add(tracker, fill_like(b, tracker, 1));
  const Value due =
      b.compare(Compare::EQ,
                next,
                b.constant(b.dtype(tracker), op.integer(5), b.shape(tracker)));
  const Value grown = b.mul(scale, fill_like(b, scale, op.number(3)));
  const Value sane = b.select(b.is_finite(grown), grown, scale);
  const Value kept = b.select(due, sane, scale);
  const Value shrunk = b.mul(scale, fill_like(b, scale, op.number(4)));
  const Value zero = fill_like(b, tracker, 0);
  const Value count = b.select(b.logical_or(bad, due), zero, next);
  return {b.select(bad, shrunk, kept), b.reshape(count, b.shape(op.in(1)))};
}

// Foreach operators that are nothing but the operator of each element.
constexpr std::pair<const char*, const char*> kByElement[] = {
    {"acos", "aten::acos"},
    {"asin", "aten::asin"},
    {"atan", "aten::atan"},
    {"ceil", "aten::ceil"},
    {"cos", "aten::cos"},
    {"cosh", "aten::cosh"},
    {"erf", "aten::erf"},
    {"erfc", "aten::erfc"},
    {"expm1", "aten::expm1"},
    {"floor", "aten::floor"},
    {"frac", "aten::frac"},
    {"lgamma", "aten::lgamma"},
    {"log", "aten::log"},
    {"log10", "aten::log10"},
    {"log1p", "aten::log1p"},
    {"log2", "aten::log2"},
    {"round", "aten::round"},
    {"sigmoid", "aten::sigmoid"},
    {"sign", "aten::sign"},
    {"sin", "aten::sin"},
    {"sinh", "aten::sinh"},
    {"tan", "aten::tan"},
    {"tanh", "aten::tanh"},
    {"trunc", "aten::trunc"},
    {"max", "aten::max"},
    {"mm", "aten::mm"},
    {"clone", "aten::clone"},
    {"pow.List", "aten::pow.Tensor_Tensor"},
    {"pow.Scalar", "aten::pow.Tensor_Scalar"},
    {"pow.ScalarList", "aten::pow.Tensor_Scalar"},
    {"pow.ScalarAndTensor", "aten::pow.Scalar"},
};

const bool registered = [] {
  lower_binary("add", "add", true);
  lower_binary("sub", "subtract", true);
  lower_binary("mul", "multiply", false);
  lower_binary("div", "divide", false);
  lower_binary("maximum", "maximum", false);
  lower_binary("minimum", "minimum", false);
  lower_binary("clamp_min", "maximum", false);
  lower_binary("clamp_max", "minimum", false);
  lower_unary("sqrt", "sqrt");
  lower_unary("rsqrt", "rsqrt");
  lower_unary("neg", "negate");
  lower_unary("exp", "exponential");
  lower_unary("abs", "abs");
  lower_each("aten::_foreach_reciprocal", [](Op& op, size_t, Value x, DType) {
    return op.b.div(fill_like(op.b, x, 1), x);
  });
  lower_each("aten::_foreach_zero", [](Op& op, size_t, Value x, DType) {
    return fill_like(op.b, x, 0);
  });
  lower_each("aten::_foreach_copy", [](Op& op, size_t k, Value x, DType dtype) {
    return op.b.broadcast(op.b.convert(op.list(1)[k], dtype), op.b.shape(x));
  });
  lower_pointwise("addcmul", "multiply");
  lower_pointwise("addcdiv", "divide");
  lower_each("aten::_foreach_lerp.Scalar",
             [](Op& op, size_t k, Value x, DType dtype) {
               return lerp(op, k, x, dtype, scalar_at(op, 2, k, dtype));
             });
  lower_each("aten::_foreach_lerp.List",
             [](Op& op, size_t k, Value x, DType dtype) {
               return lerp(op, k, x, dtype, op.b.convert(op.list(2)[k], dtype));
             });
  lower_each("aten::_foreach_lerp.ScalarList",
             [](Op& op, size_t k, Value x, DType dtype) {
               return lerp(op, k, x, dtype, scalar_at(op, 2, k, dtype));
             });
  lower_each("aten::_foreach_norm.Scalar", &norm);
  lower_each("aten::_foreach_powsum.Scalar",
             [](Op& op, size_t, Value x, DType) {
               return power_sum(op, x, op.has(1) ? op.number(1) : 2);
             });
  for (const auto& [name, base] : kByElement) {
    lower_by(name, base);
  }
  lower("aten::_amp_foreach_non_finite_check_and_unscale", &unscale);
  lower("aten::_amp_update_scale", &update_scale);
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
