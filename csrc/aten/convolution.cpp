// SPDX-License-Identifier: Apache-2.0
// aten::_convolution, which traced models and autocast call by name, asks a
// backend of its own for these two; the table has the general operators.
#include <ATen/core/Tensor.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <torch/library.h>

namespace neuronx::aten {
namespace {

using at::IntArrayRef;
using at::Tensor;

Tensor convolution(const Tensor& input,
                   const Tensor& weight,
                   const std::optional<Tensor>& bias,
                   IntArrayRef stride,
                   IntArrayRef padding,
                   IntArrayRef dilation,
                   bool transposed,
                   IntArrayRef output_padding,
                   int64_t groups) {
  return at::convolution(input,
                         weight,
                         bias,
                         stride,
                         padding,
                         dilation,
                         transposed,
                         output_padding,
                         groups);
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(
    const Tensor& grad_output,
    const Tensor& input,
    const Tensor& weight,
    IntArrayRef stride,
    IntArrayRef padding,
    IntArrayRef dilation,
    bool transposed,
    IntArrayRef output_padding,
    int64_t groups,
    std::array<bool, 3> output_mask) {
  // The bias's gradient sums over all but the channels of the output.
  const int64_t channels = grad_output.size(1);
  return at::convolution_backward(
      grad_output,
      input,
      weight,
      output_mask[2] ? at::OptionalIntArrayRef(channels) : std::nullopt,
      stride,
      padding,
      dilation,
      transposed,
      output_padding,
      groups,
      output_mask);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("convolution_overrideable", &convolution);
  m.impl("convolution_backward_overrideable", &convolution_backward);
}

}  // namespace neuronx::aten
