// SPDX-License-Identifier: Apache-2.0
#include "lowering/math.h"

#include <algorithm>

namespace neuronx::lowering {

Shape wrap_dims(Shape dims, int64_t rank) {
  if (dims.empty()) {
    for (int64_t i = 0; i < rank; ++i) {
      dims.push_back(i);
    }
    return dims;
  }
  for (auto& dim : dims) {
    dim = wrap(dim, rank);
  }
  std::sort(dims.begin(), dims.end());
  if (rank == 0) {
    dims.clear();
  }
  return dims;
}

Value fill(ir::Builder& b, DType dtype, const Shape& shape, double value) {
  return b.constant(dtype, value, shape);
}

Value fill_like(ir::Builder& b, Value x, double value) {
  return fill(b, b.dtype(x), b.shape(x), value);
}

Value keep_dims(ir::Builder& b,
                Value reduced,
                const Shape& original,
                const Shape& dims) {
  Shape shape = original;
  for (int64_t dim : dims) {
    shape[dim] = 1;
  }
  return b.reshape(reduced, shape);
}

Value spread(ir::Builder& b,
             Value reduced,
             const Shape& shape,
             const Shape& dims) {
  return b.broadcast(keep_dims(b, reduced, shape, dims), shape);
}

Shape broadcast_shape(const Shape& a, const Shape& c) {
  const size_t rank = std::max(a.size(), c.size());
  Shape result(rank);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t x = i + a.size() < rank ? 1 : a[i + a.size() - rank];
    const int64_t y = i + c.size() < rank ? 1 : c[i + c.size() - rank];
    result[i] = x == 1 ? y : x;
  }
  return result;
}

std::pair<Value, Value> broadcast_pair(ir::Builder& b, Value a, Value c) {
  const auto shape = broadcast_shape(b.shape(a), b.shape(c));
  return {b.broadcast(a, shape), b.broadcast(c, shape)};
}

int64_t count(const Shape& shape, const Shape& dims) {
  int64_t n = 1;
  for (int64_t dim : dims) {
    n *= shape[dim];
  }
  return n;
}

Value sum(ir::Builder& b, Value x, const Shape& dims) {
  const DType dtype = b.dtype(x);
  return b.convert(
      b.reduce(b.convert(x, opmath(dtype)), ir::Reduce::Add, dims), dtype);
}

}  // namespace neuronx::lowering
