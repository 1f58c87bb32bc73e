// SPDX-License-Identifier: Apache-2.0
#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

using ir::Builder;
using ir::Compare;

// Argument i, tensor or number, over the result's shape.
Value spread_argument(Op& op, int i, DType dtype) {
  return op.b.broadcast(op.scalar(i, dtype), op.result().shape);
}

Values where(Op& op) {
  const DType dtype = op.result().dtype;
  const Value condition =
      op.b.broadcast(truth(op.b, op.in(0)), op.result().shape);
  const Value on_true = spread_argument(op, 1, dtype);
  return {op.b.select(condition, on_true, spread_argument(op, 2, dtype))};
}

Values masked_fill(Op& op) {
  const DType dtype = op.result().dtype;
  const Value mask = op.b.broadcast(op.in(1), op.result().shape);
  const Value value = spread_argument(op, 2, dtype);
  return {op.b.select(mask, value, spread_argument(op, 0, dtype))};
}

// self, min, max; NaN in any wins.
Values clamp(Op& op, int low, int high) {
  const DType dtype = opmath(op.result().dtype);
  Value x = spread_argument(op, 0, dtype);
  if (low >= 0 && op.has(low)) {
    x = op.b.max(x, spread_argument(op, low, dtype));
  }
  if (high >= 0 && op.has(high)) {
    x = op.b.min(x, spread_argument(op, high, dtype));
  }
  return {x};
}

// self + value * tensor1 op tensor2
Values add_scaled(Op& op, const char* hlo) {
  auto& b = op.b;
  const DType dtype = opmath(op.result().dtype);
  const Value factor = op.has(3) ? spread_argument(op, 3, dtype)
                                 : b.constant(dtype, 1, op.result().shape);
  const Value scaled = b.mul(factor, spread_argument(op, 1, dtype));
  const Value term = b.binary(hlo, scaled, spread_argument(op, 2, dtype));
  return {b.add(spread_argument(op, 0, dtype), term)};
}

// ATen's form: from the nearer end.
Values lerp(Op& op) {
  auto& b = op.b;
  const DType dtype = opmath(op.result().dtype);
  const Value start = spread_argument(op, 0, dtype);
  const Value end = spread_argument(op, 1, dtype);
  const Value weight = spread_argument(op, 2, dtype);
  const Value step = b.sub(end, start);
  const Value near = compare(b, Compare::LT, b.unary("abs", weight), 0.5);
  const Value rest = b.sub(fill_like(b, weight, 1), weight);
  const Value from_start = b.add(start, b.mul(weight, step));
  return {b.select(near, from_start, b.sub(end, b.mul(step, rest)))};
}

const bool registered = [] {
  for (const char* name : {"aten::where.self",
                           "aten::where.ScalarOther",
                           "aten::where.ScalarSelf",
                           "aten::where.Scalar"}) {
    lower(name, &where);
  }
  for (const char* name :
       {"aten::masked_fill.Scalar", "aten::masked_fill.Tensor"}) {
    lower(name, &masked_fill);
  }
  for (const char* overload : {"", ".Tensor"}) {
    const std::string suffix = overload;
    lower("aten::clamp" + suffix, [](Op& op) { return clamp(op, 1, 2); });
    lower("aten::clamp_min" + suffix, [](Op& op) { return clamp(op, 1, -1); });
    lower("aten::clamp_max" + suffix, [](Op& op) { return clamp(op, -1, 1); });
  }
  lower("aten::addcmul", [](Op& op) { return add_scaled(op, "multiply"); });
  lower("aten::addcdiv", [](Op& op) { return add_scaled(op, "divide"); });
  lower("aten::lerp.Scalar", &lerp);
  lower("aten::lerp.Tensor", &lerp);
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
