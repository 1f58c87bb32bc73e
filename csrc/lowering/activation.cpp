// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

using ir::Builder;
using ir::Compare;

Value k(Builder& b, Value x, double value) {
  return fill_like(b, x, value);
}
Value above(Builder& b, Value x, double bound) {
  return b.compare(Compare::GT, x, k(b, x, bound));
}
Value sigmoid(Builder& b, Value x) {
  return b.unary("logistic", x);
}

// A function of the operand in opmath precision.
void lower_activation(std::string_view name, Value (*f)(Op&, Value)) {
  lower(name, [f](Op& op) -> Values {
    return {f(op, op.in(0, opmath(op.type(0).dtype)))};
  });
}

// A function of (grad, saved) in opmath precision, broadcast.
void lower_backward(std::string_view name, Value (*f)(Op&, Value, Value)) {
  lower(name, [f](Op& op) -> Values {
    const DType dtype = opmath(op.result().dtype);
    return {f(op, op.in(0, dtype), op.in(1, dtype))};
  });
}

bool is_tanh(Op& op, int i) {
  return op.has(i) && op.string(i) == "tanh";
}

constexpr double kBeta = M_SQRT2 * M_2_SQRTPI * 0.5;  // sqrt(2 / pi)
constexpr double kKappa = 0.044715;

Value gelu(Op& op, Value x) {
  auto& b = op.b;
  if (is_tanh(op, 1)) {
    const Value cube = b.mul(b.mul(x, x), x);
    const Value inner =
        b.mul(k(b, x, kBeta), b.add(x, b.mul(k(b, x, kKappa), cube)));
    return b.mul(b.mul(k(b, x, 0.5), x), b.add(k(b, x, 1), b.tanh(inner)));
  }
  const Value cdf = b.mul(
      k(b, x, 0.5), b.add(k(b, x, 1), b.erf(b.mul(x, k(b, x, M_SQRT1_2)))));
  return b.mul(x, cdf);
}

// Nothing passes where |x| <= lambda.
Value shrink_backward(Op& op, Value grad, Value x) {
  auto& b = op.b;
  const Value small =
      b.compare(Compare::LE, b.unary("abs", x), k(b, x, op.number(2)));
  return b.select(small, k(b, grad, 0), grad);
}

Value gelu_backward(Op& op, Value grad, Value x) {
  auto& b = op.b;
  if (is_tanh(op, 2)) {
    const Value square = b.mul(x, x);
    const Value inner = b.mul(
        k(b, x, kBeta), b.add(x, b.mul(k(b, x, kKappa), b.mul(square, x))));
    const Value t = b.tanh(inner);
    const Value left = b.mul(k(b, x, 0.5), b.add(k(b, x, 1), t));
    const Value slope = b.mul(
        k(b, x, kBeta), b.add(k(b, x, 1), b.mul(k(b, x, 3 * kKappa), square)));
    const Value right = b.mul(
        b.mul(b.mul(k(b, x, 0.5), x), b.sub(k(b, x, 1), b.mul(t, t))), slope);
    return b.mul(grad, b.add(left, right));
  }
  const Value cdf = b.mul(
      k(b, x, 0.5), b.add(k(b, x, 1), b.erf(b.mul(x, k(b, x, M_SQRT1_2)))));
  const Value pdf = b.mul(b.exp(b.mul(k(b, x, -0.5), b.mul(x, x))),
                          k(b, x, M_2_SQRTPI * M_SQRT1_2 * 0.5));
  return b.mul(grad, b.add(cdf, b.mul(x, pdf)));
}

Value softplus(Op& op, Value x) {
  auto& b = op.b;
  const Value beta = k(b, x, op.has(1) ? op.number(1) : 1);
  const Value z = b.mul(x, beta);
  return b.select(above(b, z, op.has(2) ? op.number(2) : 20),
                  x,
                  b.div(b.unary("log_plus_one", b.exp(z)), beta));
}

