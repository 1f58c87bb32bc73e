// SPDX-License-Identifier: Apache-2.0
// Batch normalisation that updates running statistics: the program is the
// functional operator, whose new statistics are copied to where they belong.
// The saved statistics of an evaluation are empty, as on the CPU.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_native_batch_norm_legit.h>
#include <ATen/ops/_native_batch_norm_legit_no_training.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <tuple>

namespace neuronx::aten {
namespace {

using at::Tensor;
using Optional = std::optional<Tensor>;
using Results = std::tuple<Tensor, Tensor, Tensor>;
using ReservingResults = std::tuple<Tensor, Tensor, Tensor, Tensor>;

Tensor nothing(const Tensor& input, at::ScalarType dtype) {
  return at::empty({0}, input.options().dtype(dtype));
}

at::ScalarType statistic_type(const Tensor& input, const Optional& weight) {
  return weight && weight->defined() ? weight->scalar_type()
                                     : input.scalar_type();
}

Results train(const Tensor& input,
              const Optional& weight,
              const Optional& bias,
              const Tensor& running_mean,
              const Tensor& running_var,
              double momentum,
              double eps) {
  auto [y, mean, rstd, new_mean, new_var] =
      at::_native_batch_norm_legit_functional(
          input, weight, bias, running_mean, running_var, true, momentum, eps);
  running_mean.copy_(new_mean);
  running_var.copy_(new_var);
  return {y, mean, rstd};
}

// Declared without writes; it writes all the same.
Results native_batch_norm(const Tensor& input,
                          const Optional& weight,
                          const Optional& bias,
                          const Optional& running_mean,
                          const Optional& running_var,
                          bool training,
                          double momentum,
                          double eps) {
  const bool tracked = running_mean && running_mean->defined() && running_var &&
                       running_var->defined();
  if (training && !tracked) {
    return at::_native_batch_norm_legit(
        input, weight, bias, training, momentum, eps);
  }
  TORCH_CHECK(tracked,
              "[aten::native_batch_norm] expected running_mean and "
              "running_var to be given in evaluation mode");
  if (training) {
    return train(
        input, weight, bias, *running_mean, *running_var, momentum, eps);
  }
  auto y = std::get<0>(at::_native_batch_norm_legit_no_training(
      input, weight, bias, *running_mean, *running_var, momentum, eps));
  const auto dtype = statistic_type(input, weight);
  return {y, nothing(input, dtype), nothing(input, dtype)};
}

Results native_batch_norm_legit(const Tensor& input,
                                const Optional& weight,
                                const Optional& bias,
                                Tensor& running_mean,
                                Tensor& running_var,
                                bool training,
                                double momentum,
                                double eps) {
  return native_batch_norm(
      input, weight, bias, running_mean, running_var, training, momentum, eps);
}

ReservingResults with_reserve(const Tensor& input, Results results) {
  auto [y, mean, rstd] = std::move(results);
  return {y, mean, rstd, nothing(input, at::kByte)};
}

ReservingResults batch_norm_with_update(const Tensor& input,
                                        const Optional& weight,
                                        const Optional& bias,
                                        Tensor& running_mean,
                                        Tensor& running_var,
                                        double momentum,
                                        double eps) {
  return with_reserve(
      input,
      train(input, weight, bias, running_mean, running_var, momentum, eps));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("native_batch_norm", &native_batch_norm);
  m.impl("_native_batch_norm_legit", &native_batch_norm_legit);
  m.impl("_batch_norm_with_update", &batch_norm_with_update);
}

}  // namespace neuronx::aten
