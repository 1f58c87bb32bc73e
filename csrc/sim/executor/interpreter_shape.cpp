// SPDX-License-Identifier: Apache-2.0
// Constants and operations that move elements.
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "common/number.h"
#include "sim/executor/interpreter.h"

namespace neuronx::sim {
namespace {

using ir::Shape;

Tensors constant(const Evaluation& e) {
  const std::string& bytes = e.string("value");
  at::Tensor result = make_empty(e.types[0]);
  std::memcpy(result.mutable_data_ptr(), bytes.data(), bytes.size());
  return {result};
}

Tensors iota(const Evaluation& e) {
  const int64_t d = e.integer("iota_dimension");
  const Shape& shape = e.types[0].shape;
  Shape line(shape.size(), 1);
  line[d] = shape[d];
  const at::Tensor values = at::arange(shape[d], at::kLong).reshape(line);
  const at::Tensor converted = convert_to(values, e.dtype());
  return {from_carrier(carrier(converted).expand(shape).contiguous(),
                       converted.scalar_type())};
}

// Runs f on the operand's carrier.
template <typename F>
Tensors moved(const Evaluation& e, F f) {
  return {from_carrier(f(carrier(e.in(0))), e.in(0).scalar_type())};
}

Tensors broadcast_in_dim(const Evaluation& e) {
  const Shape& dimensions = e.ints("broadcast_dimensions");
  const Shape& shape = e.types[0].shape;
  return moved(e, [&](const at::Tensor& x) {
    // A lifted rank-0 value stays as it is.
    if (shape.empty())
      return x;
    Shape view(shape.size(), 1);
    for (size_t i = 0; i < dimensions.size(); ++i)
      view[dimensions[i]] = x.size(int64_t(i));
    return x.reshape(view).expand(shape);
  });
}

Tensors reshape(const Evaluation& e) {
  return moved(e, [&](const at::Tensor& x) {
    return e.types[0].shape.empty() && x.numel() != 1
               ? x
               : x.reshape(e.types[0].shape);
  });
}

Tensors transpose(const Evaluation& e) {
  return moved(
      e, [&](const at::Tensor& x) { return x.permute(e.ints("permutation")); });
}

Tensors slice(const Evaluation& e) {
  const Shape& start = e.ints("start_indices");
  const Shape& limit = e.ints("limit_indices");
  const Shape& stride = e.ints("strides");
  return moved(e, [&](at::Tensor x) {
    for (size_t d = 0; d < start.size(); ++d)
      x = x.slice(int64_t(d), start[d], limit[d], stride[d]);
    return x;
  });
}

// Rank-0 operands from `first` on, clamped so that `size` fits.
Shape starts(const Evaluation& e, size_t first, at::IntArrayRef size) {
  Shape start;
  for (size_t d = 0; d < size.size(); ++d) {
    const at::Tensor& x = e.in(first + d);
    int64_t value = convert_integer(x, at::kLong).item().toLong();
    // An unsigned start beyond the signed range is far beyond the end.
    if (x.scalar_type() == at::kUInt64 && value < 0)
      value = INT64_MAX;
    start.push_back(
        std::clamp<int64_t>(value, 0, e.in(0).size(int64_t(d)) - size[d]));
  }
  return start;
}

at::Tensor narrow(at::Tensor x, const Shape& start, at::IntArrayRef size) {
  for (size_t d = 0; d < start.size(); ++d)
    x = x.narrow(int64_t(d), start[d], size[d]);
  return x;
}

Tensors dynamic_slice(const Evaluation& e) {
  const Shape& size = e.ints("slice_sizes");
  return moved(e, [&](const at::Tensor& x) {
    return narrow(x, starts(e, 1, size), size);
  });
}

Tensors dynamic_update_slice(const Evaluation& e) {
  const at::Tensor update = carrier(e.in(1));
  return moved(e, [&](const at::Tensor& x) {
    at::Tensor result = x.clone(at::MemoryFormat::Contiguous);
    copy(narrow(result, starts(e, 2, update.sizes()), update.sizes()), update);
    return result;
  });
}

Tensors concatenate(const Evaluation& e) {
  Tensors parts;
  for (const at::Tensor& x : e.operands)
    parts.push_back(carrier(x));
  return moved(e, [&](const at::Tensor&) {
    return at::cat(parts, e.integer("dimension"));
  });
}

Tensors pad(const Evaluation& e) {
  return {padded(e.in(0),
                 e.in(1),
                 e.ints("edge_padding_low"),
                 e.ints("edge_padding_high"),
                 e.ints("interior_padding"))};
}

Tensors reverse(const Evaluation& e) {
  return moved(
      e, [&](const at::Tensor& x) { return x.flip(e.ints("dimensions")); });
}

constexpr Instruction kInstructions[] = {
    {"stablehlo.constant", constant},
    {"stablehlo.iota", iota},
    {"stablehlo.broadcast_in_dim", broadcast_in_dim},
    {"stablehlo.reshape", reshape},
    {"stablehlo.transpose", transpose},
    {"stablehlo.slice", slice},
    {"stablehlo.dynamic_slice", dynamic_slice},
    {"stablehlo.dynamic_update_slice", dynamic_update_slice},
    {"stablehlo.concatenate", concatenate},
    {"stablehlo.pad", pad},
    {"stablehlo.reverse", reverse},
};

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

at::Tensor padded(const at::Tensor& x,
                  const at::Tensor& value,
                  const Shape& low,
                  const Shape& high,
                  const Shape& interior) {
  at::Tensor from = carrier(x);
  Shape size;
  for (size_t d = 0; d < low.size(); ++d) {
    const int64_t n = x.size(int64_t(d));
    size.push_back(low[d] + high[d] + n +
                   std::max<int64_t>(n - 1, 0) * interior[d]);
  }
  at::Tensor result = at::empty(size, from.options());
  copy(result, carrier(value).expand(size));
  at::Tensor to = result;
  for (size_t i = 0; i < low.size(); ++i) {
    const int64_t d = int64_t(i), step = interior[i] + 1;
    // Element j goes to low + j * step; negative padding drops some.
    const int64_t first = low[i] < 0 ? ceil_div(-low[i], step) : 0;
    const int64_t last = std::min(
        x.size(d),
        low[i] >= size[i] ? int64_t{0} : (size[i] - 1 - low[i]) / step + 1);
    if (first >= last)
      return from_carrier(result, x.scalar_type());
    from = from.slice(d, first, last);
    const int64_t begin = low[i] + first * step;
    to = to.slice(d, begin, begin + (last - first - 1) * step + 1, step);
  }
  copy(to, from);
  return from_carrier(result, x.scalar_type());
}

std::span<const Instruction> shape_instructions() {
  return kInstructions;
}

}  // namespace neuronx::sim
