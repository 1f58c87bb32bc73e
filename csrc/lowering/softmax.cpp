// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

using ir::Reduce;

Values with_rank(Op& op, Value x, Values (*f)(Op&, Value, int64_t)) {
  const int64_t rank = op.b.rank(x);
  if (rank == 0) {
    auto r = f(op, op.b.reshape(x, {1}), 0);
    return {op.b.reshape(r[0], {})};
  }
  return f(op, x, wrap(op.integer(1), rank));
}

// x - max(x)
Value shifted(ir::Builder& b, Value x, int64_t dim) {
  const Value top = b.reduce(x, Reduce::Max, {dim});
  return b.sub(x, spread(b, top, b.shape(x), {dim}));
}

Value total(ir::Builder& b, Value x, int64_t dim) {
  return spread(b, b.reduce(x, Reduce::Add, {dim}), b.shape(x), {dim});
}

Values softmax(Op& op, Value x, int64_t dim) {
  const Value e = op.b.exp(shifted(op.b, x, dim));
  return {op.b.div(e, total(op.b, e, dim))};
}

Values log_softmax(Op& op, Value x, int64_t dim) {
  const Value s = shifted(op.b, x, dim);
  return {op.b.sub(s, op.b.log(total(op.b, op.b.exp(s), dim)))};
}

// grad, output, dim, input_dtype
Values backward(Op& op, bool log) {
  auto& b = op.b;
  const DType dtype = opmath(op.type(1).dtype);
  Value grad = op.in(0, dtype), output = op.in(1, dtype);
  const Shape shape = b.shape(grad);
  if (shape.empty()) {
    grad = b.reshape(grad, {1});
    output = b.reshape(output, {1});
  }
  const int64_t dim = wrap(op.integer(2), b.rank(grad));
  const Value result =
      log ? b.sub(grad, b.mul(b.exp(output), total(b, grad, dim)))
          : b.mul(output, b.sub(grad, total(b, b.mul(grad, output), dim)));
  return {b.reshape(result, shape)};
}

const bool registered = [] {
  lower("aten::_softmax", [](Op& op) {
    return with_rank(op, op.in(0, opmath(op.result().dtype)), &softmax);
  });
  lower("aten::_log_softmax", [](Op& op) {
    return with_rank(op, op.in(0, opmath(op.result().dtype)), &log_softmax);
  });
  lower("aten::_softmax_backward_data",
        [](Op& op) { return backward(op, false); });
  lower("aten::_log_softmax_backward_data",
        [](Op& op) { return backward(op, true); });
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
