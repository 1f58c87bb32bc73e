// SPDX-License-Identifier: Apache-2.0
// What several families need.
#pragma once

#include "lowering/lowering.h"

namespace neuronx::lowering {

using ir::Shape;
using ir::TensorType;

// float32 for the 16- and 8-bit floating-point types: the precision in which
// ATen's CPU kernels compute them.
inline DType opmath(DType dtype) {
  return is_floating_point(dtype) && itemsize(dtype) < 4 ? DType::Float32
                                                         : dtype;
}
// For functions that turn integers into floating point.
inline DType float_math(DType dtype) {
  return is_floating_point(dtype) ? opmath(dtype) : DType::Float32;
}

inline int64_t wrap(int64_t dim, int64_t rank) {
  return dim < 0 ? dim + std::max<int64_t>(rank, 1) : dim;
}

// Sorted, non-negative; all dimensions for an empty list.
Shape wrap_dims(Shape dims, int64_t rank);

// A constant of x's dtype and shape.
Value fill_like(ir::Builder& b, Value x, double value);
Value fill(ir::Builder& b, DType dtype, const Shape& shape, double value);

// Adds back the reduced dimensions with size 1.
Value keep_dims(ir::Builder& b, Value reduced, const Shape& original,
                const Shape& dims);

// Broadcasts `reduced` (dims removed) over `shape`.
Value spread(ir::Builder& b, Value reduced, const Shape& shape,
             const Shape& dims);

// Equal shapes by NumPy's rules.
std::pair<Value, Value> broadcast_pair(ir::Builder& b, Value a, Value c);
Shape broadcast_shape(const Shape& a, const Shape& c);

// Product of sizes.
int64_t count(const Shape& shape, const Shape& dims);

// Sum over dims in opmath precision, of x's dtype.
Value sum(ir::Builder& b, Value x, const Shape& dims);

}  // namespace neuronx::lowering
