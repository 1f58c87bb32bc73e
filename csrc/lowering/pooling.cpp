// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

using ir::Builder;
using ir::Compare;
using ir::Reduce;

// Window over the trailing dimensions; `result` decides the padding at the
// end, which ceil_mode may enlarge.
ir::Window window(Shape input,
                  Shape result,
                  Shape size,
                  const Shape& stride,
                  const Shape& padding,
                  const Shape& dilation) {
  const size_t lead = input.size() - size.size();
  ir::Window w;
  w.size = w.stride = w.dilation = Shape(input.size(), 1);
  w.pad_low = w.pad_high = Shape(input.size(), 0);
  for (size_t i = 0; i < size.size(); ++i) {
    const size_t d = lead + i;
    w.size[d] = size[i];
    w.stride[d] = stride[i];
    w.dilation[d] = dilation[i];
    w.pad_low[d] = padding[i];
    const int64_t reach =
        (result[d] - 1) * stride[i] + (size[i] - 1) * dilation[i] + 1;
    w.pad_high[d] = reach - input[d] - padding[i];
  }
  return w;
}

struct PoolArguments {
  Shape size, stride, padding, dilation;
};

PoolArguments pool_arguments(Op& op, int i, size_t n, bool dilated) {
  PoolArguments a;
  a.size = expand_list(op.ints(i), n);
  a.stride = op.has(i + 1) && !op.ints(i + 1).empty()
                 ? expand_list(op.ints(i + 1), n)
                 : a.size;
  a.padding = expand_list(op.has(i + 2) ? op.ints(i + 2) : Shape{0}, n);
  a.dilation =
      expand_list(dilated && op.has(i + 3) ? op.ints(i + 3) : Shape{1}, n);
  return a;
}

// Flat position of each element within its plane.
Value plane_index(Builder& b, Shape shape, size_t n) {
  Value index = b.constant(DType::Int64, 0, shape);
  for (size_t i = shape.size() - n; i < shape.size(); ++i) {
    const auto dim = static_cast<int64_t>(i);
    index = b.add(b.mul(index, b.constant(DType::Int64, shape[i], shape)),
                  b.iota({DType::Int64, shape}, dim));
  }
  return index;
}

// The maximum of each window and its position: the first of equals, and NaN
// above all.
Values window_maxima(Builder& b, Value x, Value position, const ir::Window& w) {
  const Value low =
      is_floating_point(b.dtype(x))
          ? b.constant(b.dtype(x), -INFINITY)
          : b.constant(b.dtype(x), std::numeric_limits<int64_t>::min());
  return b.reduce_window(
      {x, position},
      {low, b.constant(DType::Int64, std::numeric_limits<int64_t>::max())},
      w,
      [](Builder& r, const ir::Values& v) -> ir::Values {
        Value take = r.compare(Compare::GT, v[0], v[2]);
        Value equal = r.compare(Compare::EQ, v[0], v[2]);
        if (is_floating_point(r.dtype(v[0]))) {
          take = r.logical_or(take, r.compare(Compare::NE, v[0], v[0]));
        }
        take = r.logical_or(
            take, r.logical_and(equal, r.compare(Compare::LT, v[1], v[3])));
        return {r.select(take, v[0], v[2]), r.select(take, v[1], v[3])};
      });
}

Values max_pool(Op& op, size_t n) {
  // self, kernel_size, stride, padding, dilation, ceil_mode
  auto& b = op.b;
  const Value x = op.in(0);
  const auto a = pool_arguments(op, 1, n, true);
  const auto w = window(
      b.shape(x), op.result(0).shape, a.size, a.stride, a.padding, a.dilation);
  return window_maxima(b, x, plane_index(b, b.shape(x), n), w);
}

// Adaptive pooling's window o covers [o * in / out, ceil((o + 1) * in / out)).
int64_t adaptive_start(int64_t o, int64_t in, int64_t out) {
  return o * in / out;
}
int64_t adaptive_end(int64_t o, int64_t in, int64_t out) {
  return ((o + 1) * in + out - 1) / out;
}

// Dimension d of x as windows of one size side by side: elements
// starts[0], starts[0] + 1, ... of `size`, but none beyond the window's end.
Value lay_out_windows(
    Builder& b, Value x, int64_t d, int64_t out, int64_t size) {
  const int64_t in = b.shape(x)[d];
  Values pieces;
  for (int64_t o = 0; o < out; ++o) {
    const int64_t start = adaptive_start(o, in, out);
    const int64_t end = adaptive_end(o, in, out);
    pieces.push_back(narrow(b, x, d, start, end));
    // Once more what is in the window: a maximum does not mind.
    for (int64_t i = end - start; i < size; ++i) {
      pieces.push_back(narrow(b, x, d, end - 1, end));
    }
  }
  return b.concatenate(pieces, d);
}

