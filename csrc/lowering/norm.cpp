// SPDX-License-Identifier: Apache-2.0
// Normalisations, computed in float32 for 16-bit operands.
#include <algorithm>

#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

using ir::Builder;
using ir::Reduce;

Value inverse_deviation(Builder& b, Value variance, double eps) {
  return b.rsqrt(b.add(variance, fill_like(b, variance, eps)));
}

// The dimensions of `normalized_shape`.
Shape trailing(int64_t rank, const Shape& normalized) {
  return range(rank - static_cast<int64_t>(normalized.size()), rank);
}

Values layer_norm(Op& op) {
  // input, normalized_shape, weight, bias, eps
  auto& b = op.b;
  const DType dtype = opmath(op.type(0).dtype);
  const Value x = op.in(0, dtype);
  const Shape shape = b.shape(x);
  const auto dims = trailing(b.rank(x), op.ints(1));
  const auto [mean, variance] = moments(b, x, dims);
  const Value rstd = inverse_deviation(b, variance, op.number(4));
  Value y = b.mul(b.sub(x, spread(b, mean, shape, dims)),
                  spread(b, rstd, shape, dims));
  if (op.has(2)) {
    y = b.mul(y, b.broadcast(op.in(2, dtype), shape));
  }
  if (op.has(3)) {
    y = b.add(y, b.broadcast(op.in(3, dtype), shape));
  }
  return {y,
          b.reshape(mean, op.result(1).shape),
          b.reshape(rstd, op.result(2).shape)};
}

Values layer_norm_backward(Op& op) {
  // grad, input, normalized_shape, mean, rstd, weight, bias, mask
  auto& b = op.b;
  const DType dtype = opmath(op.type(1).dtype);
  const Value grad = op.in(0, dtype), x = op.in(1, dtype);
  const Shape shape = b.shape(x);
  const auto dims = trailing(b.rank(x), op.ints(2));
  const auto outer = complement(b.rank(x), dims);
  const auto statistic = [&](int i) {
    return b.broadcast(op.in(i, dtype), shape);
  };
  const Value rstd = statistic(4);
  const Value normal = b.mul(b.sub(x, statistic(3)), rstd);
  const auto mask = op.ints(7);
  Values results(3);
  if (mask[0]) {
    const Value g =
        op.has(5) ? b.mul(grad, b.broadcast(op.in(5, dtype), shape)) : grad;
    const Value mean_g = spread(b, average(b, g, dims), shape, dims);
    const Value mean_gn =
        spread(b, average(b, b.mul(g, normal), dims), shape, dims);
    results[0] = b.mul(rstd, b.sub(b.sub(g, mean_g), b.mul(normal, mean_gn)));
  }
  if (mask[1] && op.has(5)) {
    results[1] = b.reduce(b.mul(grad, normal), Reduce::Add, outer);
  }
  if (mask[2] && op.has(6)) {
    results[2] = b.reduce(grad, Reduce::Add, outer);
  }
  return results;
}

// Per-channel values over x's shape.
Value channels(Builder& b, Value v, Shape shape) {
  return b.broadcast_in_dim(v, shape, {1});
}

// y * weight + bias per channel: arguments 1 and 2, where given.
Value scale_and_shift(Op& op, Value y, DType dtype) {
  auto& b = op.b;
  const Shape shape = b.shape(y);
  if (op.has(1)) {
    y = b.mul(y, channels(b, op.in(1, dtype), shape));
  }
  if (op.has(2)) {
    y = b.add(y, channels(b, op.in(2, dtype), shape));
  }
  return y;
}

