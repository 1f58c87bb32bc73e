// SPDX-License-Identifier: Apache-2.0
#include "lowering/matrix.h"

#include <fmt/format.h>

namespace neuronx::lowering {

using ir::Builder;
using ir::Compare;

namespace {

Value column_index(Builder& b, Value x) {
  return b.iota({DType::Int32, b.shape(x)}, 2);
}

Value zero(Builder& b) {
  return b.constant(DType::Int32, 0);
}

// x where column - row compares with `diagonal` so, else 0.
Value triangle(Builder& b, Value x, Compare direction, int64_t diagonal) {
  const Value offset = b.sub(column_index(b, x), row_index(b, x));
  const Value kept =
      compare(b, direction, offset, static_cast<double>(diagonal));
  return b.select(kept, x, fill_like(b, x, 0));
}

}  // namespace

Value matrices(Builder& b, Value x) {
  const auto shape = b.shape(x);
  const size_t n = shape.size();
  if (n < 2) {
    throw Unsupported("a matrix has two dimensions");
  }
  int64_t batch = 1;
  for (size_t d = 0; d + 2 < n; ++d) {
    batch *= shape[d];
  }
  return b.reshape(x, {batch, shape[n - 2], shape[n - 1]});
}

Value matrices(Op& op, int i) {
  if (op.type(i).dtype != DType::Float32) {
    throw Unsupported(fmt::format("matrices are factored in float32, not {}",
                                  name(op.type(i).dtype)));
  }
  return matrices(op.b, op.in(i));
}

Value as_result(Op& op, Value x, int k) {
  return op.b.reshape(x, op.result(k).shape);
}

Value transposed(Builder& b, Value x) {
  return b.transpose(x, {0, 2, 1});
}

Value matmul(Builder& b, Value x, Value y) {
  return b.dot_general(x, y, {{0}, {0}, {2}, {1}}, b.dtype(x));
}

Value identity(Builder& b, int64_t batch, int64_t rows, int64_t columns) {
  const ir::TensorType index{DType::Int32, {batch, rows, columns}};
  const Value r = b.iota(index, 1);
  return b.convert(b.compare(Compare::EQ, r, b.iota(index, 2)), DType::Float32);
}

Value lower_triangle(Builder& b, Value x, int64_t diagonal) {
  return triangle(b, x, Compare::LE, diagonal);
}

Value upper_triangle(Builder& b, Value x, int64_t diagonal) {
  return triangle(b, x, Compare::GE, diagonal);
}

Value diagonal(Builder& b, Value x) {
  const auto shape = b.shape(x);
  const int64_t n = std::min(shape[1], shape[2]);
  const Value square = b.slice(x, {0, 0, 0}, {shape[0], n, n}, {1, 1, 1});
  const Value on =
      b.compare(Compare::EQ, row_index(b, square), column_index(b, square));
  return b.reduce(
      b.select(on, square, fill_like(b, square, 0)), ir::Reduce::Add, {2});
}

Value row(Builder& b, Value x, Value i) {
  const auto shape = b.shape(x);
  const Value z = zero(b);
  return b.dynamic_slice(x, {z, i, z}, {shape[0], 1, shape[2]});
}

Value column(Builder& b, Value x, Value i) {
  const auto shape = b.shape(x);
  const Value z = zero(b);
  return b.dynamic_slice(x, {z, z, i}, {shape[0], shape[1], 1});
}

Value with_row(Builder& b, Value x, Value row, Value i) {
  const Value z = zero(b);
  return b.dynamic_update_slice(x, row, {z, i, z});
}

Value with_column(Builder& b, Value x, Value column, Value i) {
  const Value z = zero(b);
  return b.dynamic_update_slice(x, column, {z, z, i});
}

Value row_index(Builder& b, Value x) {
  return b.iota({DType::Int32, b.shape(x)}, 1);
}

Value at(Builder& b, Value index, Value i) {
  return b.compare(Compare::EQ, index, b.broadcast(i, b.shape(index)));
}

Value below(Builder& b, Value index, Value i) {
  return b.compare(Compare::GT, index, b.broadcast(i, b.shape(index)));
}

}  // namespace neuronx::lowering
