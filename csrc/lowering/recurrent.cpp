// SPDX-License-Identifier: Apache-2.0
// The pointwise half of LSTM and GRU cells, with the formulas and the
// workspaces of ATen/native/cuda/RNN.cu. Gates lie side by side in the last
// dimension.
#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

using ir::Builder;

Value one_minus(Builder& b, Value x) {
  return b.sub(fill_like(b, x, 1), x);
}

Value sigmoid(Builder& b, Value x) {
  return b.unary("logistic", x);
}

// grad * y * (1 - y), for y = sigmoid(x).
Value sigmoid_backward(Builder& b, Value grad, Value y) {
  return b.mul(b.mul(grad, one_minus(b, y)), y);
}

// grad * (1 - y^2), for y = tanh(x).
Value tanh_backward(Builder& b, Value grad, Value y) {
  return b.mul(grad, one_minus(b, b.mul(y, y)));
}

// Parts of equal size along the last dimension.
Values split(Builder& b, Value x, int64_t parts) {
  const int64_t dim = b.rank(x) - 1;
  const int64_t size = b.shape(x)[dim] / parts;
  Values all;
  for (int64_t i = 0; i < parts; ++i) {
    all.push_back(narrow(b, x, dim, i * size, (i + 1) * size));
  }
  return all;
}

Value join(Builder& b, const Values& parts) {
  return b.concatenate(parts, b.rank(parts[0]) - 1);
}

// Argument `gates`, with the bias of argument `bias` if there is one.
Value biased(Op& op, int gates, int bias, DType dtype) {
  auto& b = op.b;
  const Value x = op.in(gates, dtype);
  return op.has(bias) ? b.add(x, b.broadcast(op.in(bias, dtype), b.shape(x)))
                      : x;
}

Values results(Op& op, const Values& xs) {
  Values all;
  for (size_t k = 0; k < xs.size(); ++k) {
    all.push_back(
        xs[k] ? op.b.convert(xs[k], op.result(static_cast<int>(k)).dtype)
              : Value{});
  }
  return all;
}

// The sum over the batch.
Value bias_gradient(Builder& b, Value gates) {
  return b.reduce(gates, ir::Reduce::Add, {0});
}

// input_gates, hidden_gates, cx, input_bias, hidden_bias -> hy, cy, workspace
Values lstm(Op& op) {
  auto& b = op.b;
  const DType dtype = opmath(op.type(0).dtype);
  const auto gates =
      split(b, b.add(biased(op, 0, 3, dtype), biased(op, 1, 4, dtype)), 4);
  const Value input = sigmoid(b, gates[0]), forget = sigmoid(b, gates[1]);
  const Value cell = b.tanh(gates[2]), output = sigmoid(b, gates[3]);
  const Value cy = b.add(b.mul(forget, op.in(2, dtype)), b.mul(input, cell));
  return results(
      op,
      {b.mul(output, b.tanh(cy)), cy, join(b, {input, forget, cell, output})});
}

// grad_hy, grad_cy, cx, cy, workspace, has_bias -> grad_gates, grad_cx,
// grad_bias
Values lstm_backward(Op& op) {
  auto& b = op.b;
  if (!op.has(0) && !op.has(1)) {
    throw Unsupported("neither output has a gradient");
  }
  const DType dtype = opmath(op.type(4).dtype);
  const auto gates = split(b, op.in(4, dtype), 4);
  const Value input = gates[0], forget = gates[1];
  const Value cell = gates[2], output = gates[3];
  const Value zero = fill_like(b, input, 0);
  const Value grad_hy = op.has(0) ? op.in(0, dtype) : zero;
  const Value grad_cy = op.has(1) ? op.in(1, dtype) : zero;
  const Value squashed = b.tanh(op.in(3, dtype));
  const Value grad =
      b.add(tanh_backward(b, b.mul(grad_hy, output), squashed), grad_cy);
  const Value grad_gates =
      join(b,
           {sigmoid_backward(b, b.mul(grad, cell), input),
            sigmoid_backward(b, b.mul(grad, op.in(2, dtype)), forget),
            tanh_backward(b, b.mul(grad, input), cell),
            sigmoid_backward(b, b.mul(grad_hy, squashed), output)});
  return results(op,
                 {grad_gates,
                  b.mul(grad, forget),
                  op.flag(5) ? bias_gradient(b, grad_gates) : Value{}});
}

// input_gates, hidden_gates, hx, input_bias, hidden_bias -> hy, workspace
Values gru(Op& op) {
  auto& b = op.b;
  const DType dtype = opmath(op.type(0).dtype);
  const auto in = split(b, biased(op, 0, 3, dtype), 3);
  const auto hidden = split(b, biased(op, 1, 4, dtype), 3);
  const Value hx = op.in(2, dtype);
  const Value reset = sigmoid(b, b.add(in[0], hidden[0]));
  const Value update = sigmoid(b, b.add(in[1], hidden[1]));
  const Value fresh = b.tanh(b.add(in[2], b.mul(reset, hidden[2])));
  return results(op,
                 {b.add(fresh, b.mul(update, b.sub(hx, fresh))),
                  join(b, {reset, update, fresh, hx, hidden[2]})});
}

// grad_hy, workspace, has_bias -> grad_input_gates, grad_hidden_gates,
// grad_hx, grad_input_bias, grad_hidden_bias
Values gru_backward(Op& op) {
  auto& b = op.b;
  const DType dtype = opmath(op.type(1).dtype);
  const Value grad = op.in(0, dtype);
  const auto saved = split(b, op.in(1, dtype), 5);
  const Value reset = saved[0], update = saved[1], fresh = saved[2];
  const Value hx = saved[3], hidden = saved[4];
  const Value to_update =
      sigmoid_backward(b, b.mul(grad, b.sub(hx, fresh)), update);
  const Value to_fresh =
      tanh_backward(b, b.mul(grad, one_minus(b, update)), fresh);
  const Value to_reset = sigmoid_backward(b, b.mul(to_fresh, hidden), reset);
  const Value in = join(b, {to_reset, to_update, to_fresh});
  const Value out = join(b, {to_reset, to_update, b.mul(to_fresh, reset)});
  const bool has_bias = op.flag(2);
  return results(op,
                 {in,
                  out,
                  b.mul(grad, update),
                  has_bias ? bias_gradient(b, in) : Value{},
                  has_bias ? bias_gradient(b, out) : Value{}});
}

const bool registered =
    lower("aten::_thnn_fused_lstm_cell", &lstm) &&
    lower("aten::_thnn_fused_lstm_cell_backward_impl", &lstm_backward) &&
    lower("aten::_thnn_fused_gru_cell", &gru) &&
    lower("aten::_thnn_fused_gru_cell_backward", &gru_backward);

}  // namespace
}  // namespace neuronx::lowering
