// SPDX-License-Identifier: Apache-2.0
// The inference path of nn.MultiheadAttention and nn.TransformerEncoderLayer:
// operators of their own that CPU and CUDA implement.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <array>
#include <cmath>
#include <limits>

namespace neuronx::aten {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

// What Python's merge_masks says of its mask, in which true hides.
enum MaskType : int64_t {
  kSource = 0,   // [queries, keys]
  kPadding = 1,  // [batch, keys]
};

at::Tensor hidden(const at::Tensor& mask, std::optional<int64_t> type) {
  const at::Tensor flags = mask.to(at::kBool);
  if (type == kPadding && flags.dim() == 2) {
    return flags.unsqueeze(1).unsqueeze(1);
  }
  return flags;
}

void check(const at::Tensor& query,
           const at::Tensor& key,
           const at::Tensor& value,
           int64_t width,
           int64_t heads,
           const at::Tensor& weight,
           const at::Tensor& bias) {
  for (const auto& [name, x] :
       {std::pair("query", query), {"key", key}, {"value", value}}) {
    TORCH_CHECK(
        x.dim() == 3, "expected 3-D `", name, "`, got ", x.dim(), "-D tensor");
  }
  TORCH_CHECK(query.size(2) == width,
              "passed-in embed_dim ",
              width,
              " didn't match last dim of query ",
              query.size(2));
  TORCH_CHECK(query.sizes() == key.sizes() && key.sizes() == value.sizes(),
              "expected `query`/`key`/`value` shapes to match");
  TORCH_CHECK(weight.dim() == 2 && weight.size(0) == 3 * width &&
                  weight.size(1) == width,
              "expected `qkv_weight` of sizes [3 * embed_dim, embed_dim], got ",
              weight.sizes());
  TORCH_CHECK(bias.dim() == 1 && bias.size(0) == 3 * width,
              "expected `qkv_bias` of size 3 * embed_dim, got ",
              bias.sizes());
  TORCH_CHECK(width % heads == 0,
              "`embed_dim` must divide evenly by `num_heads`");
}

// [batch, heads, length, width] views of the projections.
std::array<at::Tensor, 3> project(const at::Tensor& query,
                                  const at::Tensor& key,
                                  const at::Tensor& value,
                                  int64_t heads,
                                  const at::Tensor& weight,
                                  const at::Tensor& bias) {
  const int64_t width = query.size(2) / heads;
  std::array<at::Tensor, 3> parts;
  if (query.is_same(key) && key.is_same(value)) {
    const at::Tensor all =
        at::linear(query, weight, bias).unflatten(2, {3, heads, width});
    for (int64_t i = 0; i < 3; ++i) {
      parts[i] = all.select(2, i).transpose(1, 2);
    }
    return parts;
  }
  const std::array<at::Tensor, 3> inputs{query, key, value};
  const auto weights = weight.chunk(3, 0), biases = bias.chunk(3, 0);
  for (int64_t i = 0; i < 3; ++i) {
    parts[i] = at::linear(inputs[i], weights[i], biases[i])
                   .unflatten(2, {heads, width})
                   .transpose(1, 2);
  }
  return parts;
}

std::tuple<at::Tensor, at::Tensor> native_multi_head_attention(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    int64_t embed_dim,
    int64_t num_head,
    const at::Tensor& qkv_weight,
    const at::Tensor& qkv_bias,
    const at::Tensor& proj_weight,
    const at::Tensor& proj_bias,
    const OptionalTensor& mask,
    bool need_weights,
    bool average_attn_weights,
    std::optional<int64_t> mask_type) {
  check(query, key, value, embed_dim, num_head, qkv_weight, qkv_bias);
  if (query.numel() == 0) {
    return {at::empty_like(query), at::Tensor()};
  }
  const auto [q, k, v] =
      project(query, key, value, num_head, qkv_weight, qkv_bias);
  const OptionalTensor away =
      mask ? OptionalTensor(hidden(*mask, mask_type)) : std::nullopt;
  at::Tensor context, weights;
  if (need_weights) {
    at::Tensor scores =
        at::matmul(q.mul(1 / std::sqrt(double(q.size(3)))), k.transpose(2, 3));
    if (away) {
      scores =
          scores.masked_fill(*away, -std::numeric_limits<double>::infinity());
    }
    weights = at::softmax(scores, -1);
    context = at::matmul(weights, v);
    if (average_attn_weights) {
      weights = weights.mean(1);
    }
  } else {
    // A row that sees no key gives 0, as in training; CPU's kernel gives NaN.
    context = at::scaled_dot_product_attention(
        q, k, v, away ? OptionalTensor(away->logical_not()) : std::nullopt);
  }
  return {
      at::linear(context.transpose(1, 2).flatten(2), proj_weight, proj_bias),
      weights};
}

at::Tensor transformer_encoder_layer(const at::Tensor& source,
                                     int64_t embed_dim,
                                     int64_t num_heads,
                                     const at::Tensor& qkv_weight,
                                     const at::Tensor& qkv_bias,
                                     const at::Tensor& proj_weight,
                                     const at::Tensor& proj_bias,
                                     bool use_gelu,
                                     bool norm_first,
                                     double eps,
                                     const at::Tensor& norm_weight_1,
                                     const at::Tensor& norm_bias_1,
                                     const at::Tensor& norm_weight_2,
                                     const at::Tensor& norm_bias_2,
                                     const at::Tensor& ffn_weight_1,
                                     const at::Tensor& ffn_bias_1,
                                     const at::Tensor& ffn_weight_2,
                                     const at::Tensor& ffn_bias_2,
                                     const OptionalTensor& mask,
                                     std::optional<int64_t> mask_type) {
  const auto norm_1 = [&](const at::Tensor& x) {
    return at::layer_norm(x, {embed_dim}, norm_weight_1, norm_bias_1, eps);
  };
  const auto norm_2 = [&](const at::Tensor& x) {
    return at::layer_norm(x, {embed_dim}, norm_weight_2, norm_bias_2, eps);
  };
  const auto attend = [&](const at::Tensor& x) {
    return std::get<0>(native_multi_head_attention(x,
                                                   x,
                                                   x,
                                                   embed_dim,
                                                   num_heads,
                                                   qkv_weight,
                                                   qkv_bias,
                                                   proj_weight,
                                                   proj_bias,
                                                   mask,
                                                   false,
                                                   true,
                                                   mask_type));
  };
  const auto feed_forward = [&](const at::Tensor& x) {
    const at::Tensor inner = at::linear(x, ffn_weight_1, ffn_bias_1);
    return at::linear(
        use_gelu ? at::gelu(inner) : at::relu(inner), ffn_weight_2, ffn_bias_2);
  };
  if (norm_first) {
    const at::Tensor x = source.add(attend(norm_1(source)));
    return x.add(feed_forward(norm_2(x)));
  }
  const at::Tensor x = norm_1(source.add(attend(source)));
  return norm_2(x.add(feed_forward(x)));
}

// nn.TransformerEncoder asks whether it may pack padded sequences into a
// nested tensor, which the device does not have.
bool left_aligned(const at::Tensor&, const at::Tensor&) {
  return false;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_native_multi_head_attention", &native_multi_head_attention);
  m.impl("_transformer_encoder_layer_fwd", &transformer_encoder_layer);
  m.impl("_nested_tensor_from_mask_left_aligned", &left_aligned);
}

}  // namespace neuronx::aten
