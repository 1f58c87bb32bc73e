// SPDX-License-Identifier: Apache-2.0
// Products of groups of rows or columns with a matrix each, and products of
// 8-bit operands.
#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

using ir::Builder;
using ir::Compare;

// [groups, n]: whether position p is in group g. `offsets` are the groups'
// ends; what lies beyond the last is in none.
Value membership(Builder& b, Value offsets, int64_t n) {
  const int64_t groups = b.shape(offsets)[0];
  const Shape shape{groups, n};
  offsets = b.convert(offsets, DType::Int64);
  const Value zero = b.constant(DType::Int64, 0, {1});
  const Value starts =
      b.concatenate({zero, narrow(b, offsets, 0, 0, groups - 1)}, 0);
  const Value position = b.iota({DType::Int64, shape}, 1);
  return b.logical_and(
      b.compare(Compare::GE, position, b.broadcast_in_dim(starts, shape, {0})),
      b.compare(
          Compare::LT, position, b.broadcast_in_dim(offsets, shape, {0})));
}

// x where the mask [groups, n] is set, n being dimension d of x; else 0.
Value masked(Builder& b, Value x, Value mask, int64_t d) {
  const Shape shape = b.shape(x);
  return b.select(
      b.broadcast_in_dim(mask, shape, {0, d}), x, fill_like(b, x, 0));
}

Value repeated(Builder& b, Value x, int64_t groups) {
  const Shape shape = b.shape(x);
  return b.broadcast_in_dim(x, {groups, shape[0], shape[1]}, {1, 2});
}

Values grouped_mm(Op& op) {
  // self, mat2, offs, bias, out_dtype
  auto& b = op.b;
  if (op.has(3)) {
    throw Unsupported("a grouped product has no bias");
  }
  Value a = op.in(0), c = op.in(1);
  const bool flat_a = b.rank(a) == 2, flat_c = b.rank(c) == 2;
  ir::DotDimensions dims;
  dims.lhs_batch = dims.rhs_batch = {0};
  dims.lhs_contract = {2};
  dims.rhs_contract = {1};
  const auto product = [&] {
    return b.dot_general(a, c, dims, opmath(b.dtype(a)));
  };
  if (!flat_a && !flat_c) {
    return {product()};
  }
  const int64_t groups = b.shape(op.in(2))[0];
  // Every group multiplies the whole; what is another's is dropped, not
  // multiplied by zero, which would keep what is not finite.
  if (flat_a && flat_c) {
    const Value mask = membership(b, op.in(2), b.shape(a)[1]);
    a = masked(b, repeated(b, a, groups), mask, 2);
    c = masked(b, repeated(b, c, groups), mask, 1);
    return {product()};
  }
  const int64_t d = flat_a ? 1 : 2;
  const int64_t n = flat_a ? b.shape(a)[0] : b.shape(c)[1];
  const Value mask = membership(b, op.in(2), n);
  a = flat_a ? repeated(b, a, groups) : a;
  c = flat_c ? repeated(b, c, groups) : c;
  return {b.reduce(masked(b, product(), mask, d), ir::Reduce::Add, {0})};
}

Value matrix_product(Builder& b, Value a, Value c, DType result) {
  ir::DotDimensions dims;
  dims.lhs_contract = {1};
  dims.rhs_contract = {0};
  return b.dot_general(a, c, dims, result);
}

Values scaled_mm(Op& op) {
  // self, mat2, scale_a, scale_b, bias, scale_result, out_dtype,
  // use_fast_accum
  auto& b = op.b;
  const Shape shape = op.result().shape;
  Value y = matrix_product(b, op.in(0), op.in(1), DType::Float32);
  // One scale, or one for each row of self and column of mat2.
  for (int i : {2, 3}) {
    const Value scale = op.in(i, DType::Float32);
    const auto n = b.type(scale).numel();
    if (n == 1) {
      y = b.mul(y, b.broadcast(b.reshape(scale, {}), shape));
    } else if (n == shape[i - 2]) {
      y = b.mul(y, b.broadcast_in_dim(b.reshape(scale, {n}), shape, {i - 2}));
    } else {
      throw Unsupported("scales of blocks");
    }
  }
  if (op.has(4)) {
    y = b.add(y, b.broadcast(op.in(4, DType::Float32), shape));
  }
  return {y};
}

const bool registered = [] {
  lower("aten::_grouped_mm", &grouped_mm);
  lower("aten::_scaled_mm", &scaled_mm);
  lower("aten::_int_mm", [](Op& op) -> Values {
    return {matrix_product(op.b, op.in(0), op.in(1), DType::Int32)};
  });
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
