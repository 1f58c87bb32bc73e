// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

using ir::Compare;

// Sorted values and their positions along dim; NaN counts as the largest.
std::pair<Value, Value> sorted(ir::Builder& b,
                               Value x,
                               int64_t dim,
                               bool descending) {
  const Value index = b.iota({DType::Int64, b.shape(x)}, dim);
  const auto results = b.sort(
      {x, index},
      dim,
      true,
      [descending](ir::Builder& r, const ir::Values& v) -> ir::Values {
        const Value a = descending ? v[1] : v[0];
        const Value c = descending ? v[0] : v[1];
        Value less = r.compare(Compare::LT, a, c);
        if (is_floating_point(r.dtype(a))) {
          const Value a_nan = r.compare(Compare::NE, a, a);
          const Value c_nan = r.compare(Compare::NE, c, c);
          less = r.logical_or(less, r.logical_and(c_nan, r.logical_not(a_nan)));
        }
        return {less};
      });
  return {results[0], results[1]};
}

Values sort(Op& op, int dim_position, int descending_position) {
  auto& b = op.b;
  const Value x = op.in(0);
  if (b.rank(x) == 0) {
    return {x, b.constant(DType::Int64, 0)};
  }
  const int64_t dim =
      wrap(op.has(dim_position) ? op.integer(dim_position) : -1, b.rank(x));
  const auto [values, index] = sorted(b, x, dim, op.flag(descending_position));
  return {values, index};
}

Values topk(Op& op) {
  // self, k, dim, largest, sorted
  auto& b = op.b;
  const Value x = op.in(0);
  if (b.rank(x) == 0) {
    return {b.reshape(x, op.result(0).shape),
            b.constant(DType::Int64, 0, op.result(1).shape)};
  }
  const int64_t dim = wrap(op.has(2) ? op.integer(2) : -1, b.rank(x));
  const bool largest = !op.has(3) || op.flag(3);
  const auto [values, index] = sorted(b, x, dim, largest);
  Shape limit = b.shape(x);
  limit[dim] = op.integer(1);
  const Shape start(limit.size(), 0), stride(limit.size(), 1);
  return {b.slice(values, start, limit, stride),
          b.slice(index, start, limit, stride)};
}

// Along dim, the element of `sorted` at `position`, which has size 1 there.
Value pick(ir::Builder& b, Value sorted, Value position, int64_t dim) {
  const Shape shape = b.shape(sorted);
  const Value here = b.compare(Compare::EQ,
                               b.iota({DType::Int64, shape}, dim),
                               b.broadcast(position, shape));
  return b.reduce(
      b.select(here, sorted, fill_like(b, sorted, 0)),
      b.dtype(sorted) == DType::Bool ? ir::Reduce::Or : ir::Reduce::Add,
      {dim});
}

// The lower median along dim and its position. With NaN: the first of them,
// or, ignoring them, the median of the others.
Values median_along(Op& op, Value x, int64_t dim, bool ignore_nan) {
  auto& b = op.b;
  const auto [values, index] = sorted(b, x, dim, false);
  Shape one = b.shape(x);
  const int64_t n = one[dim];
  one[dim] = 1;
  const Value numbers =
      b.reshape(b.reduce(b.convert(b.logical_not(is_nan(b, x)), DType::Int64),
                         ir::Reduce::Add,
                         {dim}),
                one);
  const auto number = [&](int64_t value) {
    return b.constant(DType::Int64, value, one);
  };
  const Value position =
      ignore_nan ? b.max(b.div(b.sub(numbers, number(1)), number(2)), number(0))
                 : b.select(b.compare(Compare::EQ, numbers, number(n)),
                            number((n - 1) / 2),
                            numbers);
  return {pick(b, values, position, dim), pick(b, index, position, dim)};
}

Values median(Op& op, bool ignore_nan) {
  auto& b = op.b;
  const Value x = op.in(0);
  const int64_t n = b.type(x).numel();
  if (n == 0) {
    if (is_integral(b.dtype(x))) {
      throw Unsupported("the median of no integers");
    }
    return {fill(b, b.dtype(x), {}, NAN)};
  }
  return {median_along(op, b.reshape(x, {n}), 0, ignore_nan)[0]};
}

