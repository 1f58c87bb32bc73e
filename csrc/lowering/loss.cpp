// SPDX-License-Identifier: Apache-2.0
#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

using ir::Builder;
using ir::Compare;
using ir::Reduce;

constexpr int64_t kNone = 0, kMean = 1;

// Of scores [n, classes] or [classes].
std::pair<int64_t, int64_t> rows_and_classes(const Shape& shape) {
  return {shape.size() == 2 ? shape[0] : 1, shape.back()};
}

struct Target {
  Value one_hot;  // Bool [n, classes]
  Value weight;   // [n]: class weight, 0 where ignored
};

Target target(Op& op,
              int position,
              int weight,
              int64_t ignore,
              int64_t n,
              int64_t classes,
              DType dtype) {
  auto& b = op.b;
  Value index = b.reshape(b.convert(op.in(position), DType::Int64), {n});
  const Value valid =
      b.compare(Compare::NE, index, b.constant(DType::Int64, ignore, {n}));
  const Value used = b.select(valid, index, fill_like(b, index, 0));
  index = b.select(valid, b.check_index(used, 0, classes), index);
  const Shape shape{n, classes};
  const Value one_hot = b.compare(Compare::EQ,
                                  b.broadcast_in_dim(index, shape, {0}),
                                  b.iota({DType::Int64, shape}, 1));
  Value w = b.convert(valid, dtype);
  if (op.has(weight)) {
    const Value each =
        b.select(one_hot,
                 b.broadcast_in_dim(op.in(weight, dtype), shape, {1}),
                 b.constant(dtype, 0, shape));
    w = b.mul(w, b.reduce(each, Reduce::Add, {1}));
  }
  return {one_hot, w};
}

Values nll_forward(Op& op) {
  // self, target, weight, reduction, ignore_index
  auto& b = op.b;
  const DType dtype = opmath(op.result().dtype);
  const auto [n, classes] = rows_and_classes(b.shape(op.in(0)));
  const Value x = b.reshape(op.in(0, dtype), {n, classes});
  const auto t = target(op, 1, 2, op.integer(4), n, classes, dtype);
  const Value picked =
      b.reduce(b.select(t.one_hot, x, fill_like(b, x, 0)), Reduce::Add, {1});
  // An ignored row contributes 0, whatever it holds.
  const Value zero = fill_like(b, picked, 0);
  const Value loss = b.select(b.compare(Compare::EQ, t.weight, zero),
                              zero,
                              b.neg(b.mul(picked, t.weight)));
  const Value total_weight = b.reduce(t.weight, Reduce::Add, {0});
  // Scores of one row are summed, also without a reduction.
  if (op.integer(3) == kNone && b.rank(op.in(0)) == 2) {
    return {b.reshape(loss, op.result(0).shape),
            b.constant(op.result(1).dtype, 0, op.result(1).shape)};
  }
  Value total = b.reduce(loss, Reduce::Add, {0});
  if (op.integer(3) == kMean) {
    total = b.div(total, total_weight);
  }
  return {total, total_weight};
}

Values nll_backward(Op& op) {
  // grad, self, target, weight, reduction, ignore_index, total_weight
  auto& b = op.b;
  const DType dtype = opmath(op.result().dtype);
  const Shape shape = b.shape(op.in(1));
  const auto [n, classes] = rows_and_classes(shape);
  const auto t = target(op, 2, 3, op.integer(5), n, classes, dtype);
  Value grad = op.in(0, dtype);
  if (op.integer(4) == kMean) {
    grad = b.div(grad, op.in(6, dtype));
  }
  grad = b.type(grad).numel() == n && op.integer(4) == kNone
             ? b.reshape(grad, {n})
             : b.broadcast(b.reshape(grad, {}), {n});
  const Value row = b.neg(b.mul(grad, t.weight));
  const Shape full{n, classes};
  return {b.reshape(b.select(t.one_hot,
                             b.broadcast_in_dim(row, full, {0}),
                             b.constant(dtype, 0, full)),
                    shape)};
}

const bool registered = [] {
  lower("aten::nll_loss_forward", &nll_forward);
  lower("aten::nll_loss_backward", &nll_backward);
  lower("aten::mse_loss", [](Op& op) -> Values {
    const DType dtype = opmath(op.result().dtype);
    const auto [a, c] = broadcast_pair(op.b, op.in(0, dtype), op.in(1, dtype));
    const Value d = op.b.sub(a, c);
    return {
        reduce_loss(op.b, op.b.mul(d, d), op.has(2) ? op.integer(2) : kMean)};
  });
  lower("aten::mse_loss_backward", [](Op& op) -> Values {
    // grad, self, target, reduction
    auto& b = op.b;
    const DType dtype = opmath(op.result().dtype);
    const auto [a, c] = broadcast_pair(b, op.in(1, dtype), op.in(2, dtype));
    const double n =
        op.integer(3) == kMean ? static_cast<double>(b.type(a).numel()) : 1;
    const Value grad = b.broadcast(op.in(0, dtype), b.shape(a));
    return {b.mul(b.mul(b.sub(a, c), fill_like(b, a, 2 / n)), grad)};
  });
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
