// SPDX-License-Identifier: Apache-2.0
// Fused attention: ATen's CPU flash kernel, and blocks of plain mathematics
// where that does not take the arguments.
#include <ATen/Parallel.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "sim/executor/native.h"

namespace neuronx::sim {
namespace {

constexpr char kForward[] =
    "aten._scaled_dot_product_fused_attention_overrideable";
constexpr char kBackward[] =
    "aten._scaled_dot_product_fused_attention_overrideable_backward";
// Of the forward's arguments: with dropout there are two more than ATen has.
constexpr size_t kDropout = 4, kSeed = 8;
// Scores at a time: what a core's cache holds.
constexpr int64_t kBlockScores = int64_t{1} << 18;
constexpr int64_t kBlockRows = 64;
constexpr int64_t kGrain = 4096;

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
  uint64_t word(size_t i) const {
    return uint64_t(*tensor(i).const_data_ptr<int64_t>());
  }
};

at::Tensor to_4d(at::Tensor x) {
  while (x.defined() && x.dim() < 4)
    x = x.unsqueeze(0);
  return x;
}

at::Tensor additive(const at::Tensor& mask, const at::Tensor& query) {
  if (!mask.defined() || mask.scalar_type() != at::kBool)
    return mask;
  const at::Tensor none = at::zeros({}, query.options());
  return at::where(mask, none, none.sub(INFINITY));
}

// Operands as [batch, heads, length, width]; 3-D ones are one batch.
struct Inputs {
  at::Tensor query, key, value;
  at::Tensor mask;  // additive; undefined if none
  bool causal;
  double scale, dropout;
  uint64_t seed = 0, offset = 0;

  int64_t group() const { return query.size(1) / key.size(1); }
  int64_t keys() const { return key.size(2); }
};

Inputs read(const Call& call,
            size_t query,
            size_t mask,
            size_t dropout,
            size_t seed,
            size_t scale) {
  Inputs in{to_4d(call.tensor(query)),
            to_4d(call.tensor(query + 1)),
            to_4d(call.tensor(query + 2)),
            {},
            call.flag(dropout + 1),
            0,
            call.number(dropout).value_or(0)};
  in.mask = to_4d(additive(call.tensor(mask), in.query));
  in.scale =
      call.number(scale).value_or(1 / std::sqrt(double(in.query.size(3))));
  if (in.dropout != 0) {
    in.seed = call.word(seed);
    in.offset = call.word(seed + 1);
  }
  return in;
}

bool flash_fits(const Inputs& in) {
  const auto type = in.query.scalar_type();
  return in.dropout == 0 && in.query.numel() > 0 && in.key.numel() > 0 &&
         c10::isFloatingType(type) && in.query.size(3) == in.value.size(3) &&
         (!in.mask.defined() || in.mask.scalar_type() == type ||
          in.mask.scalar_type() == at::kFloat);
}

// Flash reads rows whose elements are adjacent.
at::Tensor adjacent(const at::Tensor& x) {
  return x.stride(-1) == 1 || x.size(-1) == 1 ? x : x.contiguous();
}

std::optional<at::Tensor> optional(const at::Tensor& x) {
  return x.defined() ? std::optional(x) : std::nullopt;
}

// Half types compute in float32.
at::Tensor wide(const at::Tensor& x) {
  return x.to(at::kFloat);
}

// Rows [begin, end) of one query head of one batch.
struct Block {
  int64_t batch, head, begin, end;
};

at::Tensor rows(const at::Tensor& x, const Block& at) {
  return x.select(0, at.batch).select(0, at.head).slice(0, at.begin, at.end);
}

// The same of a tensor that may be broadcast: rows of size 1 stay.
at::Tensor broadcast_rows(const at::Tensor& x, const Block& at) {
  const at::Tensor head = x.select(0, x.size(0) == 1 ? 0 : at.batch)
                              .select(0, x.size(1) == 1 ? 0 : at.head);
  return head.size(0) == 1 ? head : head.slice(0, at.begin, at.end);
}

// Keys that a causal mask leaves to the rows of the block.
int64_t visible(const Inputs& in, const Block& at) {
  return in.causal ? std::min(in.keys(), at.end) : in.keys();
}

// Calls `f` for each block, with its key head's float32 key and value. Key
// heads run in parallel if `apart`: nothing but theirs is written.
template <typename F>
void for_blocks(const Inputs& in, bool apart, const F& f) {
  const int64_t length = in.query.size(2), heads = in.key.size(1);
  const int64_t count = std::clamp<int64_t>(
      std::max(kBlockScores / in.keys(), kBlockRows), 1, length);
  const auto run = [&](int64_t begin, int64_t end) {
    c10::InferenceMode guard;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t b = i / heads, k = i % heads;
      const at::Tensor key = wide(in.key.select(0, b).select(0, k));
      const at::Tensor value = wide(in.value.select(0, b).select(0, k));
      for (int64_t h = k * in.group(); h < (k + 1) * in.group(); ++h)
        for (int64_t r = 0; r < length; r += count)
          f(Block{b, h, r, std::min(r + count, length)}, key, value);
    }
  };
  const int64_t all = in.query.size(0) * heads;
  if (apart)
    at::parallel_for(0, all, 1, run);
  else
    run(0, all);
}

