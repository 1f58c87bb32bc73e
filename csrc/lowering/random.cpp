// SPDX-License-Identifier: Apache-2.0
// Random numbers as functions of (operand, seed, offset, parameters...): the
// eager layer reserves the Philox blocks. Element i uses word i of the
// stream, or words 2i and 2i + 1 where it needs two.
#include <cmath>

#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

using ir::Builder;
using ir::Compare;

Value words(Op& op, int64_t per_element) {
  const int64_t n = op.b.type(op.in(0)).numel() * per_element;
  return op.b.philox(op.in(1), op.in(2), n);
}

Value uniform01(Op& op) {
  return op.b.reshape(unit(op.b, words(op, 1)), op.b.shape(op.in(0)));
}

// Words 2i and 2i + 1 as two vectors.
std::pair<Value, Value> pairs(Op& op) {
  auto& b = op.b;
  const int64_t n = b.type(op.in(0)).numel();
  const Value grid = b.reshape(words(op, 2), {n, 2});
  const Shape one{1, 1};
  return {b.reshape(b.slice(grid, {0, 0}, {n, 1}, one), {n}),
          b.reshape(b.slice(grid, {0, 1}, {n, 2}, one), {n})};
}

Value number(Op& op, int i, double fallback, const Shape& shape) {
  return op.b.broadcast(op.has(i) ? op.scalar(i, DType::Float32)
                                  : op.b.constant(DType::Float32, fallback),
                        shape);
}

// Box-Muller (1958); 1 - u keeps the logarithm finite.
Value normal01(Op& op) {
  auto& b = op.b;
  const auto [first, second] = pairs(op);
  const Value u = unit(b, first), v = unit(b, second);
  const Value radius =
      b.sqrt(b.mul(fill_like(b, u, -2), b.log(b.sub(fill_like(b, u, 1), u))));
  const Value angle = b.mul(v, fill_like(b, v, 2 * M_PI));
  return b.reshape(b.mul(radius, b.unary("cosine", angle)), b.shape(op.in(0)));
}

Value scaled_normal(Op& op) {
  auto& b = op.b;
  const Value z = normal01(op);
  return b.add(b.mul(z, number(op, 4, 1, b.shape(z))),
               number(op, 3, 0, b.shape(z)));
}

// The largest integer up to which the dtype holds every one.
int64_t largest_exact(DType dtype) {
  switch (dtype) {
    case DType::Float32:
      return int64_t{1} << 24;
    case DType::Float16:
      return int64_t{1} << 11;
    case DType::BFloat16:
      return int64_t{1} << 8;
    case DType::Bool:
      return 1;
    case DType::UInt8:
      return 255;
    default:
      return static_cast<int64_t>((uint64_t{1} << (itemsize(dtype) * 8 - 1)) -
                                  1);
  }
}

Values range(Op& op) {
  // Integers in [low, high): 64 random bits modulo the range.
  auto& b = op.b;
  const Shape shape = b.shape(op.in(0));
  const DType result = op.result().dtype;
  int64_t low = 0;
  uint64_t span;
  if (op.has(3) && op.has(4)) {
    low = op.integer(3);
    span = static_cast<uint64_t>(op.integer(4)) - static_cast<uint64_t>(low);
  } else if (op.has(3)) {
    span = static_cast<uint64_t>(op.integer(3));
  } else {
    // random_(): every non-negative value that the dtype holds exactly.
    span = static_cast<uint64_t>(largest_exact(result)) + 1;
  }
  if (span == 0) {
    throw Unsupported("an empty range");
  }
  const auto [first, second] = pairs(op);
  const Shape flat = b.shape(first);
  const auto wide = [&](Value v) { return b.convert(v, DType::UInt64); };
  const Value bits = b.binary(
      "or",
      b.binary("shift_left", wide(second), b.constant(DType::UInt64, 32, flat)),
      wide(first));
  const Value drawn =
      b.binary("remainder",
               bits,
               b.constant(DType::UInt64, static_cast<int64_t>(span), flat));
  const Value value = b.add(b.convert(drawn, DType::Int64),
                            b.constant(DType::Int64, low, flat));
  return {b.reshape(value, shape)};
}

const bool registered = [] {
  lower("neuronx::uniform", [](Op& op) -> Values {
    auto& b = op.b;
    const Value u = uniform01(op);
    const Value from = number(op, 3, 0, b.shape(u));
    const Value to = number(op, 4, 1, b.shape(u));
    return {b.add(from, b.mul(u, b.sub(to, from)))};
  });
  lower("neuronx::normal",
        [](Op& op) -> Values { return {scaled_normal(op)}; });
  lower("neuronx::log_normal",
        [](Op& op) -> Values { return {op.b.exp(scaled_normal(op))}; });
  lower("neuronx::bernoulli_scalar", [](Op& op) -> Values {
    const Value u = uniform01(op);
    return {op.b.compare(Compare::LT, u, number(op, 3, 0.5, op.b.shape(u)))};
  });
  lower("neuronx::bernoulli_tensor", [](Op& op) -> Values {
    const Value u = uniform01(op);
    return {
        op.b.compare(Compare::LT,
                     u,
                     op.b.broadcast(op.in(3, DType::Float32), op.b.shape(u)))};
  });
  lower("neuronx::random_range", &range);
  lower("neuronx::exponential", [](Op& op) -> Values {
    auto& b = op.b;
    const Value u = uniform01(op);
    const Value e = b.neg(b.unary("log_plus_one", b.neg(u)));
    return {b.div(e, number(op, 3, 1, b.shape(u)))};
  });
  lower("neuronx::geometric", [](Op& op) -> Values {
    auto& b = op.b;
    const Value u = uniform01(op);
    const Value p = number(op, 3, 0.5, b.shape(u));
    const Value trials = b.unary("ceil",
                                 b.div(b.unary("log_plus_one", b.neg(u)),
                                       b.unary("log_plus_one", b.neg(p))));
    return {b.max(trials, fill_like(b, trials, 1))};
  });
  lower("neuronx::cauchy", [](Op& op) -> Values {
    auto& b = op.b;
    const Value u = uniform01(op);
    const Value angle =
        b.mul(b.sub(u, fill_like(b, u, 0.5)), fill_like(b, u, M_PI));
    return {b.add(number(op, 3, 0, b.shape(u)),
                  b.mul(number(op, 4, 1, b.shape(u)), b.unary("tan", angle)))};
  });
  lower("neuronx::native_dropout", [](Op& op) -> Values {
    // p at 3, train at 4
    auto& b = op.b;
    const DType dtype = opmath(op.result(0).dtype);
    const Value x = op.in(0, dtype);
    const double p = op.number(3);
    if (op.has(4) && !op.flag(4)) {
      return {x, b.constant(DType::Bool, 1, b.shape(x))};
    }
    const Value u = uniform01(op);
    const Value keep = b.compare(Compare::GE, u, fill_like(b, u, p));
    const double scale = p == 1 ? 0 : 1 / (1 - p);
    return {
        b.select(keep, b.mul(x, fill_like(b, x, scale)), fill_like(b, x, 0)),
        keep};
  });
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
