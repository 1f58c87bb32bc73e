// SPDX-License-Identifier: Apache-2.0
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

const bool registered = [] {
  lower("aten::sort", [](Op& op) { return sort(op, 1, 2); });
  lower("aten::sort.stable", [](Op& op) { return sort(op, 2, 3); });
  lower("aten::argsort", [](Op& op) -> Values { return {sort(op, 1, 2)[1]}; });
  lower("aten::argsort.stable",
        [](Op& op) -> Values { return {sort(op, 2, 3)[1]}; });
  lower("aten::topk", &topk);
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
