// SPDX-License-Identifier: Apache-2.0
// QR by Householder reflections, as LAPACK stores them: reflection i is
// 1 - tau[i] v v^T, where v is 0 above row i, 1 in it, and the column i of the
// factored matrix below it.
#include "lowering/matrix.h"

namespace neuronx::lowering {
namespace {

using ir::Builder;
using ir::Compare;
using ir::Reduce;

// [batch, rows, 1]
Value reflector(Builder& b, Value factors, Value i) {
  const Value x = column(b, factors, i);
  const Value index = row_index(b, x);
  const Value tail = b.select(below(b, index, i), x, fill_like(b, x, 0));
  return b.select(at(b, index, i), fill_like(b, x, 1), tail);
}

// x - tau v (v^T x); tau is [batch, 1, 1].
Value reflect(Builder& b, Value x, Value v, Value tau) {
  const Value scaled = b.mul(v, b.broadcast(tau, b.shape(v)));
  return b.sub(x, matmul(b, scaled, matmul(b, transposed(b, v), x)));
}

// LAPACK's slarfg: v, tau and beta that turn (alpha, x) to (beta, 0). Column j
// of `a` from row j on; the norm is taken of scaled elements, lest it overflow.
struct Reflection {
  Value v, tau, beta;
};
Reflection reflection(Builder& b, Value a, Value j) {
  const Value x = column(b, a, j);
  const auto shape = b.shape(x);
  const Shape one{shape[0], 1, 1};
  const Value index = row_index(b, x), under = below(b, index, j);
  const Value alpha = row(b, x, j);
  const Value tail = b.select(under, x, fill_like(b, x, 0));
  const Value from = b.select(at(b, index, j), x, tail);
  const Value largest =
      b.reshape(b.reduce(b.unary("abs", from), Reduce::Max, {1}), one);
  const Value null = compare(b, Compare::EQ, largest, 0);
  const Value scale = b.select(null, fill_like(b, largest, 1), largest);
  const Value part = b.div(from, b.broadcast(scale, shape));
  const Value sum = b.reduce(b.mul(part, part), Reduce::Add, {1});
  const Value norm = b.mul(scale, b.sqrt(b.reshape(sum, one)));
  const Value length =
      b.reshape(b.reduce(b.unary("abs", tail), Reduce::Max, {1}), one);
  const Value is_done = compare(b, Compare::EQ, length, 0);
  const Value turned =
      b.select(compare(b, Compare::LT, alpha, 0), norm, b.neg(norm));
  const Value beta = b.select(is_done, alpha, turned);
  const Value divisor =
      b.select(is_done, fill_like(b, beta, 1), b.sub(alpha, beta));
  const Value tau =
      b.select(is_done,
               fill_like(b, beta, 0),
               b.div(b.sub(beta, alpha), b.select(is_done, divisor, beta)));
  const Value below_j = b.div(tail, b.broadcast(divisor, shape));
  return {b.select(at(b, index, j), fill_like(b, x, 1), below_j), tau, beta};
}

struct QR {
  Value factors;  // R on and above the diagonal, reflectors below it
  Value tau;      // [batch, 1, min(rows, columns)]
};

QR factor(Builder& b, Value a) {
  const auto shape = b.shape(a);
  const int64_t k = std::min(shape[1], shape[2]);
  const auto results = loop(
      b,
      k,
      {a, fill(b, DType::Float32, {shape[0], 1, k}, 0)},
      {},
      [](Builder& r, Value j, const Values& state, const Values&) {
        const auto h = reflection(r, state[0], j);
        const Value x = state[0];
        const Value right = below(r, r.iota({DType::Int32, r.shape(x)}, 2), j);
        const Value reflected = r.select(right, reflect(r, x, h.v, h.tau), x);
        // Rows above j keep what is there; j gets beta; the rest v.
        const Value old = column(r, reflected, j);
        const Value index = row_index(r, old);
        const Value stored = r.select(at(r, index, j),
                                      r.broadcast(h.beta, r.shape(old)),
                                      r.select(below(r, index, j), h.v, old));
        return Values{with_column(r, reflected, stored, j),
                      with_column(r, state[1], h.tau, j)};
      });
  return {results[0], results[1]};
}

// Q x or, transposed, Q^T x of the reflections.
Value apply(Builder& b, Value factors, Value tau, Value x, bool transpose) {
  const int64_t k = b.shape(tau)[2];
  return loop(
      b,
      k,
      {x},
      {factors, tau},
      [=](Builder& r, Value step, const Values& state, const Values& f) {
        const Value i =
            transpose ? step : r.sub(r.constant(DType::Int32, k - 1), step);
        return Values{
            reflect(r, state[0], reflector(r, f[0], i), column(r, f[1], i))};
      })[0];
}

// The first `columns` columns of Q.
Value orthogonal(Builder& b, Value factors, Value tau, int64_t columns) {
  const auto shape = b.shape(factors);
  return apply(
      b, factors, tau, identity(b, shape[0], shape[1], columns), false);
}

// tau of an argument [..., k] as [batch, 1, k].
Value taus(Op& op, int i) {
  Shape shape = op.type(i).shape;
  shape.insert(shape.end() - 1, 1);
  return matrices(op.b, op.b.reshape(op.in(i), shape));
}

Values qr(Op& op) {
  auto& b = op.b;
  const Value a = matrices(op, 0);
  const auto shape = b.shape(a);
  const auto f = factor(b, a);
  const std::string mode = op.has(1) ? op.string(1) : "reduced";
  const int64_t k =
      mode == "complete" ? shape[1] : std::min(shape[1], shape[2]);
  const Value r = upper_triangle(b, narrow(b, f.factors, 1, 0, k));
  const Value q = mode == "r"
                      ? b.constant(op.result(), std::string{})
                      : as_result(op, orthogonal(b, f.factors, f.tau, k));
  return {q, as_result(op, r, 1)};
}

// input, tau
Values householder_product(Op& op) {
  const Value factors = matrices(op, 0);
  const int64_t columns = op.b.shape(factors)[2];
  return {as_result(op, orthogonal(op.b, factors, taus(op, 1), columns))};
}

// input, tau, other, left, transpose
Values multiply(Op& op) {
  auto& b = op.b;
  const Value factors = matrices(op, 0), tau = taus(op, 1);
  const Value x = matrices(op, 2);
  const bool left = !op.has(3) || op.flag(3), transpose = op.flag(4);
  if (left) {
    return {as_result(op, apply(b, factors, tau, x, transpose))};
  }
  const Value y = apply(b, factors, tau, transposed(b, x), !transpose);
  return {as_result(op, transposed(b, y))};
}

const bool registered = [] {
  lower("aten::linalg_qr", &qr);
  lower("aten::linalg_householder_product", &householder_product);
  lower("aten::ormqr", &multiply);
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
