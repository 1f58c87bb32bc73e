// SPDX-License-Identifier: Apache-2.0
// rrelu_with_noise returns one tensor and writes another: the functional form
// is the program.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace neuronx::aten {
namespace {

using Functional =
    std::tuple<at::Tensor, at::Tensor>(const at::Tensor&,
                                       const at::Tensor&,
                                       const at::Scalar&,
                                       const at::Scalar&,
                                       bool,
                                       std::optional<at::Generator>);

at::Tensor rrelu_with_noise(const at::Tensor& self,
                            at::Tensor& noise,
                            const at::Scalar& lower,
                            const at::Scalar& upper,
                            bool training,
                            std::optional<at::Generator> generator) {
  static const auto functional =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("aten::rrelu_with_noise_functional", "")
          .typed<Functional>();
  auto [output, drawn] =
      functional.call(self, noise, lower, upper, training, generator);
  if (training) {
    noise.copy_(drawn);
  }
  return output;
}

at::Tensor& rrelu_with_noise_(at::Tensor& self,
                              at::Tensor& noise,
                              const at::Scalar& lower,
                              const at::Scalar& upper,
                              bool training,
                              std::optional<at::Generator> generator) {
  return self.copy_(
      rrelu_with_noise(self, noise, lower, upper, training, generator));
}

at::Tensor& rrelu_with_noise_out(const at::Tensor& self,
                                 at::Tensor& noise,
                                 const at::Scalar& lower,
                                 const at::Scalar& upper,
                                 bool training,
                                 std::optional<at::Generator> generator,
                                 at::Tensor& out) {
  return out.resize_(self.sizes())
      .copy_(rrelu_with_noise(self, noise, lower, upper, training, generator));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("rrelu_with_noise", &rrelu_with_noise);
  m.impl("rrelu_with_noise_", &rrelu_with_noise_);
  m.impl("rrelu_with_noise.out", &rrelu_with_noise_out);
}

}  // namespace neuronx::aten
