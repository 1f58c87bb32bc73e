// SPDX-License-Identifier: Apache-2.0
// torch.optim's fused steps, as ATen/native/cpu/Fused*Kernel.cpp compute them:
// one program per list. Results are the written lists in the schema's order.
#include <cmath>

#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

using ir::Builder;
using ir::Compare;

// The lists of one step, element k at a time.
class Step {
 public:
  // `written`: lists that the operator writes, the gradients at 1.
  Step(Op& op, int written, int maximize, int grad_scale, int found_inf)
      : b(op.b), op_(op), maximize_(op.flag(maximize)), lists_(written) {
    for (int i = 0; i < written; ++i) {
      old_.push_back(op.list(i));
      lists_[i] = old_[i];
    }
    if (op.has(grad_scale)) {
      scale_ = b.reshape(op.in(grad_scale, DType::Float32), {});
    }
    if (op.has(found_inf)) {
      const Value found = b.reshape(op.in(found_inf, DType::Float32), {});
      skipped_ = compare(b, Compare::EQ, found, 1);
    }
  }

  size_t size() const { return old_[0].size(); }
  DType dtype(size_t k) const { return opmath(b.dtype(old_[0][k])); }
  Value get(int list, size_t k) const {
    return b.convert(old_[list][k], dtype(k));
  }
  void set(int list, size_t k, Value x) { lists_[list][k] = x; }

  // The gradient as the step uses it. Unscaled, it is also written.
  Value gradient(size_t k) {
    Value x = get(1, k);
    if (scale_) {
      const Value scale = b.convert(scale_, dtype(k));
      x = b.div(x, b.broadcast(scale, b.shape(x)));
      set(1, k, x);
    }
    return maximize_ ? b.neg(x) : x;
  }

  // Number or 0-dim tensor argument i like x.
  Value like(Value x, int i) const {
    const Value number = b.reshape(op_.scalar(i, b.dtype(x)), {});
    return b.broadcast(number, b.shape(x));
  }

  // What to write; the old values where an infinity was found.
  Values results() const {
    Values all;
    for (size_t i = 0; i < lists_.size(); ++i) {
      for (size_t k = 0; k < lists_[i].size(); ++k) {
        const Value old = old_[i][k];
        Value x = b.convert(lists_[i][k], b.dtype(old));
        if (skipped_ && !(x == old)) {
          x = b.select(b.broadcast(skipped_, b.shape(x)), old, x);
        }
        all.push_back(x);
      }
    }
    return all;
  }

  Builder& b;

 private:
  Op& op_;
  bool maximize_;
  std::vector<Values> old_, lists_;
  Value scale_, skipped_;
};

Value scaled(Builder& b, Value x, double factor) {
  return b.mul(x, fill_like(b, x, factor));
}

// 1 - beta^step, exact also where beta is close to 1.
Value bias_correction(Builder& b, Value step, double beta) {
  return b.neg(
      b.unary("exponential_minus_one", scaled(b, step, std::log(beta))));
}

// params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps, lr, beta1,
// beta2, weight_decay, eps, amsgrad, maximize, grad_scale, found_inf
Values adam(Op& op, bool decoupled) {
  auto& b = op.b;
  Step step(op, 5, 12, 13, 14);
  const auto counts = op.list(5);
  const double beta1 = op.number(7), beta2 = op.number(8);
  const double decay = op.number(9), eps = op.number(10);
  for (size_t k = 0; k < step.size(); ++k) {
    Value p = step.get(0, k), g = step.gradient(k);
    const Value lr = step.like(p, 6);
    if (decay != 0 && decoupled) {
      p = b.sub(p, b.mul(scaled(b, lr, decay), p));
    } else if (decay != 0) {
      g = b.add(g, scaled(b, p, decay));
    }
    Value m = step.get(2, k), v = step.get(3, k);
    m = b.add(m, scaled(b, b.sub(g, m), 1 - beta1));
    v = b.add(scaled(b, v, beta2), scaled(b, b.mul(g, g), 1 - beta2));
    step.set(2, k, m);
    step.set(3, k, v);
    const Value count = b.reshape(b.convert(counts[k], DType::Float32), {});
    const auto correction = [&](double beta) {
      const Value c = b.convert(bias_correction(b, count, beta), b.dtype(p));
      return b.broadcast(c, b.shape(p));
    };
    Value second = v;
    if (op.flag(11)) {
      second = b.max(step.get(4, k), v);
      step.set(4, k, second);
    }
    const Value root = b.div(b.sqrt(second), b.sqrt(correction(beta2)));
    const Value size = b.div(lr, correction(beta1));
    step.set(
        0,
        k,
        b.sub(p, b.mul(size, b.div(m, b.add(root, fill_like(b, p, eps))))));
  }
  return step.results();
}

// params, grads, momentum_buffers, weight_decay, momentum, lr, dampening,
// nesterov, maximize, is_first_step, grad_scale, found_inf
Values sgd(Op& op) {
  auto& b = op.b;
  Step step(op, 3, 8, 10, 11);
  const double decay = op.number(3), momentum = op.number(4);
  for (size_t k = 0; k < step.size(); ++k) {
    const Value p = step.get(0, k);
    Value g = step.gradient(k);
    if (decay != 0) {
      g = b.add(g, scaled(b, p, decay));
    }
    if (momentum != 0) {
      const Value buffer = op.flag(9)
                               ? g
                               : b.add(scaled(b, step.get(2, k), momentum),
                                       scaled(b, g, 1 - op.number(6)));
      step.set(2, k, buffer);
      g = op.flag(7) ? b.add(g, scaled(b, buffer, momentum)) : buffer;
    }
    step.set(0, k, b.sub(p, b.mul(step.like(p, 5), g)));
  }
  return step.results();
}

// params, grads, state_sums, steps, lr, lr_decay, weight_decay, eps, maximize,
// grad_scale, found_inf. The overload with a number for lr also returns the
// steps, as they are.
Values adagrad(Op& op, int written) {
  auto& b = op.b;
  Step step(op, written, 8, 9, 10);
  const auto counts = op.list(3);
  const double decay = op.number(6), eps = op.number(7);
  for (size_t k = 0; k < step.size(); ++k) {
    const Value p = step.get(0, k);
    Value g = step.gradient(k);
    if (decay != 0) {
      g = b.add(g, scaled(b, p, decay));
    }
    const Value sum = b.add(step.get(2, k), b.mul(g, g));
    step.set(2, k, sum);
    const Value count = b.reshape(b.convert(counts[k], b.dtype(p)), {});
    const Value one = fill_like(b, count, 1);
    const Value slower = b.add(one, scaled(b, b.sub(count, one), op.number(5)));
    const Value rate = b.div(step.like(p, 4), b.broadcast(slower, b.shape(p)));
    const Value root = b.add(b.sqrt(sum), fill_like(b, p, eps));
    step.set(0, k, b.sub(p, b.mul(rate, b.div(g, root))));
  }
  return step.results();
}

const bool registered = [] {
  for (const char* lr : {"", ".tensor_lr"}) {
    const std::string overload = lr;
    lower("aten::_fused_adam" + overload,
          [](Op& op) { return adam(op, false); });
    lower("aten::_fused_adamw" + overload,
          [](Op& op) { return adam(op, true); });
    lower("aten::_fused_sgd" + overload, &sgd);
  }
  lower("aten::_fused_adagrad", [](Op& op) { return adagrad(op, 4); });
  lower("aten::_fused_adagrad.tensor_lr",
        [](Op& op) { return adagrad(op, 3); });
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