Values adaptive_max_pool(Op& op, int64_t n) {
  // self, output_size
  auto& b = op.b;
  Value x = op.in(0);
  Value position = plane_index(b, b.shape(x), n);
  const int64_t rank = b.rank(x);
  Shape sizes;
  for (int64_t d = rank - n; d < rank; ++d) {
    const int64_t in = b.shape(x)[d], out = op.result(0).shape[d];
    int64_t size = 0;
    for (int64_t o = 0; o < out; ++o) {
      size =
          std::max(size, adaptive_end(o, in, out) - adaptive_start(o, in, out));
    }
    sizes.push_back(size);
    if (in != out * size) {
      x = lay_out_windows(b, x, d, out, size);
      position = lay_out_windows(b, position, d, out, size);
    }
  }
  const Shape none(n, 0), one(n, 1);
  const auto w =
      window(b.shape(x), op.result(0).shape, sizes, sizes, none, one);
  return window_maxima(b, x, position, w);
}

// grad, self, ... and the positions of the maxima as argument `indices`.
Values max_pool_backward(Op& op, size_t n, int indices) {
  auto& b = op.b;
  const DType dtype = opmath(op.result().dtype);
  const Shape shape = b.shape(op.in(1));
  const Shape small = b.shape(op.in(0));
  int64_t planes = 1, plane = 1, windows = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool spatial = d >= shape.size() - n;
    (spatial ? plane : planes) *= shape[d];
    windows *= spatial ? small[d] : 1;
  }
  const Value grad = b.reshape(op.in(0, dtype), {planes * windows});
  const Value index = b.reshape(op.in(indices), {planes, windows});
  const Value base = b.mul(b.iota({DType::Int64, {planes, windows}}, 0),
                           b.constant(DType::Int64, plane, {planes, windows}));
  const Value position = b.reshape(b.add(base, index), {planes * windows, 1});
  ir::ScatterDimensions dims;
  dims.inserted_window = {0};
  dims.scatter_to_operand = {0};
  dims.index_vector = 1;
  const Value flat =
      b.scatter(b.constant(dtype, 0, {planes * plane}),
                position,
                grad,
                dims,
                [](Builder& r, const ir::Values& v) -> ir::Values {
                  return {r.add(v[0], v[1])};
                });
  return {b.reshape(flat, shape)};
}

// How many elements each average divides by.
Value divisor(Op& op,
              const ir::Window& w,
              Shape input,
              const PoolArguments& a,
              bool include_pad,
              int override_position,
              DType dtype,
              Shape result) {
  auto& b = op.b;
  if (op.has(override_position)) {
    return b.constant(
        dtype, static_cast<double>(op.integer(override_position)), result);
  }
  Shape size = input;
  ir::Window counting = w;
  if (include_pad) {
    // Padding on both sides counts; what ceil_mode adds beyond does not.
    const size_t lead = input.size() - a.size.size();
    for (size_t i = 0; i < a.size.size(); ++i) {
      size[lead + i] += 2 * a.padding[i];
      counting.pad_low[lead + i] -= a.padding[i];
      counting.pad_high[lead + i] -= a.padding[i];
    }
  }
  return b.reduce_window(b.constant(dtype, 1.0, size),
                         b.constant(dtype, 0.0),
                         counting,
                         Reduce::Add);
}

Values avg_pool(Op& op, size_t n) {
  // self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor
  auto& b = op.b;
  const DType dtype = opmath(op.result().dtype);
  const Value x = op.in(0, dtype);
  const auto a = pool_arguments(op, 1, n, false);
  const auto w = window(
      b.shape(x), op.result().shape, a.size, a.stride, a.padding, a.dilation);
  const Value total =
      b.reduce_window(x, b.constant(dtype, 0.0), w, Reduce::Add);
  const bool include_pad = !op.has(5) || op.flag(5);
  return {b.div(
      total,
      divisor(op, w, b.shape(x), a, include_pad, 6, dtype, op.result().shape))};
}

