// SPDX-License-Identifier: Apache-2.0
#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

// A result filled with number argument i.
Lowering filled(int i) {
  return [i](Op& op) -> Values {
    return {op.b.broadcast(op.scalar(i, op.result().dtype), op.result().shape)};
  };
}

Lowering constant(double value) {
  return [value](Op& op) -> Values {
    return {fill(op.b, op.result().dtype, op.result().shape, value)};
  };
}

// start + step * i in int64 or float64: ATen's accumulation type.
Values arange(Op& op) {
  auto& b = op.b;
  const auto& type = op.result();
  const bool integral = is_integral(type.dtype);
  const DType dtype = integral ? DType::Int64 : DType::Float32;
  const Value i = b.iota({dtype, type.shape}, 0);
  const Value start = b.broadcast(op.scalar(0, dtype), type.shape);
  const Value step = b.broadcast(
      op.has(2) ? op.scalar(2, dtype) : b.constant(dtype, 1), type.shape);
  return {b.add(start, b.mul(i, step))};
}

// Keeps the triangle where column - row <= k (lower) or >= k.
Lowering triangle(bool lower_part) {
  return [lower_part](Op& op) -> Values {
    auto& b = op.b;
    const Value x = op.in(0);
    const Shape shape = b.shape(x);
    const auto rank = static_cast<int64_t>(shape.size());
    const int64_t k = op.has(1) ? op.integer(1) : 0;
    const Value row = b.iota({DType::Int64, shape}, rank - 2);
    const Value column = b.iota({DType::Int64, shape}, rank - 1);
    const Value edge = b.add(row, b.constant(DType::Int64, k, shape));
    const Value keep =
        b.compare(lower_part ? ir::Compare::LE : ir::Compare::GE, column, edge);
    return {b.select(keep, x, fill_like(b, x, 0))};
  };
}

Values eye(Op& op) {
  auto& b = op.b;
  const auto& shape = op.result().shape;
  return {b.compare(ir::Compare::EQ,
                    b.iota({DType::Int64, shape}, 0),
                    b.iota({DType::Int64, shape}, 1))};
}

Values linspace(Op& op) {
  // From the nearer end, as ATen: symmetric and exact at both.
  auto& b = op.b;
  const auto& shape = op.result().shape;
  const int64_t n = shape[0];
  const DType dtype = DType::Float32;
  const Value start = b.broadcast(op.scalar(0, dtype), shape);
  const Value end = b.broadcast(op.scalar(1, dtype), shape);
  if (n == 1) {
    return {start};
  }
  const Value i = b.iota({dtype, shape}, 0);
  const Value step = b.div(b.sub(end, start),
                           fill(b, dtype, shape, static_cast<double>(n - 1)));
  const Value last = fill(b, dtype, shape, static_cast<double>(n - 1));
  const Value half = fill(b, dtype, shape, static_cast<double>(n / 2));
  return {b.select(b.compare(ir::Compare::LT, i, half),
                   b.add(start, b.mul(step, i)),
                   b.sub(end, b.mul(step, b.sub(last, i))))};
}

Values logspace(Op& op) {
  auto& b = op.b;
  if (is_integral(op.result().dtype)) {
    throw Unsupported("integers of a logspace are powers in float64");
  }
  const Value exponents = linspace(op)[0];
  const Value base =
      b.broadcast(op.scalar(3, DType::Float32), op.result().shape);
  return {b.binary("power", base, exponents)};
}

const bool registered = [] {
  for (const char* name :
       {"aten::fill.Scalar", "aten::full", "aten::full_like"}) {
    lower(name, filled(1));
  }
  lower("aten::fill.Tensor", [](Op& op) -> Values {
    return {op.b.broadcast(op.in(1, op.result().dtype), op.result().shape)};
  });
  lower("aten::scalar_tensor", filled(0));
  lower("aten::new_full", filled(2));
  for (const char* name :
       {"aten::zeros_like", "aten::zero", "aten::zeros", "aten::new_zeros"}) {
    lower(name, constant(0));
  }
  for (const char* name : {"aten::ones_like", "aten::ones", "aten::new_ones"}) {
    lower(name, constant(1));
  }
  lower("aten::arange.start_step", &arange);
  lower("aten::arange.start", [](Op& op) -> Values {
    auto& b = op.b;
    const auto& type = op.result();
    const DType dtype = is_integral(type.dtype) ? DType::Int64 : DType::Float32;
    return {b.add(b.broadcast(op.scalar(0, dtype), type.shape),
                  b.iota({dtype, type.shape}, 0))};
  });
  lower("aten::arange", [](Op& op) -> Values {
    return {op.b.iota({op.result().dtype, op.result().shape}, 0)};
  });
  lower("aten::tril", triangle(true));
  lower("aten::triu", triangle(false));
  lower("aten::eye", &eye);
  lower("aten::eye.m", &eye);
  lower("aten::logspace", &logspace);
  lower("aten::linspace", &linspace);
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
