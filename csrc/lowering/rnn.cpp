// SPDX-License-Identifier: Apache-2.0
// Cells of LSTM and GRU: what follows the two matrix products of a step. The
// workspaces hold what the backward needs, laid out as CUDA's kernels do
// (aten/src/ATen/native/cuda/RNN.cu); only these operators read them.
#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

using ir::Builder;

Value sigmoid(Builder& b, Value x) {
  return b.unary("logistic", x);
}

Value complement_of(Builder& b, Value x) {
  return b.sub(fill_like(b, x, 1), x);
}

// The derivative of a sigmoid and of a tanh by their results.
Value sigmoid_slope(Builder& b, Value y) {
  return b.mul(y, complement_of(b, y));
}
Value tanh_slope(Builder& b, Value y) {
  return complement_of(b, b.mul(y, y));
}

// The k-th of the equal parts of x [batch, parts * width].
Value part(Builder& b, Value x, int64_t k, int64_t width) {
  return narrow(b, x, 1, k * width, (k + 1) * width);
}

// Gates argument i plus its bias, argument `bias`.
Value gates(Op& op, int i, int bias, DType dtype) {
  const Value x = op.in(i, dtype);
  if (!op.has(bias)) {
    return x;
  }
  return op.b.add(x, op.b.broadcast(op.in(bias, dtype), op.b.shape(x)));
}

Values lstm(Op& op) {
  // input_gates, hidden_gates, cx, biases -> hy, cy, workspace
  auto& b = op.b;
  const DType dtype = opmath(op.type(0).dtype);
  const Value all = b.add(gates(op, 0, 3, dtype), gates(op, 1, 4, dtype));
  const Value cx = op.in(2, dtype);
  const int64_t width = b.shape(cx)[1];
  const Value in = sigmoid(b, part(b, all, 0, width));
  const Value forget = sigmoid(b, part(b, all, 1, width));
  const Value cell = b.unary("tanh", part(b, all, 2, width));
  const Value out = sigmoid(b, part(b, all, 3, width));
  const Value cy = b.add(b.mul(forget, cx), b.mul(in, cell));
  const Value hy = b.mul(out, b.unary("tanh", cy));
  return {hy, cy, b.concatenate({in, forget, cell, out}, 1)};
}

Values lstm_backward(Op& op) {
  // grad_hy?, grad_cy?, cx, cy, workspace, has_bias -> grads of the gates, of
  // cx, of the bias
  auto& b = op.b;
  const DType dtype = opmath(op.type(4).dtype);
  const Value cx = op.in(2, dtype), cy = op.in(3, dtype);
  const Value work = op.in(4, dtype);
  const int64_t width = b.shape(cx)[1];
  const Value in = part(b, work, 0, width), forget = part(b, work, 1, width);
  const Value cell = part(b, work, 2, width), out = part(b, work, 3, width);
  const Value zero = fill_like(b, cx, 0);
  const Value ghy = op.has(0) ? op.in(0, dtype) : zero;
  const Value gcy = op.has(1) ? op.in(1, dtype) : zero;
  const Value squashed = b.unary("tanh", cy);
  const Value gc = b.add(b.mul(b.mul(ghy, out), tanh_slope(b, squashed)), gcy);
  const Value grads =
      b.concatenate({b.mul(b.mul(gc, cell), sigmoid_slope(b, in)),
                     b.mul(b.mul(gc, cx), sigmoid_slope(b, forget)),
                     b.mul(b.mul(gc, in), tanh_slope(b, cell)),
                     b.mul(b.mul(ghy, squashed), sigmoid_slope(b, out))},
                    1);
  return {grads, b.mul(gc, forget), b.reduce(grads, ir::Reduce::Add, {0})};
}

Values gru(Op& op) {
  // input_gates, hidden_gates, hx, biases -> hy, workspace
  auto& b = op.b;
  const DType dtype = opmath(op.type(0).dtype);
  const Value input = gates(op, 0, 3, dtype);
  const Value hidden = gates(op, 1, 4, dtype);
  const Value hx = op.in(2, dtype);
  const int64_t width = b.shape(hx)[1];
  const auto gate = [&](int64_t k) {
    return sigmoid(b,
                   b.add(part(b, input, k, width), part(b, hidden, k, width)));
  };
  const Value reset = gate(0), update = gate(1);
  const Value hn = part(b, hidden, 2, width);
  const Value fresh =
      b.unary("tanh", b.add(part(b, input, 2, width), b.mul(reset, hn)));
  const Value hy = b.add(fresh, b.mul(update, b.sub(hx, fresh)));
  return {hy, b.concatenate({reset, update, fresh, hx, hn}, 1)};
}

Values gru_backward(Op& op) {
  // grad_hy, workspace, has_bias -> grads of the input's gates, the hidden
  // gates, hx, and the biases
  auto& b = op.b;
  const DType dtype = opmath(op.type(1).dtype);
  const Value grad = op.in(0, dtype), work = op.in(1, dtype);
  const int64_t width = b.shape(grad)[1];
  const Value reset = part(b, work, 0, width), update = part(b, work, 1, width);
  const Value fresh = part(b, work, 2, width), hx = part(b, work, 3, width);
  const Value hn = part(b, work, 4, width);
  const Value g_update =
      b.mul(b.mul(grad, b.sub(hx, fresh)), sigmoid_slope(b, update));
  const Value g_fresh =
      b.mul(b.mul(grad, complement_of(b, update)), tanh_slope(b, fresh));
  const Value g_reset = b.mul(b.mul(g_fresh, hn), sigmoid_slope(b, reset));
  const Value inputs = b.concatenate({g_reset, g_update, g_fresh}, 1);
  const Value hidden =
      b.concatenate({g_reset, g_update, b.mul(g_fresh, reset)}, 1);
  return {inputs,
          hidden,
          b.mul(grad, update),
          b.reduce(inputs, ir::Reduce::Add, {0}),
          b.reduce(hidden, ir::Reduce::Add, {0})};
}

const bool registered = [] {
  lower("aten::_thnn_fused_lstm_cell", &lstm);
  lower("aten::_thnn_fused_lstm_cell_backward_impl", &lstm_backward);
  lower("aten::_thnn_fused_gru_cell", &gru);
  lower("aten::_thnn_fused_gru_cell_backward", &gru_backward);
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