Values batch_norm(Op& op,
                  bool training,
                  int running,
                  double momentum,
                  double eps,
                  bool functional_stats) {
  auto& b = op.b;
  const DType dtype = opmath(op.type(0).dtype);
  const Value x = op.in(0, dtype);
  const Shape shape = b.shape(x);
  const auto dims = complement(b.rank(x), {1});
  Value mean, variance, rstd;
  if (training) {
    const auto m = moments(b, x, dims);
    mean = m.mean;
    variance = m.variance;
  } else {
    mean = op.in(running, dtype);
    variance = op.in(running + 1, dtype);
  }
  rstd = inverse_deviation(b, variance, eps);
  Value y = b.mul(b.sub(x, channels(b, mean, shape)), channels(b, rstd, shape));
  y = scale_and_shift(op, y, dtype);
  const auto saved = [&](Value v, int k) {
    return training ? v : b.constant(op.result(k), std::string{});
  };
  Values results{y, saved(mean, 1), saved(rstd, 2)};
  if (functional_stats) {
    const double n = static_cast<double>(count(shape, dims));
    const Value m = b.constant(dtype, momentum, b.shape(mean));
    const Value keep = b.constant(dtype, 1 - momentum, b.shape(mean));
    const Value unbiased = b.mul(variance, fill_like(b, variance, n / (n - 1)));
    const auto update = [&](int i, Value fresh) {
      const Value old = op.in(i, dtype);
      return training ? b.add(b.mul(old, keep), b.mul(fresh, m)) : old;
    };
    results.push_back(update(running, mean));
    results.push_back(update(running + 1, unbiased));
  }
  return results;
}

Values batch_norm_backward(Op& op) {
  // grad, input, weight, running_mean, running_var, save_mean, save_invstd,
  // train, eps, mask
  auto& b = op.b;
  const DType dtype = opmath(op.type(1).dtype);
  const Value grad = op.in(0, dtype), x = op.in(1, dtype);
  const Shape shape = b.shape(x);
  const auto dims = complement(b.rank(x), {1});
  const bool training = op.flag(7);
  const Value mean = training ? op.in(5, dtype) : op.in(3, dtype);
  const Value rstd = training
                         ? op.in(6, dtype)
                         : inverse_deviation(b, op.in(4, dtype), op.number(8));
  const Value normal =
      b.mul(b.sub(x, channels(b, mean, shape)), channels(b, rstd, shape));
  const auto mask = op.ints(9);
  Values results(3);
  if (mask[0]) {
    const Value scale = op.has(2) ? b.mul(rstd, op.in(2, dtype)) : rstd;
    Value centred = grad;
    if (training) {
      const Value mean_g = channels(b, average(b, grad, dims), shape);
      const Value mean_gn =
          channels(b, average(b, b.mul(grad, normal), dims), shape);
      centred = b.sub(b.sub(grad, mean_g), b.mul(normal, mean_gn));
    }
    results[0] = b.mul(centred, channels(b, scale, shape));
  }
  if (mask[1]) {
    results[1] = b.reduce(b.mul(grad, normal), Reduce::Add, dims);
  }
  if (mask[2]) {
    results[2] = b.reduce(grad, Reduce::Add, dims);
  }
  return results;
}

Values group_norm(Op& op) {
  // input, weight, bias, N, C, HxW, group, eps
  auto& b = op.b;
  const DType dtype = opmath(op.type(0).dtype);
  const Value x = op.in(0, dtype);
  const Shape shape = b.shape(x);
  const int64_t n = op.integer(3), c = op.integer(4), hw = op.integer(5);
  const int64_t groups = op.integer(6);
  const Shape grouped{n, groups, c / groups * hw};
  const Value g = b.reshape(x, grouped);
  const auto [mean, variance] = moments(b, g, {2});
  const Value rstd = inverse_deviation(b, variance, op.number(7));
  Value y = b.reshape(b.mul(b.sub(g, spread(b, mean, grouped, {2})),
                            spread(b, rstd, grouped, {2})),
                      shape);
  y = scale_and_shift(op, y, dtype);
  return {y, mean, rstd};
}

const bool registered = [] {
  lower("aten::native_layer_norm", &layer_norm);
  lower("aten::native_layer_norm_backward", &layer_norm_backward);
  lower("aten::native_batch_norm_backward", &batch_norm_backward);
  lower("aten::native_group_norm", &group_norm);
  // input, weight, bias, running_mean, running_var, training, momentum, eps
  lower("aten::_native_batch_norm_legit_functional", [](Op& op) {
    return batch_norm(op, op.flag(5), 3, op.number(6), op.number(7), true);
  });
  lower("aten::_native_batch_norm_legit.no_stats", [](Op& op) {
    return batch_norm(op, true, -1, op.number(4), op.number(5), false);
  });
  lower("aten::_native_batch_norm_legit_no_training", [](Op& op) {
    return batch_norm(op, false, 3, op.number(5), op.number(6), false);
  });
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
