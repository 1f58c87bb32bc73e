// SPDX-License-Identifier: Apache-2.0
// Foreach operators that take their scalars as a tensor on the CPU.
#include <ATen/core/Tensor.h>
#include <ATen/native/ForeachUtils.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <torch/library.h>

namespace neuronx::aten {
namespace {

using at::native::convert_tensor_to_scalar_list;

#define WITH_TENSOR_OF_SCALARS(NAME)                                         \
  std::vector<at::Tensor> NAME(at::TensorList self,                          \
                               at::TensorList tensor1,                       \
                               at::TensorList tensor2,                       \
                               const at::Tensor& scalars) {                  \
    return at::_foreach_##NAME(                                              \
        self,                                                                \
        tensor1,                                                             \
        tensor2,                                                             \
        convert_tensor_to_scalar_list(scalars,                               \
                                      static_cast<int64_t>(self.size())));   \
  }                                                                          \
  void NAME##_(at::TensorList self,                                          \
               at::TensorList tensor1,                                       \
               at::TensorList tensor2,                                       \
               const at::Tensor& scalars) {                                  \
    at::_foreach_##NAME##_(self,                                             \
                           tensor1,                                          \
                           tensor2,                                          \
                           convert_tensor_to_scalar_list(                    \
                               scalars, static_cast<int64_t>(self.size()))); \
  }
WITH_TENSOR_OF_SCALARS(addcdiv)
WITH_TENSOR_OF_SCALARS(addcmul)
#undef WITH_TENSOR_OF_SCALARS

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_foreach_addcdiv.Tensor", &addcdiv);
  m.impl("_foreach_addcdiv_.Tensor", &addcdiv_);
  m.impl("_foreach_addcmul.Tensor", &addcmul);
  m.impl("_foreach_addcmul_.Tensor", &addcmul_);
}

}  // namespace neuronx::aten
