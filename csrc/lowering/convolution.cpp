// SPDX-License-Identifier: Apache-2.0
#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

using ir::Builder;
using ir::ConvolutionDimensions;

struct Geometry {
  Shape stride, padding, dilation, output_padding;
  bool transposed;
  int64_t groups;
};

// Arguments stride, padding, dilation, transposed, output_padding, groups
// from position i on.
Geometry geometry(Op& op, int i, int64_t spatial) {
  return {expand_list(op.ints(i), spatial),
          expand_list(op.ints(i + 1), spatial),
          expand_list(op.ints(i + 2), spatial),
          expand_list(op.ints(i + 4), spatial),
          op.flag(i + 3),
          op.integer(i + 5)};
}

// [N, C, spatial...] by [O, I, spatial...].
ConvolutionDimensions layout(int64_t rank) {
  ConvolutionDimensions dims;
  dims.input = dims.kernel = dims.output = range(0, rank);
  const auto spatial = rank - 2;
  dims.stride = dims.lhs_dilation = dims.rhs_dilation = Shape(spatial, 1);
  dims.pad_low = dims.pad_high = Shape(spatial, 0);
  return dims;
}

// [groups * a, c, ...] as [groups * c, a, ...]: input and output features of a
// grouped kernel exchanged.
Value exchange_features(Builder& b, Value w, int64_t groups) {
  const Shape shape = b.shape(w);
  const int64_t a = shape[0] / groups, c = shape[1];
  Shape split{groups, a, c};
  split.insert(split.end(), shape.begin() + 2, shape.end());
  Shape order{0, 2, 1};
  for (int64_t d = 3; d < static_cast<int64_t>(split.size()); ++d) {
    order.push_back(d);
  }
  Shape merged{groups * c, a};
  merged.insert(merged.end(), shape.begin() + 2, shape.end());
  return b.reshape(b.transpose(b.reshape(w, split), order), merged);
}

// The gradient of an ordinary convolution by its input, which is also the
// transposed convolution: dilated input, flipped kernel. `size`: the result's
// spatial sizes.
Value backward_input(Builder& b,
                     Value grad,
                     Value weight,
                     const Geometry& g,
                     Shape size,
                     DType dtype) {
  const int64_t rank = b.rank(weight);
  auto dims = layout(rank);
  dims.groups = g.groups;
  dims.lhs_dilation = g.stride;
  dims.rhs_dilation = g.dilation;
  for (int64_t i = 0; i < rank - 2; ++i) {
    const int64_t kernel = (b.shape(weight)[i + 2] - 1) * g.dilation[i] + 1;
    const int64_t dilated = (b.shape(grad)[i + 2] - 1) * g.stride[i] + 1;
    dims.pad_low[i] = kernel - 1 - g.padding[i];
    dims.pad_high[i] = size[i + 2] - dilated - dims.pad_low[i] + kernel - 1;
  }
  Value flipped = b.reverse(weight, range(2, rank));
  flipped = exchange_features(b, flipped, g.groups);
  return b.convolution(grad, flipped, dims, dtype);
}

Value forward(
    Builder& b, Value x, Value weight, const Geometry& g, DType dtype) {
  auto dims = layout(b.rank(x));
  dims.stride = g.stride;
  dims.rhs_dilation = g.dilation;
  dims.pad_low = dims.pad_high = g.padding;
  dims.groups = g.groups;
  return b.convolution(x, weight, dims, dtype);
}

// The gradient of an ordinary convolution by its kernel: the input convolved
// with the output's gradient, batch and feature exchanged.
Value backward_weight(Builder& b,
                      Value grad,
                      Value x,
                      const Geometry& g,
                      Shape weight,
                      DType dtype) {
  const int64_t rank = b.rank(x);
  auto dims = layout(rank);
  std::swap(dims.input[0], dims.input[1]);    // batch = channels of x
  std::swap(dims.kernel[0], dims.kernel[1]);  // output features = those of grad
  std::swap(dims.output[0], dims.output[1]);
  dims.batch_groups = g.groups;
  dims.stride = g.dilation;
  dims.rhs_dilation = g.stride;
  for (int64_t i = 0; i < rank - 2; ++i) {
    const int64_t window = (b.shape(grad)[i + 2] - 1) * g.stride[i] + 1;
    const int64_t want = (weight[i + 2] - 1) * g.dilation[i] + window;
    dims.pad_low[i] = g.padding[i];
    dims.pad_high[i] = want - b.shape(x)[i + 2] - g.padding[i];
  }
  return b.convolution(x, grad, dims, dtype);
}

Value with_bias(Op& op, Value y, int i) {
  if (!op.has(i)) {
    return y;
  }
  return op.b.add(
      y, op.b.broadcast_in_dim(op.in(i, op.b.dtype(y)), op.b.shape(y), {1}));
}

Values convolution(Op& op) {
  // input, weight, bias, stride, padding, dilation, transposed,
  // output_padding, groups
  auto& b = op.b;
  const Value x = op.in(0), weight = op.in(1);
  const DType dtype = opmath(b.dtype(x));
  const auto g = geometry(op, 3, b.rank(x) - 2);
  const Value y =
      g.transposed ? backward_input(b, x, weight, g, op.result().shape, dtype)
                   : forward(b, x, weight, g, dtype);
  return {with_bias(op, y, 2)};
}

Values convolution_backward(Op& op) {
  // grad_output, input, weight, bias_sizes, stride, padding, dilation,
  // transposed, output_padding, groups, output_mask
  auto& b = op.b;
  const Value grad = op.in(0), x = op.in(1), weight = op.in(2);
  const DType dtype = opmath(b.dtype(x));
  const auto g = geometry(op, 4, b.rank(x) - 2);
  const auto mask = op.ints(10);
  Values results(3);
  if (mask[0]) {
    // Output padding may make room for another step of the window.
    results[0] = g.transposed
                     ? b.slice(forward(b, grad, weight, g, dtype),
                               Shape(b.rank(x), 0),
                               b.shape(x),
                               Shape(b.rank(x), 1))
                     : backward_input(b, grad, weight, g, b.shape(x), dtype);
  }
  if (mask[1]) {
    results[1] = g.transposed
                     ? backward_weight(b, x, grad, g, b.shape(weight), dtype)
                     : backward_weight(b, grad, x, g, b.shape(weight), dtype);
  }
  if (mask[2]) {
    Shape dims = range(2, b.rank(x));
    dims.insert(dims.begin(), 0);
    results[2] = b.reduce(b.convert(grad, dtype), ir::Reduce::Add, dims);
  }
  return results;
}

const bool registered = [] {
  lower("aten::convolution", &convolution);
  lower("aten::convolution_backward", &convolution_backward);
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
