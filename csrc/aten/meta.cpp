// SPDX-License-Identifier: Apache-2.0
// Results' sizes of operators for which PyTorch has no Meta kernel.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

namespace neuronx::aten {
namespace {

using at::Tensor;

Tensor fractional_max_pool3d_backward(const Tensor& grad,
                                      const Tensor& self,
                                      at::IntArrayRef kernel_size,
                                      at::IntArrayRef output_size,
                                      const Tensor& indices) {
  return at::empty_like(self, at::MemoryFormat::Contiguous);
}

Tensor multi_margin_loss_backward(const Tensor& grad,
                                  const Tensor& self,
                                  const Tensor& target,
                                  const at::Scalar& p,
                                  const at::Scalar& margin,
                                  const std::optional<Tensor>& weight,
                                  int64_t reduction) {
  return at::empty_like(self, at::MemoryFormat::Contiguous);
}

Tensor multilabel_margin_loss_backward(const Tensor& grad,
                                       const Tensor& self,
                                       const Tensor& target,
                                       int64_t reduction,
                                       const Tensor& is_target) {
  return at::empty_like(self, at::MemoryFormat::Contiguous);
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates,
                                             const Tensor& hidden_gates,
                                             const Tensor& cx,
                                             const std::optional<Tensor>&,
                                             const std::optional<Tensor>&) {
  constexpr auto kDense = at::MemoryFormat::Contiguous;
  return {at::empty_like(cx, kDense),
          at::empty_like(cx, kDense),
          at::empty_like(input_gates, kDense)};
}

// Undefined where neither output has a gradient.
std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(
    const std::optional<Tensor>& grad_hy,
    const std::optional<Tensor>& grad_cy,
    const Tensor& cx,
    const Tensor& cy,
    const Tensor& workspace,
    bool has_bias) {
  if (!grad_hy && !grad_cy) {
    return {};
  }
  constexpr auto kDense = at::MemoryFormat::Contiguous;
  return {at::empty_like(workspace, kDense),
          at::empty_like(cx, kDense),
          has_bias ? at::empty({workspace.size(1)}, workspace.options())
                   : Tensor()};
}

std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates,
                                    const Tensor& hidden_gates,
                                    const Tensor& hx,
                                    const std::optional<Tensor>&,
                                    const std::optional<Tensor>&) {
  return {at::empty_like(hx, at::MemoryFormat::Contiguous),
          at::empty({hx.size(0), hx.size(1) * 5}, hx.options())};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(
    const Tensor& grad_hy, const Tensor& workspace, bool has_bias) {
  const auto options = workspace.options();
  const int64_t rows = workspace.size(0), gates = workspace.size(1) / 5 * 3;
  const auto bias = [&] {
    return has_bias ? at::empty({gates}, options) : Tensor();
  };
  return {at::empty({rows, gates}, options),
          at::empty({rows, gates}, options),
          at::empty_like(grad_hy, at::MemoryFormat::Contiguous),
          bias(),
          bias()};
}

// A version of PyTorch that has one keeps it.
template <typename F>
void add(torch::Library& m, const char* name, F* kernel) {
  const auto op = c10::Dispatcher::singleton().findSchema(
      {std::string("aten::") + name, ""});
  if (op && !op->hasKernelForDispatchKey(c10::DispatchKey::Meta)) {
    m.impl(name, kernel);
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  add(m, "_thnn_fused_gru_cell", &gru_cell);
  add(m, "_thnn_fused_gru_cell_backward", &gru_cell_backward);
  add(m, "_thnn_fused_lstm_cell", &lstm_cell);
  add(m, "_thnn_fused_lstm_cell_backward_impl", &lstm_cell_backward);
  add(m, "fractional_max_pool3d_backward", &fractional_max_pool3d_backward);
  add(m, "multi_margin_loss_backward", &multi_margin_loss_backward);
  add(m, "multilabel_margin_loss_backward", &multilabel_margin_loss_backward);
}

}  // namespace neuronx::aten
