// SPDX-License-Identifier: Apache-2.0
// Builder: composites of ours with their decompositions.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "common/permutation.h"
#include "common/strides.h"
#include "ir/builder.h"
#include "ir/infer.h"
#include "ir/passes.h"

namespace neuronx::ir {
namespace {

// The permutation that sorts `order`.
Shape ascending(const Shape& order) {
  Shape permutation(order.size());
  std::iota(permutation.begin(), permutation.end(), 0);
  std::sort(permutation.begin(), permutation.end(), [&](int64_t a, int64_t b) {
    return order[a] < order[b];
  });
  return permutation;
}

Value pad_end(Builder& b, Value x, int64_t count) {
  const Shape none(b.rank(x), 0);
  Shape high = none;
  high.back() = count;
  return b.pad(x, b.constant(b.dtype(x), 0), none, high, none);
}

// x[..., start:limit:stride] on the last dimension.
Value slice_end(
    Builder& b, Value x, int64_t start, int64_t limit, int64_t stride) {
  Shape starts(b.rank(x), 0), limits = b.shape(x), strides(b.rank(x), 1);
  starts.back() = start;
  limits.back() = limit;
  strides.back() = stride;
  return b.slice(x, starts, limits, strides);
}

// As x[..., start : start + n] = update, n the last size of `update`.
Value update_end(Builder& b, Value x, Value update, int64_t start) {
  if (b.shape(update) == b.shape(x))
    return update;
  const DType index =
      b.shape(x).back() > INT32_MAX ? DType::Int64 : DType::Int32;
  Values starts(b.rank(x), b.constant(index, 0));
  starts.back() = b.constant(index, start);
  return b.dynamic_update_slice(x, update, starts);
}

Shape split(Shape shape, int64_t count, int64_t stride) {
  shape.back() = count;
  shape.push_back(stride);
  return shape;
}

// Element positions of the view in its extent, in row-major order:
// int32[numel, 1], or int64 where 32 bits do not reach.
Value positions(Builder& b,
                const Shape& size,
                const Shape& stride,
                int64_t offset,
                int64_t length) {
  const DType dtype = length > INT32_MAX ? DType::Int64 : DType::Int32;
  Value sum = b.constant(dtype, offset, size);
  for (size_t d = 0; d < size.size(); ++d) {
    if (size[d] == 1 || stride[d] == 0)
      continue;
    const Value index = b.iota({dtype, {size[d]}}, 0);
    const Value step = b.constant(dtype, stride[d], {size[d]});
    sum =
        b.add(sum, b.broadcast_in_dim(b.mul(index, step), size, {int64_t(d)}));
  }
  return b.reshape(sum, {numel(size), 1});
}

Value read_nested(Builder& b,
                  Value x,
                  const NestedView& view,
                  const Shape& size) {
  for (size_t i = 0; i < view.levels.size(); ++i) {
    const Level& level = view.levels[i];
    if (i + 1 == view.levels.size()) {
      const int64_t start = level.start + view.rest;
      const int64_t last = start + (level.count - 1) * level.stride;
      x = slice_end(b, x, start, last + 1, level.stride);
    } else {
      x = pad_end(b, x, level.pad);
      x = slice_end(
          b, x, level.start, level.start + level.count * level.stride, 1);
      x = b.reshape(x, split(b.shape(x), level.count, level.stride));
    }
  }
  // A view of one element has no levels.
  if (view.levels.empty())
    x = slice_end(b, x, view.rest, view.rest + 1, 1);
  x = b.reshape(x, permuted(size, view.order));
  x = b.transpose(x, ascending(view.order));
  Shape dimensions = view.order;
  std::sort(dimensions.begin(), dimensions.end());
  Shape repeated = size;
  for (size_t d = 0; d < size.size(); ++d)
    if (!std::binary_search(dimensions.begin(), dimensions.end(), d))
      repeated[d] = 1;
  x = b.reshape(x, repeated);
  return b.broadcast(x, size);
}

Value read_gathered(Builder& b,
                    Value x,
                    const Shape& size,
                    const Shape& stride,
                    int64_t offset) {
  const Value indices = positions(b, size, stride, offset, b.shape(x)[0]);
  return b.reshape(b.gather(x,
                            indices,
                            {.collapsed = {0},
                             .start_index_map = {0},
                             .index_vector = 1,
                             .slice_sizes = {1}}),
                   size);
}

// Writes at the innermost level and puts each level back into the one around
// it.
Value write_nested(
    Builder& b, Value x, Value value, const NestedView& view, size_t depth) {
  if (depth == view.levels.size()) {
    Shape single = b.shape(x);
    single.back() = 1;
    return update_end(b, x, b.reshape(value, single), view.rest);
  }
  const Level& level = view.levels[depth];
  const Value padded = pad_end(b, x, level.pad);
  const Value block = slice_end(
      b, padded, level.start, level.start + level.count * level.stride, 1);
  const Shape shape = split(b.shape(block), level.count, level.stride);
  Value inner =
      write_nested(b, b.reshape(block, shape), value, view, depth + 1);
  inner = b.reshape(inner, b.shape(block));
  return slice_end(
      b, update_end(b, padded, inner, level.start), 0, b.shape(x).back(), 1);
}

Value write_scattered(
    Builder& b, Value x, Value value, const Shape& stride, int64_t offset) {
  const Shape size = b.shape(value);
  const Value indices = positions(b, size, stride, offset, b.shape(x)[0]);
  return b.scatter(x,
                   indices,
                   b.reshape(value, {numel(size)}),
                   {.inserted_window = {0},
                    .scatter_to_operand = {0},
                    .index_vector = 1,
                    .unique = true},
                   [](Builder&, const Values& v) -> Values { return {v[1]}; });
}

// The decomposition as a body. What turned out not to be needed (old content
// of a block that is overwritten whole) is dropped.
std::shared_ptr<const Program> body(const Region& region,
                                    const std::vector<TensorType>& parameters,
                                    const char* name) {
  Program program = build_region(region, parameters, name);
  dead_code_elimination(program);
  return std::make_shared<const Program>(std::move(program));
}

}  // namespace

Value Builder::as_strided(Value extent,
                          const Shape& size,
                          const Shape& stride,
                          int64_t offset) {
  static constexpr char kName[] = "neuronx.as_strided";
  const TensorType from = type(extent);
  check_view(kName, from, size, stride, offset);
  if (numel(size) == from.shape[0] && is_contiguous(size, stride))
    return reshape(extent, size);
  const Region read = [&](Builder& b, const Values& v) -> Values {
    if (numel(size) == 0)
      return {b.reshape(slice_end(b, v[0], 0, 0, 1), size)};
    if (auto view = nested_view(size, stride, offset, from.shape[0]))
      return {read_nested(b, v[0], *view, size)};
    return {read_gathered(b, v[0], size, stride, offset)};
  };
  return append(
      {.name = kName,
       .operands = {extent},
       .attributes = {{"size", size}, {"stride", stride}, {"offset", offset}},
       .bodies = {body(read, {from}, "as_strided")}})[0];
}

Value Builder::as_strided_scatter(Value extent,
                                  Value value,
                                  const Shape& stride,
                                  int64_t offset) {
  static constexpr char kName[] = "neuronx.as_strided_scatter";
  const TensorType from = type(extent), to = type(value);
  const Shape& size = to.shape;
  check_written_view(kName, from, size, stride, offset);
  if (from.dtype != to.dtype)
    throw std::invalid_argument(
        fmt::format("[{}] expected a value of dtype {}, got {}",
                    kName,
                    neuronx::name(from.dtype),
                    to_string(to)));
  if (numel(size) == 0)
    return extent;
  const Region write = [&](Builder& b, const Values& v) -> Values {
    if (auto view = nested_view(size, stride, offset, from.shape[0])) {
      Shape dimensions = view->order;
      std::sort(dimensions.begin(), dimensions.end());
      const Value rows =
          b.transpose(b.reshape(v[1], permuted(size, dimensions)),
                      inverse(ascending(view->order)));
      return {write_nested(b, v[0], rows, *view, 0)};
    }
    return {write_scattered(b, v[0], v[1], stride, offset)};
  };
  return append({.name = kName,
                 .operands = {extent, value},
                 .attributes = {{"stride", stride}, {"offset", offset}},
                 .bodies = {body(write, {from, to}, "as_strided_scatter")}})[0];
}

Value Builder::to_strided(Value value, const Shape& stride) {
  static constexpr char kName[] = "neuronx.to_strided";
  const TensorType from = type(value);
  std::optional<Dims> order;
  if (stride.size() == from.shape.size())
    order = dense_permutation(from.shape, stride);
  if (!order)
    throw std::invalid_argument(
        fmt::format("[{}] stride {} is not a dense permutation of {}",
                    kName,
                    to_string(stride),
                    to_string(from)));
  if (is_contiguous(from.shape, stride))
    return reshape(value, {from.numel()});
  const Region lay_out = [&](Builder& b, const Values& v) -> Values {
    return {b.reshape(b.transpose(v[0], *order), {from.numel()})};
  };
  return append({.name = kName,
                 .operands = {value},
                 .attributes = {{"stride", stride}},
                 .bodies = {body(lay_out, {from}, "to_strided")}})[0];
}

Value Builder::check_index(Value index, int64_t low, int64_t high) {
  const TensorType of = type(index);
  const Region same = [](Builder&, const Values& v) -> Values {
    return {v[0]};
  };
  return append({.name = "neuronx.check_index",
                 .operands = {index},
                 .attributes = {{"low", low}, {"high", high}},
                 .bodies = {body(same, {of}, "check_index")}})[0];
}

}  // namespace neuronx::ir
