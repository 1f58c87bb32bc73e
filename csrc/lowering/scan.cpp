// SPDX-License-Identifier: Apache-2.0
// Inclusive scans along one dimension, by log-step doubling (Hillis and
// Steele, 1986): ceil(log2 n) elementwise passes.
#include <cmath>
#include <functional>

#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

using ir::Builder;
using ir::Compare;

// Element i becomes combine(element i - step, element i). What lies before
// the first element is `identity`, of rank 0.
using Combine = std::function<Values(const Values& before, const Values& at)>;

Values scan(Builder& b,
            Values xs,
            const Values& identities,
            int64_t dim,
            const Combine& combine) {
  const int64_t n = b.shape(xs[0])[dim], rank = b.rank(xs[0]);
  for (int64_t step = 1; step < n; step *= 2) {
    Shape low(rank, 0), high(rank, 0);
    const Shape interior(rank, 0);
    low[dim] = step;
    high[dim] = -step;
    Values before;
    for (size_t i = 0; i < xs.size(); ++i) {
      before.push_back(b.pad(xs[i], identities[i], low, high, interior));
    }
    xs = combine(before, xs);
  }
  return xs;
}

Values cumulative(Op& op, const char* binary, double identity) {
  auto& b = op.b;
  const DType dtype = opmath(op.result().dtype);
  const Value x = op.in(0, dtype);
  if (b.rank(x) == 0) {
    return {x};
  }
  return scan(b,
              {x},
              {b.constant(dtype, identity)},
              wrap(op.integer(1), b.rank(x)),
              [&](const Values& before, const Values& at) -> Values {
                return {b.binary(binary, before[0], at[0])};
              });
}

// The extreme so far and its last position; NaN stays.
Values cumulative_extreme(Op& op, Compare beats) {
  auto& b = op.b;
  const Value x = op.in(0);
  if (b.rank(x) == 0) {
    return {x, b.constant(DType::Int64, 0)};
  }
  const int64_t dim = wrap(op.integer(1), b.rank(x));
  const Value index = b.iota({DType::Int64, b.shape(x)}, dim);
  // Position -1 marks what lies before the first element.
  return scan(b,
              {x, index},
              {b.constant(b.dtype(x), 0), b.constant(DType::Int64, -1)},
              dim,
              [&](const Values& before, const Values& at) -> Values {
                const Value nan_at = is_nan(b, at[0]);
                const Value nan_before = is_nan(b, before[0]);
                const Value wins =
                    b.logical_or(b.compare(beats, at[0], before[0]), nan_at);
                const Value loses =
                    b.logical_and(nan_before, b.logical_not(nan_at));
                const Value first = compare(b, Compare::LT, before[1], 0);
                const Value take = b.logical_or(
                    first, b.logical_and(wins, b.logical_not(loses)));
                return {b.select(take, at[0], before[0]),
                        b.select(take, at[1], before[1])};
              });
}

Values log_cumulative_sum_exp(Op& op) {
  auto& b = op.b;
  const DType dtype = opmath(op.result().dtype);
  const Value x = op.in(0, dtype);
  if (b.rank(x) == 0) {
    return {x};
  }
  return scan(b,
              {x},
              {b.constant(dtype, -INFINITY)},
              wrap(op.integer(1), b.rank(x)),
              [&](const Values& before, const Values& at) -> Values {
                const Value high = b.max(before[0], at[0]);
                const Value low = b.min(before[0], at[0]);
                // Equal infinities: their difference is not a number.
                const Value same = b.compare(Compare::EQ, low, high);
                const Value gap =
                    b.select(same, fill_like(b, low, 0), b.sub(low, high));
                return {b.add(high, b.unary("log_plus_one", b.exp(gap)))};
              });
}

const bool registered = [] {
  lower("aten::cumsum", [](Op& op) { return cumulative(op, "add", 0); });
  lower("aten::cumprod", [](Op& op) { return cumulative(op, "multiply", 1); });
  lower("aten::cummax",
        [](Op& op) { return cumulative_extreme(op, Compare::GE); });
  lower("aten::cummin",
        [](Op& op) { return cumulative_extreme(op, Compare::LE); });
  lower("aten::logcumsumexp", &log_cumulative_sum_exp);
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