// [rows, visible keys], scaled and masked.
at::Tensor scores(const Inputs& in,
                  const Block& at,
                  const at::Tensor& query,
                  const at::Tensor& key) {
  const int64_t keys = visible(in, at);
  at::Tensor s = query.mul(in.scale).mm(key.slice(0, 0, keys).t());
  if (in.mask.defined()) {
    const at::Tensor part = broadcast_rows(in.mask, at);
    s.add_(wide(part.size(1) == 1 ? part : part.slice(1, 0, keys)));
  }
  if (in.causal) {
    const at::Tensor row = at::arange(at.begin, at.end).unsqueeze(1);
    s.masked_fill_(at::arange(keys).gt(row), -INFINITY);
  }
  return s;
}

// What dropout does to the scores of a block: score i of all rows by all keys
// has random word i (see lowering/attention.cpp).
class Dropout {
 public:
  Dropout(const Inputs& in, const Block& at)
      : rate_(in.dropout), keys_(in.keys()) {
    if (rate_ == 0)
      return;
    const auto& q = in.query;
    const int64_t row = (at.batch * q.size(1) + at.head) * q.size(2) + at.begin;
    shift_ = row * keys_ % 4;
    const int64_t count = (at.end - at.begin) * keys_ + shift_;
    words_ = at::empty({count}, at::kInt);
    philox(in.seed,
           in.offset + uint64_t(row * keys_ / 4),
           static_cast<uint32_t*>(words_.mutable_data_ptr()),
           count);
  }

  // Zeroes what is dropped, scales the rest. float32[rows, visible keys].
  at::Tensor& apply(at::Tensor& p) const {
    if (rate_ == 0)
      return p;
    // u >= rate for u = (word >> 8) * 2^-24, in integers.
    const auto least = uint32_t(std::ceil(double(float(rate_)) * 0x1p24));
    const float scale = rate_ == 1 ? 0 : float(1 / (1 - rate_));
    const auto* words =
        static_cast<const uint32_t*>(words_.const_data_ptr()) + shift_;
    float* x = p.mutable_data_ptr<float>();
    const int64_t n = p.size(1);
    at::parallel_for(
        0, p.size(0), kGrain / keys_ + 1, [&](int64_t begin, int64_t end) {
          for (int64_t r = begin; r < end; ++r)
            for (int64_t c = 0; c < n; ++c)
              x[r * n + c] = (words[r * keys_ + c] >> 8) >= least
                                 ? x[r * n + c] * scale
                                 : 0;
        });
    return p;
  }

 private:
  double rate_;
  int64_t keys_, shift_ = 0;
  at::Tensor words_;
};

Tensors blocks(const Inputs& in) {
  const auto& q = in.query;
  at::Tensor output = at::empty(
      {q.size(0), q.size(1), q.size(2), in.value.size(3)}, q.options());
  at::Tensor log_sum = at::empty({q.size(0), q.size(1), q.size(2)}, at::kFloat);
  for_blocks(
      in,
      true,
      [&](const Block& at, const at::Tensor& key, const at::Tensor& value) {
        at::Tensor p = scores(in, at, wide(rows(q, at)), key);
        at::Tensor top = p.amax(-1, true);
        const at::Tensor dead = top.eq(-INFINITY);
        top.masked_fill_(dead, 0);
        p.sub_(top).exp_();
        const at::Tensor total = p.sum(-1, true).masked_fill_(dead, 1);
        Dropout(in, at).apply(p);
        rows(output, at).copy_(p.mm(value.slice(0, 0, p.size(1))).div_(total));
        rows(log_sum.unsqueeze(-1), at).copy_(top.add_(total.log()));
      });
  return {output, log_sum};
}