Values median_dim(Op& op, bool ignore_nan) {
  // self, dim, keepdim
  auto& b = op.b;
  const Value x = op.in(0);
  Values results{x, b.constant(DType::Int64, 0)};
  if (b.rank(x) > 0) {
    results = median_along(op, x, wrap(op.integer(1), b.rank(x)), ignore_nan);
  }
  return {b.reshape(results[0], op.result(0).shape),
          b.reshape(results[1], op.result(1).shape)};
}

Values kth_value(Op& op) {
  // self, k, dim, keepdim
  auto& b = op.b;
  const Value x = op.in(0);
  if (b.rank(x) == 0) {
    return {x, b.constant(DType::Int64, 0)};
  }
  const int64_t dim = wrap(op.has(2) ? op.integer(2) : -1, b.rank(x));
  const int64_t k = op.integer(1);
  const auto [values, index] = sorted(b, x, dim, false);
  return {b.reshape(narrow(b, values, dim, k - 1, k), op.result(0).shape),
          b.reshape(narrow(b, index, dim, k - 1, k), op.result(1).shape)};
}

// The smallest of the most frequent values along dim, and its last position.
Values mode(Op& op) {
  // self, dim, keepdim
  auto& b = op.b;
  const Value x = op.in(0);
  if (b.rank(x) == 0) {
    return {x, b.constant(DType::Int64, 0)};
  }
  const int64_t dim = wrap(op.has(1) ? op.integer(1) : -1, b.rank(x));
  const int64_t n = b.shape(x)[dim], rank = b.rank(x);
  const auto [values, index] = sorted(b, x, dim, false);
  // Lengths of the runs of equal values so far, by doubling: as long as the
  // element `step` before is equal, so are all between.
  const Shape shape = b.shape(x), interior(rank, 0);
  Value length = b.constant(DType::Int64, 1, shape);
  Value position = b.iota({DType::Int64, shape}, dim);
  for (int64_t step = 1; step < n; step *= 2) {
    Shape low(rank, 0), high(rank, 0);
    low[dim] = step;
    high[dim] = -step;
    const Value before =
        b.pad(values, b.constant(b.dtype(values), 0), low, high, interior);
    const Value count =
        b.pad(length, b.constant(DType::Int64, 0), low, high, interior);
    const Value inside =
        b.compare(Compare::GE, position, b.constant(DType::Int64, step, shape));
    const Value full =
        b.compare(Compare::EQ, length, b.constant(DType::Int64, step, shape));
    const Value same = b.compare(Compare::EQ, before, values);
    const Value grows = b.logical_and(b.logical_and(inside, full), same);
    length = b.select(grows, b.add(length, count), length);
  }
  Shape one = shape;
  one[dim] = 1;
  const Value longest =
      b.reshape(b.reduce(length, ir::Reduce::Max, {dim}), one);
  const Value candidate =
      b.select(b.compare(Compare::EQ, length, b.broadcast(longest, shape)),
               position,
               b.constant(DType::Int64, n, shape));
  const Value first =
      b.reshape(b.reduce(candidate, ir::Reduce::Min, {dim}), one);
  return {b.reshape(pick(b, values, first, dim), op.result(0).shape),
          b.reshape(pick(b, index, first, dim), op.result(1).shape)};
}

const bool registered = [] {
  lower("aten::sort", [](Op& op) { return sort(op, 1, 2); });
  lower("aten::sort.stable", [](Op& op) { return sort(op, 2, 3); });
  lower("aten::argsort", [](Op& op) -> Values { return {sort(op, 1, 2)[1]}; });
  lower("aten::argsort.stable",
        [](Op& op) -> Values { return {sort(op, 2, 3)[1]}; });
  lower("aten::topk", &topk);
  lower("aten::kthvalue", &kth_value);
  lower("aten::median", [](Op& op) { return median(op, false); });
  lower("aten::nanmedian", [](Op& op) { return median(op, true); });
  lower("aten::median.dim", [](Op& op) { return median_dim(op, false); });
  lower("aten::nanmedian.dim", [](Op& op) { return median_dim(op, true); });
  lower("aten::mode", &mode);
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
