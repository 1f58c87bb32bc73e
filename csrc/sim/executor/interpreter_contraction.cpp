// SPDX-License-Identifier: Apache-2.0
// dot_general and convolution.
#include <ATen/ops/bmm.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <stdexcept>

#include "sim/executor/interpreter.h"

namespace neuronx::sim {
namespace {

using ir::Shape;

int64_t product(at::IntArrayRef sizes) {
  int64_t n = 1;
  for (int64_t size : sizes)
    n *= size;
  return n;
}

// The dtype to multiply and add in.
at::ScalarType accumulator(const at::Tensor& x, DType result) {
  if (c10::isIntegralType(x.scalar_type(), true))
    return at::kLong;
  if (x.is_complex() || is_complex(result))
    return at::kComplexDouble;
  const auto wanted = to_scalar_type(result);
  return x.scalar_type() == at::kDouble || wanted == at::kDouble ? at::kDouble
                                                                 : at::kFloat;
}

at::Tensor accumulate_in(const at::Tensor& x, at::ScalarType type) {
  return type == at::kLong ? convert_integer(x, type) : x.to(type);
}

// [batch, free, contract] or [batch, contract, free] of the operand.
at::Tensor matrix(const at::Tensor& x,
                  const Shape& batch,
                  const Shape& contract,
                  bool contract_last,
                  Shape& free_sizes) {
  Shape free;
  for (int64_t d = 0; d < x.dim(); ++d)
    if (std::find(batch.begin(), batch.end(), d) == batch.end() &&
        std::find(contract.begin(), contract.end(), d) == contract.end())
      free.push_back(d);
  Shape order = batch;
  const Shape& second = contract_last ? free : contract;
  const Shape& third = contract_last ? contract : free;
  order.insert(order.end(), second.begin(), second.end());
  order.insert(order.end(), third.begin(), third.end());
  const auto sizes = [&](const Shape& dimensions) {
    Shape result;
    for (int64_t d : dimensions)
      result.push_back(x.size(d));
    return result;
  };
  free_sizes = sizes(free);
  return x.permute(order).reshape(
      {product(sizes(batch)), product(sizes(second)), product(sizes(third))});
}

Tensors dot_general(const Evaluation& e) {
  const auto type = accumulator(e.in(0), e.dtype());
  const Shape& batch = e.ints("lhs_batching_dimensions");
  Shape lhs_free, rhs_free, size;
  const at::Tensor lhs = matrix(accumulate_in(e.in(0), type),
                                batch,
                                e.ints("lhs_contracting_dimensions"),
                                true,
                                lhs_free);
  const at::Tensor rhs = matrix(accumulate_in(e.in(1), type),
                                e.ints("rhs_batching_dimensions"),
                                e.ints("rhs_contracting_dimensions"),
                                false,
                                rhs_free);
  for (int64_t d : batch)
    size.push_back(e.in(0).size(d));
  size.insert(size.end(), lhs_free.begin(), lhs_free.end());
  size.insert(size.end(), rhs_free.begin(), rhs_free.end());
  return {convert_to(at::bmm(lhs, rhs).reshape(size), e.dtype())};
}

// `first`, `second`, spatial... as the first, second... dimension.
at::Tensor arrange(const at::Tensor& x,
                   int64_t first,
                   int64_t second,
                   const Shape& spatial) {
  Shape order{first, second};
  order.insert(order.end(), spatial.begin(), spatial.end());
  return x.permute(order);
}

// ATen groups features only: batch groups become feature groups.
at::Tensor batch_groups_to_features(const at::Tensor& x, int64_t groups) {
  Shape size = x.sizes().vec();
  size[0] /= groups;
  Shape split = size;
  split.insert(split.begin(), groups);
  size[1] *= groups;
  return x.reshape(split).transpose(0, 1).reshape(size);
}

Tensors convolution(const Evaluation& e) {
  // Integers up to 2^53 are exact in float64, where ATen has kernels.
  auto type = accumulator(e.in(0), e.dtype());
  type = type == at::kLong ? at::kDouble : type;
  const Shape& spatial = e.ints("input_spatial_dimensions");
  const size_t n = spatial.size();
  if (n > 3)
    throw std::runtime_error(
        "[stablehlo.convolution] the simulator has at most 3 spatial "
        "dimensions, got " +
        std::to_string(n));
  at::Tensor x = arrange(convert_to(e.in(0), DType::Float64).to(type),
                         e.integer("input_batch_dimension"),
                         e.integer("input_feature_dimension"),
                         spatial);
  at::Tensor kernel = arrange(convert_to(e.in(1), DType::Float64).to(type),
                              e.integer("kernel_output_feature_dimension"),
                              e.integer("kernel_input_feature_dimension"),
                              e.ints("kernel_spatial_dimensions"));
  Shape low{0, 0}, high{0, 0}, interior{0, 0};
  const Shape& padding = e.ints("padding");
  for (size_t d = 0; d < n; ++d) {
    low.push_back(padding[2 * d]);
    high.push_back(padding[2 * d + 1]);
    interior.push_back(e.ints("lhs_dilation")[d] - 1);
  }
  x = padded(x, at::zeros({}, x.options()), low, high, interior);
  int64_t groups = e.integer("feature_group_count");
  if (const int64_t batch = e.integer("batch_group_count"); batch > 1) {
    x = batch_groups_to_features(x, batch);
    groups = batch;
  }
  Shape stride = e.ints("window_strides");
  Shape dilation = e.ints("rhs_dilation");
  for (size_t d = n; d < 1; ++d) {
    x = x.unsqueeze(-1);
    kernel = kernel.unsqueeze(-1);
    stride.push_back(1);
    dilation.push_back(1);
  }
  const Shape zero(stride.size(), 0);
  const Shape& to = e.ints("output_spatial_dimensions");
  Shape order(n + 2);
  order[e.integer("output_batch_dimension")] = 0;
  order[e.integer("output_feature_dimension")] = 1;
  for (size_t d = 0; d < n; ++d)
    order[to[d]] = int64_t(d) + 2;
  at::Tensor result;
  if (product(e.types[0].shape) == 0 || x.numel() == 0 || kernel.numel() == 0)
    return {at::zeros(e.types[0].shape, at::dtype(to_scalar_type(e.dtype())))};
  result = at::convolution(x.contiguous(),
                           kernel.contiguous(),
                           {},
                           stride,
                           zero,
                           dilation,
                           false,
                           zero,
                           groups);
  if (n == 0)
    result = result.squeeze(-1);
  return {convert_to(result.permute(order), e.dtype())};
}

constexpr Instruction kInstructions[] = {
    {"stablehlo.dot_general", dot_general},
    {"stablehlo.convolution", convolution},
};

}  // namespace

std::span<const Instruction> contraction_instructions() {
  return kInstructions;
}

}  // namespace neuronx::sim
