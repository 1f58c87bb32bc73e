// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

using ir::Compare;

// Operands 0 and 1 in one dtype and shape.
std::pair<Value, Value> operands(Op& op, DType dtype) {
  const Value a = op.in(0, dtype);
  const Value c = op.in(1, dtype);
  return broadcast_pair(op.b, a, c);
}

DType arithmetic(Op& op) { return opmath(op.promoted({0, 1})); }

// other * alpha, alpha at argument 2.
Value scaled(Op& op, int i, DType dtype) {
  const Value x = op.in(i, dtype);
  if (std::holds_alternative<int64_t>(op.argument(2)) && op.integer(2) == 1) {
    return x;
  }
  const auto [a, alpha] = broadcast_pair(op.b, x, op.scalar(2, dtype));
  return op.b.mul(a, alpha);
}

Value add_or_sub(Op& op, bool add) {
  const DType dtype = arithmetic(op);
  const auto [a, c] =
      broadcast_pair(op.b, op.in(0, dtype), scaled(op, 1, dtype));
  if (dtype == DType::Bool) {
    return op.b.logical_or(a, c);
  }
  return add ? op.b.add(a, c) : op.b.sub(a, c);
}

Value floor_divide(ir::Builder& b, Value a, Value c) {
  if (!is_integral(b.dtype(a))) {
    return b.unary("floor", b.div(a, c));
  }
  const Value q = b.div(a, c);
  if (is_unsigned(b.dtype(a))) {
    return q;
  }
  const Value zero = fill_like(b, a, 0);
  const Value r = b.binary("remainder", a, c);
  const Value signs_differ =
      b.compare(Compare::NE, b.compare(Compare::LT, r, zero),
                b.compare(Compare::LT, c, zero));
  const Value adjust = b.logical_and(b.compare(Compare::NE, r, zero),
                                     signs_differ);
  return b.sub(q, b.convert(adjust, b.dtype(a)));
}

// c10::div_floor_floating: exact where the quotient is near an integer.
Value floor_divide_float(ir::Builder& b, Value a, Value c) {
  const Value zero = fill_like(b, a, 0);
  const Value mod = b.binary("remainder", a, c);
  Value div = b.div(b.sub(a, mod), c);
  const Value adjust = b.logical_and(
      b.compare(Compare::NE, mod, zero),
      b.compare(Compare::NE, b.compare(Compare::LT, c, zero),
                b.compare(Compare::LT, mod, zero)));
  div = b.select(adjust, b.sub(div, fill_like(b, a, 1)), div);
  const Value low = b.unary("floor", div);
  const Value rounded = b.select(
      b.compare(Compare::GT, b.sub(div, low), fill_like(b, a, 0.5)),
      b.add(low, fill_like(b, a, 1)), low);
  const Value nonzero =
      b.select(b.compare(Compare::NE, div, zero), rounded,
               b.mul(b.div(a, c), zero));
  return b.select(b.compare(Compare::EQ, c, zero), b.div(a, c), nonzero);
}

Value truncate(ir::Builder& b, Value x) {
  return b.select(b.compare(Compare::LT, x, fill_like(b, x, 0)),
                  b.unary("ceil", x), b.unary("floor", x));
}

Value divide(Op& op, const std::string& mode) {
  const DType promoted = op.promoted({0, 1});
  if (mode.empty()) {
    const auto [a, c] = operands(op, float_math(promoted));
    return op.b.div(a, c);
  }
  auto [a, c] = operands(op, opmath(promoted));
  if (promoted == DType::Bool) {
    throw Unsupported("integer division of bool");
  }
  if (mode == "trunc") {
    const Value q = op.b.div(a, c);
    return is_integral(promoted) ? q : truncate(op.b, q);
  }
  return is_integral(promoted) ? floor_divide(op.b, a, c)
                               : floor_divide_float(op.b, a, c);
}

