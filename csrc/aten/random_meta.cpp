// SPDX-License-Identifier: Apache-2.0
// Meta kernels of distributions that core has none for.
#include <ATen/ExpandUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

namespace neuronx::aten {
namespace {

at::Tensor binomial(const at::Tensor& count,
                    const at::Tensor& probability,
                    std::optional<at::Generator>) {
  TORCH_CHECK(count.dtype() == probability.dtype(),
              "Found dtype ",
              probability.dtype(),
              " but expected ",
              count.dtype());
  return at::empty(at::infer_size(count.sizes(), probability.sizes()),
                   count.options());
}

at::Tensor dirichlet(const at::Tensor& self, std::optional<at::Generator>) {
  return at::empty(self.sizes(), self.options());
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("binomial", &binomial);
  m.impl("_sample_dirichlet", &dirichlet);
}

}  // namespace neuronx::aten
