// SPDX-License-Identifier: Apache-2.0
// Which attention F.scaled_dot_product_attention takes: the fused program
// where CPU would take its flash kernel, else the math composite.
#include <ATen/core/Tensor.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/_fused_sdp_choice_ops.h>
#include <torch/library.h>

namespace neuronx::aten {
namespace {

int64_t fused_sdp_choice(const at::Tensor& query,
                         const at::Tensor& key,
                         const at::Tensor& value,
                         const std::optional<at::Tensor>& mask,
                         double dropout,
                         bool is_causal,
                         std::optional<double> scale,
                         bool enable_gqa) {
  // CPU's rule reads metadata only.
  const auto choice = at::_ops::_fused_sdp_choice::redispatch(
      c10::DispatchKeySet(c10::DispatchKey::CPU),
      query,
      key,
      value,
      mask,
      dropout,
      is_causal,
      scale,
      enable_gqa);
  if (choice != static_cast<int64_t>(at::SDPBackend::flash_attention)) {
    return choice;
  }
  const bool same_heads = query.size(1) == key.size(1);
  const bool supported = query.scalar_type() != at::kDouble && same_heads;
  return static_cast<int64_t>(supported ? at::SDPBackend::overrideable
                                        : at::SDPBackend::math);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_sdp_choice", &fused_sdp_choice);
}

}  // namespace neuronx::aten

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub,
                              &neuronx::aten::fused_sdp_choice)
}  // namespace at::native
