// SPDX-License-Identifier: Apache-2.0
// Binary search and counting into bins.
#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

using ir::Builder;
using ir::Compare;

// For each element of x (any shape) the number of elements of its row of
// `rows` ([n] or [x's leading dims..., n], ascending) that are less, or not
// greater when `right`. NaN is the largest.
Value search(Builder& b, Value rows, Value x, bool right, Value order = {}) {
  const Shape shape = b.shape(x), row_shape = b.shape(rows);
  const int64_t n = row_shape.back();
  const auto number = [&](int64_t value) {
    return b.constant(DType::Int64, value, shape);
  };
  // Where the row of each element starts in the flattened rows.
  Value start = number(0);
  if (row_shape.size() > 1) {
    int64_t stride = n;
    for (auto d = static_cast<int64_t>(row_shape.size()) - 2; d >= 0; --d) {
      start =
          b.add(start, b.mul(b.iota({DType::Int64, shape}, d), number(stride)));
      stride *= row_shape[d];
    }
  }
  const Value line = flatten(b, rows);
  Value low = number(0), high = number(n);
  for (int64_t width = n; width > 0; width /= 2) {
    const Value middle = b.div(b.add(low, high), number(2));
    // Done elements look at the last one and ignore it.
    Value at = b.add(start, b.min(middle, number(n - 1)));
    if (order) {
      at = b.add(start, take(b, flatten(b, order), at));
    }
    const Value element = take(b, line, at);
    const Value beyond = right ? b.compare(Compare::GT, element, x)
                               : b.compare(Compare::GE, element, x);
    const Value open = b.compare(Compare::LT, low, high);
    // As ATen's: not beyond, so that NaN is the largest.
    const Value ahead = b.logical_not(beyond);
    const Value up = b.logical_and(open, ahead);
    const Value down = b.logical_and(open, beyond);
    low = b.select(up, b.add(middle, number(1)), low);
    high = b.select(down, middle, high);
  }
  return low;
}

Values searched(Op& op, int rows, int x, bool right, Value order = {}) {
  auto& b = op.b;
  const DType dtype = op.promoted({rows, x});
  const Value sequence = op.in(rows, dtype);
  const Value values =
      b.reshape(std::holds_alternative<ir::Operand>(op.argument(x)) ||
                        std::holds_alternative<ir::NumberTensor>(op.argument(x))
                    ? op.in(x, dtype)
                    : op.scalar(x, dtype),
                op.result().shape);
  if (b.type(sequence).numel() == 0) {
    return {fill(b, DType::Int64, op.result().shape, 0)};
  }
  return {search(b, sequence, values, right, order)};
}

Values search_sorted(Op& op) {
  // sorted_sequence, self, out_int32, right, side, sorter
  const bool right = op.has(4) ? op.string(4) == "right" : op.flag(3);
  return searched(op, 0, 1, right, op.has(5) ? op.in(5) : Value{});
}

// Of ATen's histc: bins of equal width over [low, high], the last one closed;
// bounds that are equal stand for the data's.
Values histogram(Op& op) {
  // self, bins, min, max
  auto& b = op.b;
  const int64_t bins = op.integer(1);
  const DType dtype = float_math(op.result().dtype);
  const Value x = flatten(b, op.in(0, dtype));
  const int64_t n = b.type(x).numel();
  const auto number = [&](double value, Shape shape = {}) {
    return b.constant(dtype, value, std::move(shape));
  };
  if (n == 0) {
    return {number(0, {bins})};
  }
  double from = op.has(2) ? op.number(2) : 0, to = op.has(3) ? op.number(3) : 0;
  Value low = number(from), high = number(to);
  if (from == to) {
    low = b.reduce(x, ir::Reduce::Min, {0});
    high = b.reduce(x, ir::Reduce::Max, {0});
    const Value flat = b.compare(Compare::EQ, low, high);
    low = b.select(flat, b.sub(low, number(1)), low);
    high = b.select(flat, b.add(high, number(1)), high);
  }
  // Edge i of the bins, as torch.linspace: from the nearer end.
  const Value step = b.div(b.sub(high, low), number(bins));
  const auto edge = [&](Value i) {
    const Shape shape = b.shape(i);
    const Value width = b.broadcast(step, shape);
    const Value rest = b.sub(b.constant(DType::Int64, bins, shape), i);
    const Value front =
        b.add(b.broadcast(low, shape), b.mul(b.convert(i, dtype), width));
    const Value back =
        b.sub(b.broadcast(high, shape), b.mul(b.convert(rest, dtype), width));
    const Value nearer = b.compare(Compare::LT, i, rest);
    return b.select(nearer, front, back);
  };
  const Shape line{n};
  const Value lows = b.broadcast(low, line), highs = b.broadcast(high, line);
  const Value inside = b.logical_and(b.compare(Compare::GE, x, lows),
                                     b.compare(Compare::LE, x, highs));
  const Value position = b.div(b.mul(b.sub(x, lows), number(bins, line)),
                               b.broadcast(b.sub(high, low), line));
  Value bin =
      b.convert(b.select(inside, b.unary("floor", position), number(0, line)),
                DType::Int64);
  const Value last = b.constant(DType::Int64, bins - 1, line);
  const Value one = b.constant(DType::Int64, 1, line);
  bin = b.min(bin, last);
  // Rounding may have put it one off.
  bin = b.select(b.logical_and(b.compare(Compare::LT, x, edge(bin)),
                               compare(b, Compare::GT, bin, 0)),
                 b.sub(bin, one),
                 bin);
  bin = b.select(b.logical_and(b.compare(Compare::GE, x, edge(b.add(bin, one))),
                               b.compare(Compare::LT, bin, last)),
                 b.add(bin, one),
                 bin);
  bin = b.select(inside, bin, b.constant(DType::Int64, bins, line));
  return {put(b, number(0, {bins}), bin, number(1, line), "add")};
}

const bool registered = [] {
  lower("aten::searchsorted.Tensor", &search_sorted);
  lower("aten::searchsorted.Scalar", &search_sorted);
  lower("aten::bucketize.Tensor",
        [](Op& op) { return searched(op, 1, 0, op.flag(3)); });
  lower("aten::bucketize.Scalar",
        [](Op& op) { return searched(op, 1, 0, op.flag(3)); });
  lower("aten::histc", &histogram);
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