Value remainder(Op& op) {
  const auto [a, c] = operands(op, arithmetic(op));
  auto& b = op.b;
  const Value r = b.binary("remainder", a, c);
  if (is_unsigned(b.dtype(a))) {
    return r;
  }
  const Value zero = fill_like(b, a, 0);
  const Value adjust = b.logical_and(
      b.compare(Compare::NE, r, zero),
      b.compare(Compare::NE, b.compare(Compare::LT, r, zero),
                b.compare(Compare::LT, c, zero)));
  return b.select(adjust, b.add(r, c), r);
}

Value integer_power(ir::Builder& b, Value x, int64_t exponent) {
  Value result;
  Value square = x;
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
  if (e == std::floor(e) && std::abs(e) <= 64 &&
      (e >= 0 || is_floating_point(dtype))) {
    const Value p = integer_power(b, x, static_cast<int64_t>(std::abs(e)));
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

Values power(Op& op, DType dtype) {
  auto& b = op.b;
  const auto [x, e] = operands(op, opmath(dtype));
  return {b.binary("power", x, e)};
}

// NaN in either operand wins, as in ATen.
void lower_compare(std::string_view name, Compare direction) {
  lower(name, [direction](Op& op) -> Values {
    const auto [a, c] = operands(op, op.promoted({0, 1}));
    return {op.b.compare(direction, a, c)};
  });
}

Value truth(ir::Builder& b, Value x) {
  return b.dtype(x) == DType::Bool
             ? x
             : b.compare(Compare::NE, x, fill_like(b, x, 0));
}

// Number overloads have their number where the tensor would be.
Value number_operand(Op& op, int i, DType dtype) {
  return std::holds_alternative<ir::NumberTensor>(op.argument(i))
             ? op.in(i, dtype)
             : op.scalar(i, dtype);
}

void lower_scalar_compare(std::string_view name, Compare direction) {
  lower(name, [direction](Op& op) -> Values {
    const DType dtype = op.promoted({0, 1});
    const auto [a, c] =
        broadcast_pair(op.b, op.in(0, dtype), number_operand(op, 1, dtype));
    return {op.b.compare(direction, a, c)};
  });
}

Value clamp(ir::Builder& b, Value x, Value low, Value high) {
  if (low) {
    x = b.max(x, b.broadcast(low, b.shape(x)));
  }
  if (high) {
    x = b.min(x, b.broadcast(high, b.shape(x)));
  }
  return x;
}

Values clamp_scalars(Op& op) {
  const DType dtype = opmath(op.result().dtype);
  return {clamp(op.b, op.in(0, dtype),
                op.has(1) ? op.scalar(1, dtype) : Value{},
                op.has(2) ? op.scalar(2, dtype) : Value{})};
}

Values clamp_tensors(Op& op) {
  const DType dtype = opmath(op.result().dtype);
  const Value x = op.b.broadcast(op.in(0, dtype), op.result().shape);
  return {clamp(op.b, x, op.has(1) ? op.in(1, dtype) : Value{},
                op.has(2) ? op.in(2, dtype) : Value{})};
}

const bool registered = [] {
  lower("aten::add.Tensor",
        [](Op& op) -> Values { return {add_or_sub(op, true)}; });
  lower("aten::sub.Tensor",
        [](Op& op) -> Values { return {add_or_sub(op, false)}; });
  lower("aten::rsub.Tensor", [](Op& op) -> Values {
    const DType dtype = arithmetic(op);
    const auto [a, c] =
        broadcast_pair(op.b, scaled(op, 0, dtype), op.in(1, dtype));
    return {op.b.sub(c, a)};
  });
  lower("aten::rsub.Scalar", [](Op& op) -> Values {
    const DType dtype = opmath(op.result().dtype);
    const auto [a, c] = broadcast_pair(op.b, scaled(op, 0, dtype),
                                       op.scalar(1, dtype));
    return {op.b.sub(c, a)};
  });
  lower("aten::add.Scalar", [](Op& op) -> Values {
    const DType dtype = opmath(op.result().dtype);
    const auto [alpha, c] =
        broadcast_pair(op.b, op.scalar(2, dtype), op.scalar(1, dtype));
    const auto [a, s] =
        broadcast_pair(op.b, op.in(0, dtype), op.b.mul(alpha, c));
    return {op.b.add(a, s)};
  });
  lower("aten::sub.Scalar", [](Op& op) -> Values {
    const DType dtype = opmath(op.result().dtype);
    const auto [alpha, c] =
        broadcast_pair(op.b, op.scalar(2, dtype), op.scalar(1, dtype));
    const auto [a, s] =
        broadcast_pair(op.b, op.in(0, dtype), op.b.mul(alpha, c));
    return {op.b.sub(a, s)};
  });
  lower("aten::mul.Tensor", [](Op& op) -> Values {
    const auto [a, c] = operands(op, arithmetic(op));
    return {op.b.dtype(a) == DType::Bool ? op.b.logical_and(a, c)
                                         : op.b.mul(a, c)};
  });
  lower("aten::mul.Scalar", [](Op& op) -> Values {
    const DType dtype = opmath(op.result().dtype);
    const auto [a, c] =
        broadcast_pair(op.b, op.in(0, dtype), op.scalar(1, dtype));
    return {op.b.mul(a, c)};
  });
  lower("aten::div.Tensor",
        [](Op& op) -> Values { return {divide(op, "")}; });
  lower("aten::div.Scalar", [](Op& op) -> Values {
    const DType dtype = opmath(op.result().dtype);
    const auto [a, c] =
        broadcast_pair(op.b, op.in(0, dtype), op.scalar(1, dtype));
    return {op.b.div(a, c)};
  });
  lower("aten::div.Tensor_mode", [](Op& op) -> Values {
    return {divide(op, op.has(2) ? op.string(2) : "")};
  });
  lower("aten::floor_divide",
        [](Op& op) -> Values { return {divide(op, "floor")}; });
  lower("aten::remainder.Tensor",
        [](Op& op) -> Values { return {remainder(op)}; });
  lower("aten::fmod.Tensor", [](Op& op) -> Values {
    const auto [a, c] = operands(op, arithmetic(op));
    return {op.b.binary("remainder", a, c)};
  });
  lower("aten::pow.Tensor_Scalar", &power_of_scalar);
  lower("aten::pow.Tensor_Tensor",
        [](Op& op) { return power(op, op.promoted({0, 1})); });
  lower("aten::pow.Scalar", [](Op& op) -> Values {
    const DType dtype = opmath(op.result().dtype);
    const auto [x, e] =
        broadcast_pair(op.b, op.scalar(0, dtype), op.in(1, dtype));
    return {op.b.binary("power", x, e)};
  });
  lower("aten::atan2", [](Op& op) -> Values {
    const auto [a, c] = operands(op, float_math(op.promoted({0, 1})));
    return {op.b.binary("atan2", a, c)};
  });
  lower("aten::maximum", [](Op& op) -> Values {
    const auto [a, c] = operands(op, op.promoted({0, 1}));
    return {op.b.max(a, c)};
  });
  lower("aten::minimum", [](Op& op) -> Values {
    const auto [a, c] = operands(op, op.promoted({0, 1}));
    return {op.b.min(a, c)};
  });
  for (const auto& [name, hlo] : {std::pair{"bitwise_and", "and"},
                                  {"bitwise_or", "or"},
                                  {"bitwise_xor", "xor"}}) {
    lower(std::string("aten::") + name + ".Tensor",
          [hlo = std::string(hlo)](Op& op) -> Values {
            const auto [a, c] = operands(op, op.promoted({0, 1}));
            return {op.b.binary(hlo, a, c)};
          });
  }
  for (const auto& [name, hlo] : {std::pair{"logical_and", "and"},
                                  {"logical_or", "or"},
                                  {"logical_xor", "xor"}}) {
    lower(std::string("aten::") + name,
          [hlo = std::string(hlo)](Op& op) -> Values {
            const auto [a, c] = broadcast_pair(
                op.b, truth(op.b, op.in(0)), truth(op.b, op.in(1)));
            return {op.b.binary(hlo, a, c)};
          });
  }
  for (const auto& [name, direction] : {std::pair{"eq", Compare::EQ},
                                        {"ne", Compare::NE},
                                        {"lt", Compare::LT},
                                        {"le", Compare::LE},
                                        {"gt", Compare::GT},
                                        {"ge", Compare::GE}}) {
    lower_compare(std::string("aten::") + name + ".Tensor", direction);
    lower_scalar_compare(std::string("aten::") + name + ".Scalar", direction);
  }
  lower("aten::clamp", &clamp_scalars);
  lower("aten::clamp.Tensor", &clamp_tensors);
  for (const char* name : {"aten::clamp_min", "aten::clamp_min.Tensor"}) {
    lower(name, [](Op& op) -> Values {
      const DType dtype = opmath(op.result().dtype);
      const auto [x, low] = broadcast_pair(op.b, op.in(0, dtype),
                                           number_operand(op, 1, dtype));
      return {op.b.max(x, low)};
    });
  }
  for (const char* name : {"aten::clamp_max", "aten::clamp_max.Tensor"}) {
    lower(name, [](Op& op) -> Values {
      const DType dtype = opmath(op.result().dtype);
      const auto [x, high] = broadcast_pair(op.b, op.in(0, dtype),
                                            number_operand(op, 1, dtype));
      return {op.b.min(x, high)};
    });
  }
  lower("aten::where.self", [](Op& op) -> Values {
    const DType dtype = op.result().dtype;
    const auto& shape = op.result().shape;
    return {op.b.select(op.b.broadcast(truth(op.b, op.in(0)), shape),
                        op.b.broadcast(op.in(1, dtype), shape),
                        op.b.broadcast(op.in(2, dtype), shape))};
  });
  for (const char* name :
       {"aten::masked_fill.Scalar", "aten::masked_fill.Tensor"}) {
    lower(name, [](Op& op) -> Values {
      const DType dtype = op.result().dtype;
      const auto& shape = op.result().shape;
      return {op.b.select(op.b.broadcast(op.in(1), shape),
                          op.b.broadcast(number_operand(op, 2, dtype), shape),
                          op.b.broadcast(op.in(0, dtype), shape))};
    });
  }
  lower("aten::addcmul", [](Op& op) -> Values {
    const DType dtype = opmath(op.result().dtype);
    const auto& s = op.result().shape;
    const auto in = [&](int i) { return op.b.broadcast(op.in(i, dtype), s); };
    const Value v = op.b.broadcast(op.scalar(3, dtype), s);
    return {op.b.add(in(0), op.b.mul(op.b.mul(v, in(1)), in(2)))};
  });
  lower("aten::addcdiv", [](Op& op) -> Values {
    const DType dtype = opmath(op.result().dtype);
    const auto& s = op.result().shape;
    const auto in = [&](int i) { return op.b.broadcast(op.in(i, dtype), s); };
    const Value v = op.b.broadcast(op.scalar(3, dtype), s);
    return {op.b.add(in(0), op.b.div(op.b.mul(v, in(1)), in(2)))};
  });
  for (const char* name : {"aten::lerp.Scalar", "aten::lerp.Tensor"}) {
    lower(name, [](Op& op) -> Values {
      const DType dtype = opmath(op.result().dtype);
      const auto& s = op.result().shape;
      const Value a = op.b.broadcast(op.in(0, dtype), s);
      const Value c = op.b.broadcast(op.in(1, dtype), s);
      const Value w = op.b.broadcast(number_operand(op, 2, dtype), s);
      const Value d = op.b.sub(c, a);
      // ATen's form: from the nearer end.
      const Value near = op.b.compare(Compare::LT, op.b.unary("abs", w),
                                      fill_like(op.b, w, 0.5));
      return {op.b.select(
          near, op.b.add(a, op.b.mul(w, d)),
          op.b.sub(c, op.b.mul(d, op.b.sub(fill_like(op.b, w, 1), w))))};
    });
  }
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
