// SPDX-License-Identifier: Apache-2.0
// Random numbers as functions of (operand, seed, offset, parameters...): the
// eager layer reserves the Philox blocks. Element i of the result uses word i
// of the stream, or words 2i and 2i + 1 where it needs two.
#include "lowering/random.h"

#include <cmath>

namespace neuronx::lowering {

Value random_words(Op& op, int64_t n) {
  return op.b.philox(op.in(1), op.in(2), n);
}

Value random_words(Op& op, int64_t n, int64_t per_element) {
  return op.b.reshape(random_words(op, n * per_element), {n, per_element});
}

// All 32 bits, for 0 is where the logarithm is fine-grained; the largest is
// kept from 1.
Value exponential(Builder& b, Value bits) {
  const Value x = b.convert(b.convert(bits, DType::Int64), DType::Float32);
  const Value u =
      b.add(b.mul(x, fill_like(b, x, 0x1p-32)), fill_like(b, x, 0x1p-33));
  const Value inside = b.min(u, fill_like(b, u, 1 - 0x1p-24));
  return b.neg(b.unary("log_plus_one", b.neg(inside)));
}

// Box-Muller (1958); 1 - u keeps the logarithm finite.
Value normal(Builder& b, Value first, Value second) {
  const Value u = unit(b, first), v = unit(b, second);
  const Value radius =
      b.sqrt(b.mul(fill_like(b, u, -2), b.log(b.sub(fill_like(b, u, 1), u))));
  const Value angle = b.mul(v, fill_like(b, v, 2 * M_PI));
  return b.mul(radius, b.unary("cosine", angle));
}

Value random_number(Op& op, int i, double fallback) {
  return op.b.broadcast(op.has(i) ? op.scalar(i, DType::Float32)
                                  : op.b.constant(DType::Float32, fallback),
                        op.result().shape);
}

namespace {

using ir::Compare;

Value number(Op& op, int i, double fallback) {
  return random_number(op, i, fallback);
}

Value uniform01(Op& op) {
  auto& b = op.b;
  const Shape shape = op.result().shape;
  return b.reshape(unit(b, random_words(op, op.result().numel())), shape);
}

// Words 2i and 2i + 1 as two vectors.
std::pair<Value, Value> pairs(Op& op) {
  auto& b = op.b;
  const int64_t n = op.result().numel();
  const Value grid = random_words(op, n, 2);
  return {b.reshape(narrow(b, grid, 1, 0, 1), {n}),
          b.reshape(narrow(b, grid, 1, 1, 2), {n})};
}

Value bits64(Op& op) {
  auto& b = op.b;
  const auto [low, high] = pairs(op);
  const auto wide = [&](Value v) { return b.convert(v, DType::UInt64); };
  const Value shift = b.constant(DType::UInt64, 32, b.shape(low));
  return b.binary("or", b.binary("shift_left", wide(high), shift), wide(low));
}

// Rounding may reach the excluded end of [from, to).
Value uniform(Op& op) {
  auto& b = op.b;
  const DType dtype = op.result().dtype;
  const Value u = uniform01(op);
  const Value from = number(op, 3, 0), to = number(op, 4, 1);
  const Value x = b.convert(b.add(from, b.mul(u, b.sub(to, from))), dtype);
  return b.select(b.compare(Compare::GE, x, b.convert(to, dtype)),
                  b.convert(from, dtype),
                  x);
}

Value scaled_normal(Op& op) {
  auto& b = op.b;
  const auto [first, second] = pairs(op);
  const Value z = b.reshape(normal(b, first, second), op.result().shape);
  return b.add(b.mul(z, number(op, 4, 1)), number(op, 3, 0));
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

// The largest finite value, as far as int64 goes.
int64_t largest(DType dtype) {
  switch (dtype) {
    case DType::Float32:
    case DType::BFloat16:
      return std::numeric_limits<int64_t>::max();
    case DType::Float16:
      return 65504;
    default:
      return largest_exact(dtype);
  }
}

// Integers in [low, last]: 64 random bits modulo the range, whose size 2^64
// is 0 here. Both are int64[].
Value integers(Op& op, Value low, Value last) {
  auto& b = op.b;
  const Value bits = bits64(op);
  const Shape flat = b.shape(bits);
  const Value one = b.constant(DType::UInt64, 1);
  const Value size = b.add(b.bitcast(b.sub(last, low), DType::UInt64), one);
  const Value all = compare(b, Compare::EQ, size, 0);
  const Value drawn =
      b.binary("remainder", bits, b.broadcast(b.max(size, one), flat));
  const Value offset = b.select(b.broadcast(all, flat), bits, drawn);
  const Value value =
      b.add(b.bitcast(offset, DType::Int64), b.broadcast(low, flat));
  return b.reshape(value, op.result().shape);
}

Value before(Builder& b, Value end) {
  return b.sub(end, b.constant(DType::Int64, 1));
}

// Whose maximum wins is proportional to p: the exponential race, as in
// ATen/native/Distributions.cpp.
Value race(Op& op, Value p, int64_t samples) {
  auto& b = op.b;
  const Shape shape = b.shape(p);
  const int64_t rows = shape[0], n = shape[1];
  const Value e = b.reshape(exponential(b, random_words(op, rows * n)), shape);
  const Value peak = spread(b, b.reduce(p, ir::Reduce::Max, {1}), shape, {1});
  const Value key = b.div(b.div(p, peak), e);
  if (samples == 1) {
    return (*call(b,
                  "aten::argmax",
                  {key},
                  {ir::Operand{0}, int64_t{1}, true},
                  {{DType::Int64, {rows, 1}}}))[0];
  }
  const auto sorted = *call(b,
                            "aten::sort.stable",
                            {key},
                            {ir::Operand{0}, true, int64_t{1}, true},
                            {{DType::Float32, shape}, {DType::Int64, shape}});
  return narrow(b, sorted[1], 1, 0, samples);
}

// How many of the ascending `values`, [rows, n], are at most `x`, [rows, k].
Value count_at_most(Builder& b, Value values, Value x) {
  const Shape shape = b.shape(x);
  const int64_t n = b.shape(values)[1];
  int64_t step = 1;
  while (step < n) {
    step *= 2;
  }
  Value found = fill(b, DType::Int64, shape, 0);
  for (; step > 0; step /= 2) {
    const Value next =
        b.add(found, fill_like(b, found, static_cast<double>(step)));
    const Value last = fill_like(b, found, static_cast<double>(n));
    const Value position = b.sub(b.min(next, last), fill_like(b, found, 1));
    const Value value =
        (*call(b,
               "aten::gather",
               {values, position},
               {ir::Operand{0}, int64_t{1}, ir::Operand{1}, false},
               {{b.dtype(values), shape}}))[0];
    const Value fits = b.logical_and(b.compare(Compare::LE, next, last),
                                     b.compare(Compare::LE, value, x));
    found = b.select(fits, next, found);
  }
  return found;
}

// Inverse of the cumulative distribution, in 38-bit integers: sums of as many
// as 2^24 categories are exact in any order.
Value invert(Op& op, Value p, int64_t samples) {
  auto& b = op.b;
  const Shape shape = b.shape(p);
  const Shape result{shape[0], samples};
  const Value peak = spread(b, b.reduce(p, ir::Reduce::Max, {1}), shape, {1});
  const Value weight = b.mul(b.div(p, peak), fill_like(b, p, 0x1p38));
  const Value sums = (*call(b,
                            "aten::cumsum",
                            {b.convert(weight, DType::Int64)},
                            {ir::Operand{0}, int64_t{1}, {}},
                            {{DType::Int64, shape}}))[0];
  const Value total = narrow(b, sums, 1, shape[1] - 1, shape[1]);
  const Value drawn =
      b.binary("remainder",
               b.reshape(bits64(op), result),
               b.broadcast(b.bitcast(total, DType::UInt64), result));
  return count_at_most(b, sums, b.bitcast(drawn, DType::Int64));
}

Values multinomial(Op& op) {
  // num_samples at 3, replacement at 4
  auto& b = op.b;
  Value p = op.in(0, DType::Float32);
  if (b.rank(p) == 1) {
    p = b.reshape(p, {1, b.shape(p)[0]});
  }
  const int64_t samples = op.integer(3);
  const bool replaced = op.flag(4) && samples > 1;
  const Value drawn = replaced ? invert(op, p, samples) : race(op, p, samples);
  return {b.reshape(drawn, op.result().shape)};
}

Values randperm(Op& op) {
  auto& b = op.b;
  const Value keys = b.bitcast(bits64(op), DType::Int64);
  const TensorType type = b.type(keys);
  return {(*call(b,
                 "aten::sort.stable",
                 {keys},
                 {ir::Operand{0}, true, int64_t{0}, false},
                 {type, type}))[1]};
}

Values rrelu(Op& op) {
  // noise at 3, lower at 4, upper at 5, training at 6. Results: output, noise.
  auto& b = op.b;
  const DType dtype = opmath(op.result().dtype);
  const Value x = op.in(0, dtype);
  const Value negative = compare(b, Compare::LE, x, 0);
  if (!op.flag(6)) {
    const Value mean = b.mul(b.add(b.convert(number(op, 4, 0), dtype),
                                   b.convert(number(op, 5, 0), dtype)),
                             fill_like(b, x, 0.5));
    return {b.select(negative, b.mul(x, mean), x), op.in(3)};
  }
  const Value lower = number(op, 4, 0);
  const Value drawn =
      b.add(lower, b.mul(uniform01(op), b.sub(number(op, 5, 0), lower)));
  const Value noise =
      b.select(negative, b.convert(drawn, dtype), fill_like(b, x, 1));
  return {b.mul(x, noise), noise};
}

const bool registered = [] {
  lower("neuronx::uniform", [](Op& op) -> Values { return {uniform(op)}; });
  lower("neuronx::normal",
        [](Op& op) -> Values { return {scaled_normal(op)}; });
  lower("neuronx::log_normal",
        [](Op& op) -> Values { return {op.b.exp(scaled_normal(op))}; });
  lower("neuronx::bernoulli", [](Op& op) -> Values {
    return {op.b.compare(Compare::LT, uniform01(op), number(op, 3, 0.5))};
  });
  lower("neuronx::random_from_to", [](Op& op) -> Values {
    auto& b = op.b;
    const Value end =
        op.has(4) ? before(b, op.scalar(4, DType::Int64))
                  : b.constant(DType::Int64, largest(op.result().dtype));
    return {integers(op, op.scalar(3, DType::Int64), end)};
  });
  lower("neuronx::random_to", [](Op& op) -> Values {
    auto& b = op.b;
    return {integers(op,
                     b.constant(DType::Int64, 0),
                     before(b, op.scalar(3, DType::Int64)))};
  });
  // Every value from 0 on that the dtype holds exactly.
  lower("neuronx::random", [](Op& op) -> Values {
    auto& b = op.b;
    return {
        integers(op,
                 b.constant(DType::Int64, 0),
                 b.constant(DType::Int64, largest_exact(op.result().dtype)))};
  });
  lower("neuronx::exponential", [](Op& op) -> Values {
    auto& b = op.b;
    const Value e = exponential(b, random_words(op, op.result().numel()));
    return {b.div(b.reshape(e, op.result().shape), number(op, 3, 1))};
  });
  lower("neuronx::geometric", [](Op& op) -> Values {
    auto& b = op.b;
    const Value u = uniform01(op);
    const Value p = number(op, 3, 0.5);
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
    return {b.add(number(op, 3, 0),
                  b.mul(number(op, 4, 1), b.unary("tan", angle)))};
  });
  lower("neuronx::randperm", &randperm);
  lower("neuronx::multinomial", &multinomial);
  lower("neuronx::rrelu", &rrelu);
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