Value elu(Op& op, Value x) {
  // self, alpha, scale, input_scale
  auto& b = op.b;
  const double alpha = op.has(1) ? op.number(1) : 1;
  const double scale = op.has(2) ? op.number(2) : 1;
  const double input_scale = op.has(3) ? op.number(3) : 1;
  const Value negative =
      b.mul(b.unary("exponential_minus_one", b.mul(x, k(b, x, input_scale))),
            k(b, x, alpha * scale));
  return b.select(above(b, x, 0), b.mul(x, k(b, x, scale)), negative);
}

const bool registered = [] {
  lower("aten::relu", [](Op& op) -> Values {
    const Value x = op.in(0);
    return {op.b.max(x, k(op.b, x, 0))};
  });
  lower_activation("aten::gelu", &gelu);
  lower_activation("aten::silu", [](Op& op, Value x) {
    return op.b.mul(x, sigmoid(op.b, x));
  });
  lower_activation("aten::mish", [](Op& op, Value x) {
    const Value sp = op.b.unary("log_plus_one", op.b.exp(x));
    const Value large = op.b.select(above(op.b, x, 20), x, sp);
    return op.b.mul(x, op.b.tanh(large));
  });
  lower_activation("aten::leaky_relu", [](Op& op, Value x) {
    const double slope = op.has(1) ? op.number(1) : 0.01;
    return op.b.select(above(op.b, x, 0), x, op.b.mul(x, k(op.b, x, slope)));
  });
  lower_activation("aten::elu", &elu);
  lower_activation("aten::softplus", &softplus);
  lower("aten::hardtanh", [](Op& op) -> Values {
    const Value x = op.in(0);
    const double low = op.has(1) ? op.number(1) : -1;
    const double high = op.has(2) ? op.number(2) : 1;
    return {op.b.min(op.b.max(x, k(op.b, x, low)), k(op.b, x, high))};
  });
  lower_activation("aten::hardsigmoid", [](Op& op, Value x) {
    auto& b = op.b;
    const Value y = b.add(x, k(b, x, 3));
    return b.div(b.min(b.max(y, k(b, x, 0)), k(b, x, 6)), k(b, x, 6));
  });
  lower_activation("aten::hardswish", [](Op& op, Value x) {
    auto& b = op.b;
    const Value y = b.min(b.max(b.add(x, k(b, x, 3)), k(b, x, 0)), k(b, x, 6));
    return b.div(b.mul(x, y), k(b, x, 6));
  });
  lower("aten::threshold", [](Op& op) -> Values {
    const Value x = op.in(0);
    return {op.b.select(op.b.compare(Compare::LE, x, k(op.b, x, op.number(1))),
                        k(op.b, x, op.number(2)),
                        x)};
  });

  lower_backward("aten::hardshrink_backward", &shrink_backward);
  lower_backward("aten::softshrink_backward", &shrink_backward);
  lower_backward("aten::gelu_backward", &gelu_backward);
  lower_backward("aten::silu_backward", [](Op& op, Value g, Value x) {
    auto& b = op.b;
    const Value s = sigmoid(b, x);
    const Value one = k(b, x, 1);
    return b.mul(b.mul(g, s), b.add(one, b.mul(x, b.sub(one, s))));
  });
  lower_backward("aten::sigmoid_backward", [](Op& op, Value g, Value y) {
    return op.b.mul(g, op.b.mul(op.b.sub(k(op.b, y, 1), y), y));
  });
  lower_backward("aten::tanh_backward", [](Op& op, Value g, Value y) {
    return op.b.mul(g, op.b.sub(k(op.b, y, 1), op.b.mul(y, y)));
  });
  lower_backward("aten::threshold_backward", [](Op& op, Value g, Value x) {
    return op.b.select(op.b.compare(Compare::LE, x, k(op.b, x, op.number(2))),
                       k(op.b, g, 0),
                       g);
  });
  lower_backward("aten::leaky_relu_backward", [](Op& op, Value g, Value x) {
    return op.b.select(
        above(op.b, x, 0), g, op.b.mul(g, k(op.b, g, op.number(2))));
  });
  lower_backward("aten::hardtanh_backward", [](Op& op, Value g, Value x) {
    auto& b = op.b;
    const Value outside =
        b.logical_or(b.compare(Compare::LE, x, k(b, x, op.number(2))),
                     b.compare(Compare::GE, x, k(b, x, op.number(3))));
    return b.select(outside, k(b, g, 0), g);
  });
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
