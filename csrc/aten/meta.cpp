// SPDX-License-Identifier: Apache-2.0
// Results' sizes of operators for which PyTorch has no Meta kernel.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
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
  add(m, "multi_margin_loss_backward", &multi_margin_loss_backward);
  add(m, "multilabel_margin_loss_backward", &multilabel_margin_loss_backward);
}

}  // namespace neuronx::aten