Tensors blocks_backward(const Inputs& in,
                        const at::Tensor& grad,
                        const at::Tensor& out,
                        const at::Tensor& log_sum,
                        at::Tensor grad_mask) {
  const auto type = in.query.scalar_type();
  const auto wide_zeros = [](const at::Tensor& x) {
    return at::zeros(x.sizes(), x.options().dtype(at::kFloat));
  };
  at::Tensor grad_q = at::empty(in.query.sizes(), in.query.options());
  at::Tensor grad_k = wide_zeros(in.key), grad_v = wide_zeros(in.value);
  // The mask's gradient may sum over heads.
  for_blocks(
      in,
      !grad_mask.defined(),
      [&](const Block& at, const at::Tensor& key, const at::Tensor& value) {
        const at::Tensor q = wide(rows(in.query, at)), g = wide(rows(grad, at));
        at::Tensor p = scores(in, at, q, key);
        p.sub_(rows(log_sum.unsqueeze(-1), at)).exp_();
        const int64_t keys = p.size(1), head = at.head / in.group();
        at::Tensor s = g.mm(value.slice(0, 0, keys).t());
        const Dropout dropout(in, at);
        dropout.apply(s);
        at::Tensor kept = in.dropout == 0 ? p : p.clone();
        dropout.apply(kept);
        const auto part = [&](at::Tensor& sum) {
          return sum.select(0, at.batch).select(0, head).slice(0, 0, keys);
        };
        part(grad_v).addmm_(kept.t(), g);
        s.sub_(g.mul(wide(rows(out, at))).sum(-1, true)).mul_(p);
        if (grad_mask.defined()) {
          at::Tensor to = broadcast_rows(grad_mask, at);
          to = to.size(1) == 1 ? to : to.slice(1, 0, keys);
          to.add_(s.sum_to_size(to.sizes()));
        }
        part(grad_k).addmm_(s.t(), q, 1, in.scale);
        rows(grad_q, at).copy_(s.mm(key.slice(0, 0, keys)).mul_(in.scale));
      });
  return {grad_q, grad_k.to(type), grad_v.to(type)};
}

}  // namespace

bool attention_fits(const ir::Operation& op) {
  std::string name = op.name;
  if (name.ends_with(".default"))
    name.resize(name.size() - 8);
  if (name == kBackward)
    return true;
  if (name != kForward)
    return false;
  if (op.arguments.size() <= kDropout || op.arguments.size() > kSeed + 1)
    return true;
  const auto* rate = std::get_if<double>(&op.arguments[kDropout]);
  const auto* whole = std::get_if<int64_t>(&op.arguments[kDropout]);
  return (rate && *rate == 0) || (whole && *whole == 0);
}

Tensors attention(const ir::Operation& op, const Tensors& operands) {
  const Call call{op, operands};
  const Inputs in = read(call, 0, 3, kDropout, kSeed, 7);
  at::Tensor output, log_sum;
  if (flash_fits(in)) {
    std::tie(output, log_sum) =
        at::_scaled_dot_product_flash_attention_for_cpu(adjacent(in.query),
                                                        adjacent(in.key),
                                                        adjacent(in.value),
                                                        0,
                                                        in.causal,
                                                        optional(in.mask),
                                                        in.scale);
  } else {
    const Tensors results = blocks(in);
    output = results[0];
    log_sum = results[1];
  }
  if (call.tensor(0).dim() == 3)
    output = output.squeeze(0);
  at::Tensor seed = at::zeros({}, at::kLong), offset = seed;
  if (in.dropout != 0) {
    seed = call.tensor(kSeed);
    offset = call.tensor(kSeed + 1);
  }
  return {output, log_sum.to(at::kFloat), {}, {}, seed, offset, {}};
}

Tensors attention_backward(const ir::Operation& op, const Tensors& operands) {
  const Call call{op, operands};
  const Inputs in = read(call, 1, 4, 12, 14, 16);
  const at::Tensor grad = to_4d(call.tensor(0)), out = to_4d(call.tensor(6)),
                   log_sum = call.tensor(7), mask = call.tensor(4);
  const auto& needed = std::get<std::vector<int64_t>>(op.arguments.at(5));
  const bool needs_mask = needed.size() > 3 && needed[3] && mask.defined();
  Tensors grads;
  at::Tensor grad_mask;
  if (!needs_mask && flash_fits(in)) {
    const auto [q, k, v] =
        at::_scaled_dot_product_flash_attention_for_cpu_backward(
            adjacent(grad),
            adjacent(in.query),
            adjacent(in.key),
            adjacent(in.value),
            adjacent(out),
            log_sum,
            0,
            in.causal,
            optional(in.mask),
            in.scale);
    grads = {q, k, v};
  } else {
    if (needs_mask)
      grad_mask = at::zeros(in.mask.sizes(), at::kFloat);
    grads = blocks_backward(in, grad, out, log_sum, grad_mask);
  }
  for (size_t i = 0; i < grads.size(); ++i)
    grads[i] = grads[i].reshape(call.tensor(1 + i).sizes());
  if (needs_mask)
    grad_mask = grad_mask.reshape(mask.sizes()).to(mask.scalar_type());
  else if (mask.defined())
    grad_mask = at::zeros({}, mask.options()).expand(mask.sizes());
  grads.push_back(grad_mask);
  return grads;
}

}  // namespace neuronx::sim
