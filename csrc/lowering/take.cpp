// SPDX-License-Identifier: Apache-2.0
// Gathers and scatters by position in the flattened tensor.
#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

using ir::Builder;
using ir::Compare;

// Negative positions count from the end.
Value positive(Builder& b, Value index, int64_t n) {
  index = b.convert(index, DType::Int64);
  const Value wrapped =
      b.add(index, b.constant(DType::Int64, n, b.shape(index)));
  return b.check_index(
      b.select(compare(b, Compare::LT, index, 0), wrapped, index), 0, n);
}

Values take_flat(Op& op) {
  auto& b = op.b;
  const Value x = flatten(b, op.in(0));
  return {take(b, x, positive(b, op.in(1), b.type(x).numel()))};
}

Values put_flat(Op& op) {
  // self, index, source, accumulate
  auto& b = op.b;
  const Value x = op.in(0);
  const Value index = positive(b, flatten(b, op.in(1)), b.type(x).numel());
  const Value source = flatten(b, op.in(2, b.dtype(x)));
  const bool accumulate = op.has(3) && op.flag(3);
  const std::string how = !accumulate                 ? ""
                          : b.dtype(x) == DType::Bool ? "or"
                                                      : "add";
  return {b.reshape(put(b, flatten(b, x), index, source, how), b.shape(x))};
}

Values masked_scatter(Op& op) {
  // self, mask, source: the i-th true element gets source's i-th.
  auto& b = op.b;
  const Shape shape = op.result().shape;
  const Value x = flatten(b, b.broadcast(op.in(0), shape));
  const Value mask = flatten(b, b.broadcast(truth(b, op.in(1)), shape));
  const Value source = flatten(b, op.in(2));
  const int64_t n = b.type(source).numel();
  if (n == 0) {
    return {b.reshape(x, shape)};
  }
  const Value line_one = b.constant(DType::Int64, 1, b.shape(x));
  const Value rank =
      b.sub(running_sum(b, b.convert(mask, DType::Int64)), line_one);
  const Value last = b.constant(DType::Int64, n - 1, b.shape(x));
  const Value zero = b.constant(DType::Int64, 0, b.shape(x));
  const Value taken = take(b, source, b.min(b.max(rank, zero), last));
  return {b.reshape(b.select(mask, taken, x), shape)};
}

const bool registered = [] {
  lower("aten::take", &take_flat);
  lower("aten::put", &put_flat);
  lower("aten::masked_scatter", &masked_scatter);
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
