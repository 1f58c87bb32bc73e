// SPDX-License-Identifier: Apache-2.0
// What several families need.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

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

// Shapes come by value: a reference into the builder dies when it grows.

// A constant of x's dtype and shape.
Value fill_like(ir::Builder& b, Value x, double value);
Value fill(ir::Builder& b, DType dtype, Shape shape, double value);

// Adds back the reduced dimensions with size 1.
Value keep_dims(ir::Builder& b, Value reduced, Shape original, Shape dims);

// Broadcasts `reduced` (dims removed) over `shape`.
Value spread(ir::Builder& b, Value reduced, Shape shape, Shape dims);

// Equal shapes by NumPy's rules.
std::pair<Value, Value> broadcast_pair(ir::Builder& b, Value a, Value c);
Shape broadcast_shape(const Shape& a, const Shape& c);

// Elements start, start + 1, ... end - 1 along dim.
Value narrow(ir::Builder& b, Value x, int64_t dim, int64_t start, int64_t end);

// Dimension d of x multiplied by the [out, in] matrix, or by its transpose.
Value along(ir::Builder& b, Value x, int64_t d, Value matrix, bool transposed);

// The product of the sizes of dims.
int64_t count(const Shape& shape, const Shape& dims);
// 0, 1, ... rank - 1 without dims.
Shape complement(int64_t rank, const Shape& dims);
// begin, begin + 1, ... end - 1.
Shape range(int64_t begin, int64_t end);
// A single value n times, as in kernel_size=3.
Shape expand_list(Shape values, size_t n);

// A 1-D tensor of all elements.
Value flatten(ir::Builder& b, Value x);
// Elements of the 1-D x at int64 positions of any shape.
Value take(ir::Builder& b, Value x, Value positions);
// The 1-D x with `updates` written at their positions, combined by the binary
// operation `how` ("" replaces). Positions out of range are dropped.
Value put(ir::Builder& b,
          Value x,
          Value positions,
          Value updates,
          const std::string& how = "");
// The inclusive sum of the 1-D int64 x, as the operator aten::cumsum.
Value running_sum(ir::Builder& b, Value x);

// Mean over dims.
Value average(ir::Builder& b, Value x, Shape dims);

// Mean and variance over dims, without them. The divisor of the variance is
// the number of elements less `correction`.
struct Moments {
  Value mean, variance;
};
Moments moments(ir::Builder& b, Value x, Shape dims, double correction = 0);

// x != 0.
Value truth(ir::Builder& b, Value x);
Value is_nan(ir::Builder& b, Value x);
Value truncate(ir::Builder& b, Value x);
// Elementwise comparison with a number.
Value compare(ir::Builder& b, ir::Compare direction, Value x, double number);

// uint32 random words as float32 in [0, 1): their high 24 bits, exact.
Value unit(ir::Builder& b, Value bits);

// A loss reduced as ATen's at::Reduction: 0 none, 1 mean, 2 sum.
Value reduce_loss(ir::Builder& b, Value x, int64_t reduction);

}  // namespace neuronx::lowering
