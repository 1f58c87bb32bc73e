// SPDX-License-Identifier: Apache-2.0
// Builder: shapes.
#include <fmt/format.h>

#include <numeric>
#include <stdexcept>

#include "ir/builder.h"
#include "ir/infer.h"

namespace neuronx::ir {

Value Builder::broadcast(Value x, const Shape& shape) {
  const int64_t missing = int64_t(shape.size()) - rank(x);
  if (missing < 0)
    throw std::invalid_argument(
        fmt::format("[stablehlo.broadcast_in_dim] cannot broadcast {} to {}",
                    to_string(type(x)),
                    to_string(shape)));
  Shape dimensions(rank(x));
  std::iota(dimensions.begin(), dimensions.end(), missing);
  return broadcast_in_dim(x, shape, dimensions);
}

Value Builder::broadcast_in_dim(Value x,
                                const Shape& shape,
                                const Shape& dimensions) {
  Shape identity(rank(x));
  std::iota(identity.begin(), identity.end(), 0);
  if (shape == this->shape(x) && dimensions == identity)
    return x;
  return append({.name = "stablehlo.broadcast_in_dim",
                 .operands = {x},
                 .attributes = {{"broadcast_dimensions", dimensions}}},
                {{dtype(x), shape}})[0];
}

Value Builder::reshape(Value x, const Shape& shape) {
  if (shape == this->shape(x))
    return x;
  return append({.name = "stablehlo.reshape", .operands = {x}},
                {{dtype(x), shape}})[0];
}

Value Builder::transpose(Value x, const Shape& permutation) {
  Shape identity(rank(x));
  std::iota(identity.begin(), identity.end(), 0);
  if (permutation == identity)
    return x;
  return append({.name = "stablehlo.transpose",
                 .operands = {x},
                 .attributes = {{"permutation", permutation}}})[0];
}

Value Builder::slice(Value x,
                     const Shape& start,
                     const Shape& limit,
                     const Shape& stride) {
  if (start == Shape(rank(x), 0) && limit == shape(x) &&
      stride == Shape(rank(x), 1))
    return x;
  return append({.name = "stablehlo.slice",
                 .operands = {x},
                 .attributes = {{"start_indices", start},
                                {"limit_indices", limit},
                                {"strides", stride}}})[0];
}

Value Builder::dynamic_slice(Value x, const Values& start, const Shape& size) {
  Values operands{x};
  operands.insert(operands.end(), start.begin(), start.end());
  return append({.name = "stablehlo.dynamic_slice",
                 .operands = std::move(operands),
                 .attributes = {{"slice_sizes", size}}})[0];
}

Value Builder::dynamic_update_slice(Value x,
                                    Value update,
                                    const Values& start) {
  Values operands{x, update};
  operands.insert(operands.end(), start.begin(), start.end());
  return append({.name = "stablehlo.dynamic_update_slice",
                 .operands = std::move(operands)})[0];
}

Value Builder::concatenate(const Values& xs, int64_t dimension) {
  if (xs.size() == 1 && dimension >= 0 && dimension < rank(xs[0]))
    return xs[0];
  return append({.name = "stablehlo.concatenate",
                 .operands = xs,
                 .attributes = {{"dimension", dimension}}})[0];
}

Value Builder::pad(Value x,
                   Value value,
                   const Shape& low,
                   const Shape& high,
                   const Shape& interior) {
  const Shape none(rank(x), 0);
  if (low == none && high == none && interior == none)
    return x;
  return append({.name = "stablehlo.pad",
                 .operands = {x, value},
                 .attributes = {{"edge_padding_low", low},
                                {"edge_padding_high", high},
                                {"interior_padding", interior}}})[0];
}

Value Builder::reverse(Value x, const Shape& dimensions) {
  if (dimensions.empty())
    return x;
  return append({.name = "stablehlo.reverse",
                 .operands = {x},
                 .attributes = {{"dimensions", dimensions}}})[0];
}

}  // namespace neuronx::ir