// Spreads each window's share back: pad and dilate, then sum windows.
Value spread_windows(Builder& b,
                     Value share,
                     Shape input,
                     const ir::Window& w) {
  const auto rank = static_cast<int64_t>(input.size());
  Shape low(rank), high(rank), interior(rank);
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t reach = (w.size[d] - 1) * w.dilation[d];
    interior[d] = w.stride[d] - 1;
    low[d] = reach - w.pad_low[d];
    const int64_t dilated = (b.shape(share)[d] - 1) * w.stride[d] + 1;
    high[d] = input[d] + reach - low[d] - dilated;
  }
  ir::Window ones = w;
  ones.stride = Shape(rank, 1);
  ones.pad_low = ones.pad_high = Shape(rank, 0);
  const Value zero = b.constant(b.dtype(share), 0.0);
  const Value padded = b.pad(share, zero, low, high, interior);
  return b.reduce_window(padded, zero, ones, Reduce::Add);
}

Values avg_pool_backward(Op& op, size_t n) {
  // grad, self, kernel, stride, padding, ceil, count_include_pad, divisor
  auto& b = op.b;
  const DType dtype = opmath(op.result().dtype);
  const Value grad = op.in(0, dtype);
  const Shape input = b.shape(op.in(1));
  const auto a = pool_arguments(op, 2, n, false);
  const auto w =
      window(input, b.shape(grad), a.size, a.stride, a.padding, a.dilation);
  const Value share = b.div(
      grad, divisor(op, w, input, a, op.flag(6), 7, dtype, b.shape(grad)));
  return {spread_windows(b, share, input, w)};
}

// Averages matrix [out, in] of adaptive pooling along one dimension.
Value averages(Builder& b, int64_t in, int64_t out, DType dtype) {
  std::string bytes;
  for (int64_t o = 0; o < out; ++o) {
    const int64_t start = adaptive_start(o, in, out);
    const int64_t end = adaptive_end(o, in, out);
    for (int64_t i = 0; i < in; ++i) {
      const float share =
          i >= start && i < end ? 1.0f / static_cast<float>(end - start) : 0;
      bytes.append(reinterpret_cast<const char*>(&share), sizeof share);
    }
  }
  return b.convert(b.constant(TensorType{DType::Float32, {out, in}}, bytes),
                   dtype);
}

Values adaptive_pool(Op& op, int64_t n, bool backward) {
  // forward: self, output_size; backward: grad, self
  auto& b = op.b;
  const DType dtype = opmath(op.result().dtype);
  Value x = op.in(0, dtype);
  const Shape large = backward ? b.shape(op.in(1)) : b.shape(x);
  const Shape small = backward ? b.shape(x) : op.result().shape;
  const auto rank = static_cast<int64_t>(large.size());
  for (int64_t d = rank - n; d < rank; ++d) {
    x = along(b, x, d, averages(b, large[d], small[d], dtype), backward);
  }
  return {x};
}

const bool registered = [] {
  lower("aten::max_pool2d_with_indices",
        [](Op& op) { return max_pool(op, 2); });
  lower("aten::max_pool3d_with_indices",
        [](Op& op) { return max_pool(op, 3); });
  lower("aten::max_pool2d_with_indices_backward",
        [](Op& op) { return max_pool_backward(op, 2, 7); });
  lower("aten::max_pool3d_with_indices_backward",
        [](Op& op) { return max_pool_backward(op, 3, 7); });
  lower("aten::avg_pool2d", [](Op& op) { return avg_pool(op, 2); });
  lower("aten::avg_pool3d", [](Op& op) { return avg_pool(op, 3); });
  lower("aten::avg_pool2d_backward",
        [](Op& op) { return avg_pool_backward(op, 2); });
  lower("aten::avg_pool3d_backward",
        [](Op& op) { return avg_pool_backward(op, 3); });
  lower("aten::_adaptive_avg_pool2d",
        [](Op& op) { return adaptive_pool(op, 2, false); });
  lower("aten::_adaptive_avg_pool2d_backward",
        [](Op& op) { return adaptive_pool(op, 2, true); });
  lower("aten::_adaptive_avg_pool3d",
        [](Op& op) { return adaptive_pool(op, 3, false); });
  lower("aten::_adaptive_avg_pool3d_backward",
        [](Op& op) { return adaptive_pool(op, 3, true); });
  lower("aten::adaptive_max_pool2d",
        [](Op& op) { return adaptive_max_pool(op, 2); });
  lower("aten::adaptive_max_pool3d",
        [](Op& op) { return adaptive_max_pool(op, 3); });
  lower("aten::adaptive_max_pool2d_backward",
        [](Op& op) { return max_pool_backward(op, 2, 2); });
  lower("aten::adaptive_max_pool3d_backward",
        [](Op& op) { return max_pool_backward(op, 3, 2); });
  lower("aten::fractional_max_pool2d_backward",
        [](Op& op) { return max_pool_backward(op, 2, 4); });
  lower("aten::fractional_max_pool3d_backward",
        [](Op& op) { return max_pool_backward(op, 3, 4); });
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
