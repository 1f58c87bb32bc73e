// SPDX-License-Identifier: Apache-2.0
// Fused scaled dot product attention: [batch, heads, length, width].
#include <cmath>

#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

using ir::Builder;
using ir::Compare;
using ir::Reduce;

Value batched(Builder& b, Value a, Value c, bool transpose_right) {
  ir::DotDimensions dims;
  dims.lhs_batch = dims.rhs_batch = {0, 1};
  dims.lhs_contract = {3};
  dims.rhs_contract = {transpose_right ? 3 : 2};
  return b.dot_general(a, c, dims, opmath(b.dtype(a)));
}

Value swap_last(Builder& b, Value x) {
  return b.transpose(x, {0, 1, 3, 2});
}

double scale(Op& op, int i, int64_t width) {
  return op.has(i) ? op.number(i) : 1 / std::sqrt(static_cast<double>(width));
}

// Scores in opmath, masked.
Value scores(Op& op, Value q, Value k, int bias, bool causal, double factor) {
  auto& b = op.b;
  const DType dtype = opmath(b.dtype(q));
  Value s = batched(b, q, k, true);
  s = b.mul(s, fill_like(b, s, factor));
  const Shape shape = b.shape(s);
  if (causal) {
    const Value keep = b.compare(Compare::GE,
                                 b.iota({DType::Int32, shape}, 2),
                                 b.iota({DType::Int32, shape}, 3));
    s = b.select(keep, s, fill_like(b, s, -INFINITY));
  }
  if (op.has(bias)) {
    s = b.add(s, b.broadcast(op.in(bias, dtype), shape));
  }
  return s;
}

Values forward(Op& op) {
  // query, key, value, attn_bias, dropout, is_causal, debug, scale
  auto& b = op.b;
  if (op.number(4) != 0) {
    throw Unsupported("attention with dropout");
  }
  const Value q = op.in(0), k = op.in(1), v = op.in(2);
  const Value s = scores(op, q, k, 3, op.flag(5), scale(op, 7, b.shape(q)[3]));
  const Shape shape = b.shape(s);
  const Value top = b.reduce(s, Reduce::Max, {3});
  // A fully masked row is all -inf: its output is 0, as in CPU's kernel.
  const Value dead = b.compare(Compare::EQ, top, fill_like(b, top, -INFINITY));
  const Value safe = b.select(dead, fill_like(b, top, 0), top);
  const Value e = b.exp(b.sub(s, spread(b, safe, shape, {3})));
  const Value total = b.reduce(e, Reduce::Add, {3});
  const Value divisor = b.select(dead, fill_like(b, total, 1), total);
  const Value p = b.div(e, spread(b, divisor, shape, {3}));
  const Value out = batched(b, p, b.convert(v, b.dtype(p)), false);
  Values results(op.result_count());
  for (int i = 2; i < op.result_count(); ++i) {
    results[i] = b.constant(op.result(i).dtype, 0, op.result(i).shape);
  }
  results[0] = out;
  results[1] = b.reshape(b.add(safe, b.log(divisor)), op.result(1).shape);
  return results;
}

Values backward(Op& op) {
  // grad_out, query, key, value, attn_bias, grad_input_mask, out, logsumexp,
  // cum_seq_q, cum_seq_k, max_q, max_k, dropout, is_causal, seed, offset,
  // scale
  auto& b = op.b;
  if (op.number(12) != 0) {
    throw Unsupported("attention with dropout");
  }
  const DType dtype = opmath(op.type(1).dtype);
  const Value grad = op.in(0, dtype), q = op.in(1, dtype), k = op.in(2, dtype),
              v = op.in(3, dtype), out = op.in(6, dtype);
  const double factor = scale(op, 16, b.shape(q)[3]);
  const Value s = scores(op, q, k, 4, op.flag(13), factor);
  const Shape shape = b.shape(s);
  const Value lse = b.reshape(op.in(7, dtype), {shape[0], shape[1], shape[2]});
  const Value p = b.exp(b.sub(s, spread(b, lse, shape, {3})));
  const Value grad_v = batched(b, swap_last(b, p), grad, false);
  const Value grad_p = batched(b, grad, v, true);
  const Value delta = b.reduce(b.mul(grad, out), Reduce::Add, {3});
  const Value grad_s = b.mul(p, b.sub(grad_p, spread(b, delta, shape, {3})));
  const Value scaled = b.mul(grad_s, fill_like(b, grad_s, factor));
  Value grad_bias;
  if (op.has(4)) {
    // Summed over what the bias was broadcast along.
    const Shape bias = b.shape(op.in(4));
    Shape dims, kept;
    for (int64_t d = 0; d < 4; ++d) {
      const int64_t own = d + static_cast<int64_t>(bias.size()) - 4;
      if (own < 0 || (bias[own] == 1 && shape[d] != 1)) {
        dims.push_back(d);
      }
    }
    grad_bias = dims.empty() ? grad_s : b.reduce(grad_s, Reduce::Add, dims);
    grad_bias = b.reshape(grad_bias, bias);
  }
  return {batched(b, scaled, k, false),
          batched(b, swap_last(b, scaled), q, false),
          grad_v,
          grad_bias};
}

const bool registered = [] {
  lower("aten::_scaled_dot_product_fused_attention_overrideable", &forward);
  lower("aten::_scaled_dot_product_fused_attention_overrideable_backward",
        &backward);
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
