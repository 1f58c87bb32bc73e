// SPDX-License-Identifier: Apache-2.0
// Fused attention: ATen's CPU flash kernel, plain mathematics where that does
// not take the arguments.
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <limits>
#include <optional>

#include "sim/executor/native.h"

namespace neuronx::sim {
namespace {

constexpr char kForward[] =
    "aten._scaled_dot_product_fused_attention_overrideable";
constexpr char kBackward[] =
    "aten._scaled_dot_product_fused_attention_overrideable_backward";

// The arguments by schema position.
struct Call {
  const ir::Operation& op;
  const Tensors& operands;

  bool has(size_t i) const {
    return i < op.arguments.size() &&
           !std::holds_alternative<std::monostate>(op.arguments[i]);
  }
  at::Tensor tensor(size_t i) const {
    if (!has(i))
      return {};
    return operands.at(std::get<ir::Operand>(op.arguments[i]).index);
  }
  bool flag(size_t i) const {
    return has(i) && std::get<bool>(op.arguments[i]);
  }
  std::optional<double> number(size_t i) const {
    if (!has(i))
      return std::nullopt;
    if (const auto* v = std::get_if<double>(&op.arguments[i]))
      return *v;
    if (const auto* v = std::get_if<int64_t>(&op.arguments[i]))
      return double(*v);
    return tensor(i).item().toDouble();
  }
};

struct Inputs {
  at::Tensor query, key, value;
  at::Tensor mask;  // additive, of the query's dtype; undefined if none
  bool causal;
  std::optional<double> scale;

  double factor() const {
    return scale.value_or(1.0 / std::sqrt(double(query.size(-1))));
  }
};

at::Tensor additive(const at::Tensor& mask, const at::Tensor& query) {
  if (!mask.defined() || mask.numel() == 0)
    return {};
  if (mask.scalar_type() != at::kBool)
    return mask;
  const at::Tensor none = at::zeros({}, query.options());
  return at::where(mask, none, none.sub(INFINITY));
}

bool flash_fits(const Inputs& in) {
  const auto& q = in.query;
  const auto type = q.scalar_type();
  if (q.dim() != 4 || q.numel() == 0 || in.key.numel() == 0 ||
      !c10::isFloatingType(type) || q.size(1) != in.key.size(1) ||
      q.size(3) != in.value.size(3) || q.size(3) != in.key.size(3))
    return false;
  if (!in.mask.defined())
    return true;
  return in.mask.dim() == 4 &&
         (in.mask.scalar_type() == type || in.mask.scalar_type() == at::kFloat);
}

std::optional<at::Tensor> optional(const at::Tensor& x) {
  return x.defined() ? std::optional(x) : std::nullopt;
}

// Broadcast over batch and heads as 4-D, which is what flash takes.
at::Tensor to_4d(at::Tensor mask) {
  while (mask.defined() && mask.dim() < 4)
    mask = mask.unsqueeze(0);
  return mask;
}

// Half types compute in float32.
at::Tensor wide(const at::Tensor& x) {
  return c10::isReducedFloatingType(x.scalar_type()) ? x.to(at::kFloat) : x;
}

at::Tensor scores(const Inputs& in) {
  at::Tensor s = at::matmul(wide(in.query), wide(in.key).transpose(-2, -1))
                     .mul(in.factor());
  if (in.mask.defined())
    s = s.add(wide(in.mask));
  if (in.causal) {
    const at::Tensor seen =
        at::ones({s.size(-2), s.size(-1)}, s.options().dtype(at::kBool)).tril();
    s = s.masked_fill(seen.logical_not(),
                      -std::numeric_limits<double>::infinity());
  }
  return s;
}

// softmax with rows of zeros where everything is masked.
at::Tensor weights(const at::Tensor& s, const at::Tensor& log_sum) {
  const at::Tensor p = s.sub(log_sum.unsqueeze(-1)).exp();
  return at::where(p.isnan(), at::zeros({}, p.options()), p);
}

Inputs inputs(const Call& call, size_t first, size_t causal, size_t scale) {
  Inputs in{call.tensor(first),
            call.tensor(first + 1),
            call.tensor(first + 2),
            {},
            call.flag(causal),
            call.number(scale)};
  in.mask = to_4d(additive(call.tensor(first + 3), in.query));
  return in;
}

// The bias' gradient is the scores', summed where it was broadcast.
at::Tensor sum_to(at::Tensor x, const at::Tensor& like) {
  while (x.dim() > like.dim())
    x = x.sum(0);
  for (int64_t d = 0; d < x.dim(); ++d)
    if (like.size(d) == 1 && x.size(d) != 1)
      x = x.sum(d, true);
  return x.to(like.scalar_type());
}

}  // namespace

bool attention_fits(const ir::Operation& op) {
  std::string name = op.name;
  if (name.ends_with(".default"))
    name.resize(name.size() - 8);
  const bool backward = name == kBackward;
  const size_t dropout = backward ? 12 : 4;
  if (!backward && name != kForward)
    return false;
  if (dropout >= op.arguments.size())
    return !backward;
  const auto* rate = std::get_if<double>(&op.arguments[dropout]);
  const auto* whole = std::get_if<int64_t>(&op.arguments[dropout]);
  return (rate && *rate == 0) || (whole && *whole == 0);
}

Tensors attention(const ir::Operation& op, const Tensors& operands) {
  const Inputs in = inputs({op, operands}, 0, 5, 7);
  at::Tensor output, log_sum;
  if (flash_fits(in)) {
    std::tie(output, log_sum) = at::_scaled_dot_product_flash_attention_for_cpu(
        in.query, in.key, in.value, 0, in.causal, optional(in.mask), in.scale);
  } else {
    const at::Tensor s = scores(in);
    log_sum = at::logsumexp(s, {-1});
    output = at::matmul(weights(s, log_sum), wide(in.value))
                 .to(in.query.scalar_type());
  }
  const at::Tensor seed = at::zeros({}, at::kLong);
  return {output, log_sum.to(at::kFloat), {}, {}, seed, seed, {}};
}

Tensors attention_backward(const ir::Operation& op, const Tensors& operands) {
  const Call call{op, operands};
  const Inputs in = inputs(call, 1, 13, 16);
  const at::Tensor grad = call.tensor(0), out = call.tensor(6),
                   log_sum = call.tensor(7), bias = call.tensor(4);
  const auto& needed = std::get<std::vector<int64_t>>(op.arguments.at(5));
  const bool bias_grad = needed.size() > 3 && needed[3] && bias.defined();
  if (!bias_grad && flash_fits(in)) {
    const auto [q, k, v] =
        at::_scaled_dot_product_flash_attention_for_cpu_backward(
            grad,
            in.query,
            in.key,
            in.value,
            out,
            log_sum,
            0,
            in.causal,
            optional(in.mask),
            in.scale);
    return {q, k, v, {}};
  }
  const auto type = in.query.scalar_type();
  const at::Tensor p = weights(scores(in), log_sum), g = wide(grad);
  const at::Tensor inner = g.mul(wide(out)).sum(-1, true);
  const at::Tensor s =
      p.mul(at::matmul(g, wide(in.value).transpose(-2, -1)).sub(inner));
  return {
      at::matmul(s, wide(in.key)).mul(in.factor()).to(type),
      at::matmul(s.transpose(-2, -1), wide(in.query)).mul(in.factor()).to(type),
      at::matmul(p.transpose(-2, -1), g).to(type),
      bias_grad ? sum_to(s, bias) : at::Tensor()};
}

}  // namespace neuronx::sim
