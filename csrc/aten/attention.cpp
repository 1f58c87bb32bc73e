// SPDX-License-Identifier: Apache-2.0
// Which attention F.scaled_dot_product_attention takes: the fused program
// wherever it fits, else the composite that CPU calls "math".
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <string>

namespace neuronx::aten {
namespace {

// Sizes may be symbolic here: torch.compile asks as well.
bool broadcasts(const at::Tensor& mask,
                const at::Tensor& query,
                const c10::SymInt& keys) {
  if (mask.dim() > query.dim()) {
    return false;
  }
  for (int64_t d = 1; d <= mask.dim(); ++d) {
    const c10::SymInt full = d == 1 ? keys : query.sym_size(-d);
    if (mask.sym_size(-d) != 1 && mask.sym_size(-d) != full) {
      return false;
    }
  }
  return true;
}

// Empty where the fused program takes the arguments.
std::string misfit(const at::Tensor& query,
                   const at::Tensor& key,
                   const at::Tensor& value,
                   const std::optional<at::Tensor>& mask,
                   bool is_causal,
                   bool enable_gqa) {
  if (query.is_nested() || key.is_nested() || value.is_nested()) {
    return "nested tensors";
  }
  if (query.scalar_type() == at::kDouble) {
    return "float64, which computes on the host";
  }
  if (!at::isFloatingType(query.scalar_type())) {
    return "integers";
  }
  const int64_t rank = query.dim();
  if ((rank != 3 && rank != 4) || key.dim() != rank || value.dim() != rank) {
    return "operands that are not all 3-D or all 4-D";
  }
  // The head dimension of 3-D operands is their first.
  const c10::SymInt query_heads = query.sym_size(-3), heads = key.sym_size(-3);
  if ((rank == 4 && (key.sym_size(0) != query.sym_size(0) ||
                     value.sym_size(0) != query.sym_size(0))) ||
      value.sym_size(-3) != heads || key.sym_size(-2) != value.sym_size(-2) ||
      query.sym_size(-1) != key.sym_size(-1)) {
    return "sizes of query, key and value that do not match";
  }
  if (query.sym_numel() == 0 || key.sym_numel() == 0 ||
      value.sym_numel() == 0) {
    return "empty operands";
  }
  if (query_heads != heads && heads != 1 &&
      (!enable_gqa || query_heads % heads != 0)) {
    return "numbers of heads that do not match";
  }
  if (!mask) {
    return "";
  }
  if (!broadcasts(*mask, query, key.sym_size(-2))) {
    return "a mask that does not broadcast";
  }
  // CPU's math, which alone differentiates masks there, refuses the two.
  if (is_causal && mask->requires_grad()) {
    return "a causal mask and one that needs a gradient";
  }
  return "";
}

// Of CPU's choices flash stands for the fused program, as does "overrideable".
int64_t fused_sdp_choice(const at::Tensor& query,
                         const at::Tensor& key,
                         const at::Tensor& value,
                         const std::optional<at::Tensor>& mask,
                         double dropout,
                         bool is_causal,
                         std::optional<double>,
                         bool enable_gqa) {
  const auto& context = at::globalContext();
  const bool fused =
      context.userEnabledFlashSDP() || context.userEnabledOverrideableSDP();
  const bool math = context.userEnabledMathSDP();
  const auto choice = [](at::SDPBackend backend) {
    return static_cast<int64_t>(backend);
  };
  TORCH_CHECK(fused || math,
              "No viable backend for scaled_dot_product_attention was found. "
              "This is likely due to turning off both the math kernel and the "
              "fused kernels.");
  std::string reason = "it is disabled";
  if (fused) {
    TORCH_CHECK(dropout >= 0 && dropout <= 1,
                "dropout probability has to be between 0 and 1, but got ",
                dropout);
    reason = misfit(query, key, value, mask, is_causal, enable_gqa);
    if (reason.empty()) {
      return choice(at::SDPBackend::overrideable);
    }
  }
  TORCH_CHECK(math,
              "No available kernel. Aborting execution. The fused attention "
              "does not take ",
              reason,
              ", and the math backend is disabled");
  return choice(at::SDPBackend::math);
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
