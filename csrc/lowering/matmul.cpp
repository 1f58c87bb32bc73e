// SPDX-License-Identifier: Apache-2.0
// Contractions: accumulated in float32 for 16-bit operands.
#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

// [m, k] x [k, n], with equal leading batch dimensions.
Value product(ir::Builder& b, Value a, Value c) {
  const int64_t rank = b.rank(a);
  ir::DotDimensions dims;
  for (int64_t i = 0; i + 2 < rank; ++i) {
    dims.lhs_batch.push_back(i);
    dims.rhs_batch.push_back(i);
  }
  dims.lhs_contract = {rank - 1};
  dims.rhs_contract = {rank - 2};
  return b.dot_general(a, c, dims, opmath(b.dtype(a)));
}

Value vector_product(ir::Builder& b, Value matrix, Value vector) {
  ir::DotDimensions dims;
  dims.lhs_contract = {b.rank(matrix) - 1};
  dims.rhs_contract = {0};
  return b.dot_general(matrix, vector, dims, opmath(b.dtype(matrix)));
}

// beta * self + alpha * product; beta 0 ignores self, NaN included.
Value combined(Op& op, Value product, int beta, int alpha) {
  auto& b = op.b;
  const DType dtype = b.dtype(product);
  const auto& shape = op.result().shape;
  const Value scaled =
      op.has(alpha) && op.number(alpha) != 1
          ? b.mul(product, b.broadcast(op.scalar(alpha, dtype), shape))
          : product;
  const double factor = op.has(beta) ? op.number(beta) : 1;
  if (factor == 0) {
    return scaled;
  }
  const Value self = b.broadcast(op.in(0, dtype), shape);
  return b.add(factor == 1
                   ? self
                   : b.mul(self, b.broadcast(op.scalar(beta, dtype), shape)),
               scaled);
}

const bool registered = [] {
  for (const char* name : {"aten::mm", "aten::bmm"}) {
    lower(name,
          [](Op& op) -> Values { return {product(op.b, op.in(0), op.in(1))}; });
  }
  lower("aten::mv", [](Op& op) -> Values {
    return {vector_product(op.b, op.in(0), op.in(1))};
  });
  lower("aten::dot", [](Op& op) -> Values {
    return {vector_product(op.b, op.in(0), op.in(1))};
  });
  for (const char* name : {"aten::addmm", "aten::baddbmm"}) {
    lower(name, [](Op& op) -> Values {
      return {combined(op, product(op.b, op.in(1), op.in(2)), 3, 4)};
    });
  }
  lower("aten::addmv", [](Op& op) -> Values {
    return {combined(op, vector_product(op.b, op.in(1), op.in(2)), 3, 4)};
  });
  lower("aten::addbmm", [](Op& op) -> Values {
    const Value p = product(op.b, op.in(1), op.in(2));
    return {combined(op, op.b.reduce(p, ir::Reduce::Add, {0}), 3, 4)};
  });
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
