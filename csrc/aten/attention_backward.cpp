// SPDX-License-Identifier: Apache-2.0
// The gradient of fused attention where it has to be differentiated once more:
// the same mathematics in differentiable operators, with the whole score
// matrix in memory.
#include <ATen/ExpandUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_safe_softmax.h>
#include <ATen/ops/_scaled_dot_product_fused_attention_overrideable_backward_ops.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <array>
#include <cmath>
#include <limits>

namespace neuronx::aten {
namespace {

using Backward =
    at::_ops::_scaled_dot_product_fused_attention_overrideable_backward;
using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// [batch, key heads, queries' heads of each, length, width].
at::Tensor by_key_head(const at::Tensor& x, int64_t heads) {
  const at::Tensor y = (x.dim() == 3 ? x.unsqueeze(0) : x).to(at::kFloat);
  return y.unflatten(1, {heads, y.size(1) / heads});
}

// Dropout's mask, from the gradient of the value at constant probabilities:
// the random numbers are the program's own.
at::Tensor kept(const at::Tensor& query,
                const at::Tensor& key,
                double dropout,
                const at::Tensor& seed,
                const at::Tensor& offset) {
  at::AutoDispatchBelowADInplaceOrView guard;
  const int64_t batch = query.size(0), heads = query.size(1),
                queries = query.size(2), keys = key.size(2);
  const auto options = query.options().dtype(at::kFloat);
  const auto zeros = [&](int64_t length, int64_t width) {
    return at::zeros({batch, heads, length, width}, options);
  };
  const at::Tensor one_hot = at::eye(queries, options)
                                 .expand({batch, heads, queries, queries})
                                 .contiguous();
  const auto gradients = Backward::call(
      one_hot,
      zeros(queries, 1),
      zeros(keys, 1),
      zeros(keys, queries),
      at::Tensor(),
      {false, false, true, false},
      zeros(queries, queries),
      at::full({batch, heads, queries}, std::log(double(keys)), options),
      at::Tensor(),
      at::Tensor(),
      queries,
      keys,
      dropout,
      false,
      seed,
      offset,
      1.0);
  return std::get<2>(gradients).transpose(2, 3).gt(0);
}

Gradients differentiable(const at::Tensor& grad_out,
                         const at::Tensor& query,
                         const at::Tensor& key,
                         const at::Tensor& value,
                         const at::Tensor& bias,
                         std::array<bool, 4> needed,
                         double dropout,
                         bool is_causal,
                         const at::Tensor& seed,
                         const at::Tensor& offset,
                         std::optional<double> scale) {
  const int64_t heads = key.size(-3);
  const double factor = scale.value_or(1 / std::sqrt(double(query.size(-1))));
  const at::Tensor q = by_key_head(query, heads), k = by_key_head(key, heads),
                   v = by_key_head(value, heads),
                   g = by_key_head(grad_out, heads);
  const auto by_head = [&](const at::Tensor& x) { return x.flatten(1, 2); };
  at::Tensor s = by_head(at::matmul(q, k.transpose(-2, -1)).mul(factor));
  if (bias.defined()) {
    s = s.add(bias);
  }
  if (is_causal) {
    const at::Tensor seen =
        at::ones({s.size(-2), s.size(-1)}, s.options().dtype(at::kBool)).tril();
    s = s.masked_fill(seen.logical_not(), kMinusInfinity);
  }
  const at::Tensor p = at::_safe_softmax(s, -1);
  at::Tensor scaled;  // what dropout multiplies the probabilities with
  if (dropout != 0) {
    scaled = kept(by_head(q), s.transpose(-2, -1), dropout, seed, offset)
                 .to(at::kFloat)
                 .mul(dropout == 1 ? 0 : 1 / (1 - dropout));
  }
  const auto drop = [&](const at::Tensor& x) {
    return scaled.defined() ? x.mul(scaled) : x;
  };
  const auto grouped = [&](const at::Tensor& x) {
    return x.unflatten(1, {heads, q.size(2)});
  };
  const at::Tensor grad_p = drop(by_head(at::matmul(g, v.transpose(-2, -1))));
  const at::Tensor grad_s =
      p.mul(grad_p.sub(p.mul(grad_p).sum(-1, /*keepdim=*/true)));
  const at::Tensor ds = grouped(grad_s).mul(factor);
  const auto as = [](const at::Tensor& x, const at::Tensor& like) {
    return x.reshape(like.sizes()).to(like.scalar_type());
  };
  Gradients result;
  if (needed[0]) {
    std::get<0>(result) = as(at::matmul(ds, k), query);
  }
  if (needed[1]) {
    std::get<1>(result) = as(at::matmul(ds.transpose(-2, -1), q).sum(2), key);
  }
  if (needed[2]) {
    std::get<2>(result) =
        as(at::matmul(grouped(drop(p)).transpose(-2, -1), g).sum(2), value);
  }
  if (needed[3] && bias.defined()) {
    std::get<3>(result) = as(at::sum_to(grad_s, bias.sizes()), bias);
  }
  return result;
}

Gradients backward(c10::DispatchKeySet keys,
                   const at::Tensor& grad_out,
                   const at::Tensor& query,
                   const at::Tensor& key,
                   const at::Tensor& value,
                   const at::Tensor& bias,
                   std::array<bool, 4> needed,
                   const at::Tensor& out,
                   const at::Tensor& log_sum,
                   const at::Tensor& cum_seq_q,
                   const at::Tensor& cum_seq_k,
                   c10::SymInt max_q,
                   c10::SymInt max_k,
                   double dropout,
                   bool is_causal,
                   const at::Tensor& seed,
                   const at::Tensor& offset,
                   std::optional<double> scale) {
  bool differentiated = false;
  for (const at::Tensor& x : {grad_out, query, key, value, bias}) {
    differentiated |= x.defined() && x.requires_grad();
  }
  if (at::GradMode::is_enabled() && differentiated) {
    return differentiable(grad_out,
                          query,
                          key,
                          value,
                          bias,
                          needed,
                          dropout,
                          is_causal,
                          seed,
                          offset,
                          scale);
  }
  at::AutoDispatchBelowADInplaceOrView guard;
  return Backward::redispatch(keys & c10::after_autograd_keyset,
                              grad_out,
                              query,
                              key,
                              value,
                              bias,
                              needed,
                              out,
                              log_sum,
                              cum_seq_q,
                              cum_seq_k,
                              std::move(max_q),
                              std::move(max_k),
                              dropout,
                              is_causal,
                              seed,
                              offset,
                              scale);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward",
         &backward);
}

}  // namespace neuronx::aten
