// SPDX-License-Identifier: Apache-2.0
// The matrix exponential by scaling and squaring of its Taylor polynomial of
// degree 12, evaluated as Paterson and Stockmeyer do.
#include <cmath>

#include "lowering/matrix.h"

namespace neuronx::lowering {
namespace {

using ir::Builder;
using ir::Compare;
using ir::Reduce;

// The 1-norm below which the polynomial is exact to float32 (Bader, Blanes and
// Casas, "Computing the matrix exponential with an optimized Taylor polynomial
// approximation", 2019, table 1), and the squarings that are made at most: from
// a norm of 2^24 on float32 resolves nothing.
constexpr double kNorm = 1.461661507209034;
constexpr int kSquarings = 24;

Value polynomial(Builder& b, Value a) {
  const auto shape = b.shape(a);
  Values powers{identity(b, shape[0], shape[1], shape[1]), a};
  for (int i = 2; i <= 4; ++i) {
    powers.push_back(matmul(b, powers[i - 1], a));
  }
  // Blocks of four terms, from the highest; the last holds A^4 twice over.
  const auto block = [&](int first, int terms) {
    Value sum;
    for (int i = 0; i < terms; ++i) {
      const double c = 1 / std::tgamma(first + i + 1);
      const Value term = b.mul(powers[i], fill_like(b, a, c));
      sum = sum ? b.add(term, sum) : term;
    }
    return sum;
  };
  Value sum = block(8, 5);
  sum = b.add(block(4, 4), matmul(b, sum, powers[4]));
  return b.add(block(0, 4), matmul(b, sum, powers[4]));
}

Values matrix_exp(Op& op) {
  auto& b = op.b;
  const Value a = matrices(op, 0);
  const auto shape = b.shape(a);
  const Shape one{shape[0], 1, 1};
  if (shape[1] == 0) {
    return {as_result(op, a)};
  }
  const Value norm =
      b.reduce(b.reduce(b.unary("abs", a), Reduce::Add, {1}), Reduce::Max, {1});
  // Squarings of each matrix: the powers of two by which the norm exceeds.
  Value count = b.constant(DType::Int32, 0, one);
  Value scale = fill(b, DType::Float32, one, 1);
  for (int i = 0; i < kSquarings; ++i) {
    const Value more = compare(
        b, Compare::GT, b.reshape(norm, one), kNorm * std::ldexp(1.0, i));
    count = b.add(count, b.convert(more, DType::Int32));
    scale = b.select(more, b.mul(scale, fill_like(b, scale, 0.5)), scale);
  }
  const Value start = polynomial(b, b.mul(a, b.broadcast(scale, shape)));
  const Value x =
      loop(b,
           kSquarings,
           {start},
           {count},
           [](Builder& r, Value i, const Values& state, const Values& fixed) {
             const auto shape = r.shape(state[0]);
             const Value wanted = r.compare(
                 Compare::LT, r.broadcast(i, r.shape(fixed[0])), fixed[0]);
             return Values{r.select(r.broadcast(wanted, shape),
                                    matmul(r, state[0], state[0]),
                                    state[0])};
           })[0];
  return {as_result(op, x)};
}

const bool registered = lower("aten::linalg_matrix_exp", &matrix_exp);

}  // namespace
}  // namespace neuronx::lowering
