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

using Optional = std::optional<Tensor>;

std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates,
                                    const Tensor& hidden_gates,
                                    const Tensor& hx,
                                    const Optional& input_bias,
                                    const Optional& hidden_bias) {
  return {at::empty_like(hx, at::MemoryFormat::Contiguous),
          at::empty({hx.size(0), hx.size(1) * 5}, hx.options())};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(
    const Tensor& grad, const Tensor& workspace, bool has_bias) {
  const int64_t width = grad.size(1) * 3;
  const auto gates = [&] {
    return at::empty({grad.size(0), width}, workspace.options());
  };
  const auto bias = [&] {
    return has_bias ? at::empty({width}, workspace.options()) : Tensor();
  };
  return {gates(),
          gates(),
          at::empty_like(grad, at::MemoryFormat::Contiguous),
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
  add(m, "fractional_max_pool3d_backward", &fractional_max_pool3d_backward);
  add(m, "_thnn_fused_gru_cell", &gru_cell);
  add(m, "_thnn_fused_gru_cell_backward", &gru_cell_backward);
  add(m, "multi_margin_loss_backward", &multi_margin_loss_backward);
  add(m, "multilabel_margin_loss_backward", &multilabel_margin_loss_backward);
}

}  // namespace neuronx::aten
