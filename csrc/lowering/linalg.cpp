// SPDX-License-Identifier: Apache-2.0
// Cholesky and LU factorisations, and what is solved with them. The loops over
// columns and rows have static trip counts. Pivots and `info` are LAPACK's:
// one-based, and 0 for success.
#include "lowering/matrix.h"

namespace neuronx::lowering {
namespace {

using ir::Builder;
using ir::Compare;
using ir::Reduce;

// An error that depends on the data is raised by the host.
void expect_unchecked(Op& op, int check_errors) {
  if (op.flag(check_errors)) {
    throw Unsupported("a program cannot raise an error that depends on data");
  }
}

struct Cholesky {
  Value factor, info;
};

// Column by column, of the lower triangle. `info` is the order of the leading
// minor that is not positive.
Cholesky cholesky(Builder& b, Value a) {
  const auto shape = b.shape(a);
  const Value info = b.constant(DType::Int32, 0, {shape[0], 1, 1});
  const auto results = loop(
      b,
      shape[1],
      {fill_like(b, a, 0), info},
      {a},
      [](Builder& r, Value j, const Values& state, const Values& fixed) {
        const Value factor = state[0], failed = state[1];
        const Value done = matmul(r, factor, transposed(r, row(r, factor, j)));
        const Value rest = r.sub(column(r, fixed[0], j), done);
        const Value pivot = row(r, rest, j);
        const Value positive = compare(r, Compare::GT, pivot, 0);
        const Value alive = compare(r, Compare::EQ, failed, 0);
        const Value root = r.sqrt(r.select(
            r.logical_and(positive, alive), pivot, fill_like(r, pivot, 1)));
        const Value scaled = r.div(rest, r.broadcast(root, r.shape(rest)));
        const Value above = r.logical_not(r.logical_or(
            at(r, row_index(r, rest), j), below(r, row_index(r, rest), j)));
        const Value next = r.select(above, fill_like(r, scaled, 0), scaled);
        const Value order =
            r.broadcast(r.add(j, r.constant(DType::Int32, 1)), r.shape(failed));
        const Value fails = r.logical_and(alive, r.logical_not(positive));
        return Values{with_column(r, factor, next, j),
                      r.select(fails, order, failed)};
      });
  return {results[0], results[1]};
}

Cholesky cholesky(Op& op, bool upper) {
  const Value a = matrices(op, 0);
  auto result = cholesky(op.b, upper ? transposed(op.b, a) : a);
  if (upper) {
    result.factor = transposed(op.b, result.factor);
  }
  return result;
}

// X of A X = B, by substitution, row by row. The other triangle is not read.
Value substitute(Builder& b, Value a, Value rhs, bool upper, bool unit) {
  const int64_t n = b.shape(a)[1];
  const Value strict =
      upper ? upper_triangle(b, a, 1) : lower_triangle(b, a, -1);
  Values fixed{strict, rhs};
  if (!unit) {
    const Value d = diagonal(b, a);
    fixed.push_back(b.reshape(d, {b.shape(d)[0], n, 1}));
  }
  return loop(
      b,
      n,
      {fill_like(b, rhs, 0)},
      fixed,
      [=](Builder& r, Value step, const Values& state, const Values& f) {
        const Value i =
            upper ? r.sub(r.constant(DType::Int32, n - 1), step) : step;
        const Value known = matmul(r, row(r, f[0], i), state[0]);
        Value x = r.sub(row(r, f[1], i), known);
        if (!unit) {
          x = r.div(x, r.broadcast(row(r, f[2], i), r.shape(x)));
        }
        return Values{with_row(r, state[0], x, i)};
      })[0];
}

Value substitute(
    Builder& b, Value a, Value rhs, bool upper, bool unit, bool left) {
  if (left) {
    return substitute(b, a, rhs, upper, unit);
  }
  const Value x =
      substitute(b, transposed(b, a), transposed(b, rhs), !upper, unit);
  return transposed(b, x);
}

// Argument i with the batch of the result of shape `result`.
Value batched(Op& op, int i, const Shape& result) {
  Shape shape(result.begin(), result.end() - 2);
  const auto own = op.type(i).shape;
  shape.insert(shape.end(), own.end() - 2, own.end());
  matrices(op, i);
  return matrices(op.b, op.b.broadcast(op.in(i), shape));
}

// self, B, upper, left, unitriangular
Values solve_triangular(Op& op) {
  const auto shape = op.result().shape;
  const Value a = batched(op, 0, shape), rhs = batched(op, 1, shape);
  const Value x = substitute(
      op.b, a, rhs, op.flag(2), op.flag(4), !op.has(3) || op.flag(3));
  return {as_result(op, x)};
}

// self, A, upper, transpose, unitriangular
Values triangular_solve(Op& op) {
  auto& b = op.b;
  const auto shape = op.result().shape;
  const Value rhs = batched(op, 0, shape), a = batched(op, 1, shape);
  const bool upper = !op.has(2) || op.flag(2), transpose = op.flag(3);
  const Value x = substitute(
      b, transpose ? transposed(b, a) : a, rhs, upper != transpose, op.flag(4));
  return {as_result(op, x), as_result(op, a, 1)};
}

// X of A X = B, for A = L L^T.
Value solve_cholesky(Builder& b, Value l, Value rhs) {
  const Value y = substitute(b, l, rhs, false, false);
  return substitute(b, transposed(b, l), y, true, false);
}

Value lower_factor(Op& op, int factor, int upper) {
  const Value l = matrices(op, factor);
  return op.flag(upper) ? transposed(op.b, l) : l;
}

struct LU {
  Value factors;  // L below the diagonal, U on and above it
  Value pivots;   // int32 [batch, min(rows, columns)]
  Value info;     // int32 [batch]
};

// Partial pivoting, column by column; right-looking as LAPACK's getf2.
LU lu(Builder& b, Value a) {
  const auto shape = b.shape(a);
  const int64_t k = std::min(shape[1], shape[2]);
  const Value pivots = b.constant(DType::Int32, 0, {shape[0], 1, k});
  const Value info = b.constant(DType::Int32, 0, {shape[0], 1, 1});
  const auto results = loop(
      b,
      k,
      {a, pivots, info},
      {},
      [](Builder& r, Value j, const Values& state, const Values&) {
        Value x = state[0];
        const auto shape = r.shape(x);
        const Shape vector{shape[0], shape[1], 1}, one{shape[0], 1, 1};
        const Value index = r.iota({DType::Int32, vector}, 1);
        const Value under = below(r, index, j);
        // The first row, from j on, of the largest magnitude.
        const Value size = r.select(r.logical_or(under, at(r, index, j)),
                                    r.unary("abs", column(r, x, j)),
                                    fill(r, DType::Float32, vector, -1));
        const Value largest = r.reshape(r.reduce(size, Reduce::Max, {1}), one);
        const Value last = fill_like(r, index, double(shape[1] - 1));
        const Value among =
            r.select(r.compare(Compare::EQ, size, r.broadcast(largest, vector)),
                     index,
                     last);
        const Value p = r.reshape(r.reduce(among, Reduce::Min, {1}), one);
        // Rows j and p change places.
        const Value is_p =
            r.compare(Compare::EQ, row_index(r, x), r.broadcast(p, shape));
        const Value old = row(r, x, j);
        const Value found = r.reshape(
            r.reduce(r.select(is_p, x, fill_like(r, x, 0)), Reduce::Add, {1}),
            {shape[0], 1, shape[2]});
        x = with_row(r, r.select(is_p, r.broadcast(old, shape), x), found, j);
        // Elimination below the pivot.
        const Value pivot = column(r, found, j);
        const Value singular = compare(r, Compare::EQ, pivot, 0);
        const Value rest = column(r, x, j);
        const Value scaled = r.select(
            r.logical_and(under, r.logical_not(r.broadcast(singular, vector))),
            r.div(rest, r.broadcast(pivot, vector)),
            rest);
        x = with_column(r, x, scaled, j);
        const Value right = below(r, r.iota({DType::Int32, shape}, 2), j);
        const Value inside = r.logical_and(below(r, row_index(r, x), j), right);
        const Value product =
            r.mul(r.broadcast(scaled, shape), r.broadcast(found, shape));
        x = r.select(inside, r.sub(x, product), x);

        const Value next = r.constant(DType::Int32, 1, one);
        const Value order = r.add(r.broadcast(j, one), next);
        const Value fails =
            r.logical_and(singular, compare(r, Compare::EQ, state[2], 0));
        return Values{x,
                      with_column(r, state[1], r.add(p, next), j),
                      r.select(fails, order, state[2])};
      });
  return {results[0], results[1], results[2]};
}

// The rows exchanged as the pivots say: P^T X, or P X from the last pivot on.
Value exchange(Builder& b, Value x, Value pivots, bool backwards) {
  const int64_t k = b.shape(pivots)[2];
  return loop(
      b,
      k,
      {x},
      {pivots},
      [=](Builder& r, Value step, const Values& state, const Values& fixed) {
        const Value y = state[0];
        const auto shape = r.shape(y);
        const Value i =
            backwards ? r.sub(r.constant(DType::Int32, k - 1), step) : step;
        const Value p = column(r, fixed[0], i);
        const Value other =
            r.compare(Compare::EQ,
                      row_index(r, y),
                      r.broadcast(r.sub(p, fill_like(r, p, 1)), shape));
        const Value here = row(r, y, i);
        const Value there = r.reshape(
            r.reduce(r.select(other, y, fill_like(r, y, 0)), Reduce::Add, {1}),
            {shape[0], 1, shape[2]});
        return Values{with_row(
            r, r.select(other, r.broadcast(here, shape), y), there, i)};
      })[0];
}

// X of A X = B or, adjoint, of A^T X = B, for A = P L U.
Value solve_lu(
    Builder& b, Value factors, Value pivots, Value rhs, bool adjoint) {
  if (!adjoint) {
    const Value permuted = exchange(b, rhs, pivots, false);
    const Value y = substitute(b, factors, permuted, false, true);
    return substitute(b, factors, y, true, false);
  }
  const Value f = transposed(b, factors);
  const Value y = substitute(b, f, rhs, false, false);
  return exchange(b, substitute(b, f, y, true, true), pivots, true);
}

Value solve_lu(Builder& b,
               Value factors,
               Value pivots,
               Value rhs,
               bool left,
               bool adjoint) {
  return left ? solve_lu(b, factors, pivots, rhs, adjoint)
              : transposed(
                    b,
                    solve_lu(b, factors, pivots, transposed(b, rhs), !adjoint));
}

// For determinants ATen factors the transpose of a contiguous matrix, and the
// backward formulas expect that of the factors that they are given.
LU lu_of_transpose_if_contiguous(Op& op) {
  const Value a = matrices(op, 0);
  return lu(op.b, op.contiguous(0) ? transposed(op.b, a) : a);
}

// -1 for an odd number of exchanges: [batch].
Value parity(Builder& b, Value pivots) {
  const auto shape = b.shape(pivots);
  const Value order = b.add(b.iota({DType::Int32, shape}, 2),
                            b.constant(DType::Int32, 1, shape));
  const Value moved = b.compare(Compare::NE, pivots, order);
  const Value signs = b.select(moved,
                               fill(b, DType::Float32, shape, -1),
                               fill(b, DType::Float32, shape, 1));
  return b.reduce(signs, Reduce::Mul, {1, 2});
}

Values determinant(Op& op) {
  auto& b = op.b;
  const auto f = lu_of_transpose_if_contiguous(op);
  const Value product = b.reduce(diagonal(b, f.factors), Reduce::Mul, {1});
  return {as_result(op, b.mul(product, parity(b, f.pivots))),
          as_result(op, f.factors, 1),
          as_result(op, f.pivots, 2)};
}

Values log_determinant(Op& op) {
  auto& b = op.b;
  const auto f = lu_of_transpose_if_contiguous(op);
  const Value d = diagonal(b, f.factors);
  const Value above = b.convert(compare(b, Compare::GT, d, 0), DType::Float32);
  const Value under = b.convert(compare(b, Compare::LT, d, 0), DType::Float32);
  const Value sign = b.reduce(b.sub(above, under), Reduce::Mul, {1});
  const Value logs = b.log(b.unary("abs", d));
  return {as_result(op, b.mul(sign, parity(b, f.pivots))),
          as_result(op, b.reduce(logs, Reduce::Add, {1}), 1),
          as_result(op, f.factors, 2),
          as_result(op, f.pivots, 3)};
}

// A, B, left, check_errors. B is a batch of vectors if it has A's shape without
// the last dimension.
Values solve(Op& op) {
  expect_unchecked(op, 3);
  auto& b = op.b;
  const auto f = lu(b, matrices(op, 0));
  const auto a = op.type(0).shape, given = op.type(1).shape;
  const bool vector =
      given.size() == 1 || given == Shape(a.begin(), a.end() - 1);
  Shape shape = op.result().shape, rhs = given;
  if (vector) {
    shape.push_back(1);
    rhs.push_back(1);
  }
  const auto spread_batch = [&](Value x, Shape own) {
    Shape to(shape.begin(), shape.end() - 2);
    to.insert(to.end(), own.end() - 2, own.end());
    return matrices(b, b.broadcast(b.reshape(x, own), to));
  };
  Shape pivots(a.begin(), a.end() - 1);
  pivots.insert(pivots.end() - 1, 1);
  const bool left = !op.has(2) || op.flag(2);
  const Value x = solve_lu(b,
                           spread_batch(f.factors, a),
                           spread_batch(f.pivots, pivots),
                           spread_batch(op.in(1), rhs),
                           left,
                           false);
  return {as_result(op, x),
          as_result(op, f.factors, 1),
          as_result(op, f.pivots, 2),
          as_result(op, f.info, 3)};
}

Values invert(Op& op) {
  expect_unchecked(op, 1);
  auto& b = op.b;
  const Value a = matrices(op, 0);
  const auto shape = b.shape(a);
  const auto f = lu(b, a);
  const Value unit = identity(b, shape[0], shape[1], shape[1]);
  return {as_result(op, solve_lu(b, f.factors, f.pivots, unit, false)),
          as_result(op, f.info, 1)};
}

void expect_pivoting(Op& op, int pivot) {
  if (op.has(pivot) && !op.flag(pivot)) {
    throw Unsupported("LU without pivoting");
  }
}

Values lu_factor(Op& op) {
  expect_pivoting(op, 1);
  expect_unchecked(op, 2);
  const auto f = lu(op.b, matrices(op, 0));
  return {as_result(op, f.factors),
          as_result(op, f.pivots, 1),
          as_result(op, f.info, 2)};
}

Value permutation(Builder& b, Value pivots, int64_t rows) {
  const Value unit = identity(b, b.shape(pivots)[0], rows, rows);
  return exchange(b, unit, pivots, true);
}

// L with ones on its diagonal, and U, of [batch, m, n].
std::pair<Value, Value> unpacked(Builder& b, Value factors) {
  const auto shape = b.shape(factors);
  const int64_t k = std::min(shape[1], shape[2]);
  const Value left = narrow(b, lower_triangle(b, factors, -1), 2, 0, k);
  return {b.add(left, identity(b, shape[0], shape[1], k)),
          upper_triangle(b, narrow(b, factors, 1, 0, k))};
}

Value empty(Op& op, int k) {
  return op.b.constant(op.result(k), std::string{});
}

// [batch, 1, pivots] of an argument [..., pivots].
Value pivots_of(Op& op, int i) {
  const auto shape = op.type(i).shape;
  const int64_t k = shape.back();
  int64_t batch = 1;
  for (size_t d = 0; d + 1 < shape.size(); ++d) {
    batch *= shape[d];
  }
  return op.b.reshape(op.in(i), {batch, 1, k});
}

// LU_data, LU_pivots, unpack_data, unpack_pivots
Values unpack(Op& op) {
  auto& b = op.b;
  const Value factors = matrices(op, 0);
  Values results(3);
  if (!op.has(3) || op.flag(3)) {
    const Value pivots = pivots_of(op, 1);
    results[0] = as_result(op, permutation(b, pivots, b.shape(factors)[1]));
  } else {
    results[0] = empty(op, 0);
  }
  if (!op.has(2) || op.flag(2)) {
    const auto [l, u] = unpacked(b, factors);
    results[1] = as_result(op, l, 1);
    results[2] = as_result(op, u, 2);
  } else {
    results[1] = empty(op, 1);
    results[2] = empty(op, 2);
  }
  return results;
}

Values lu_matrices(Op& op) {
  expect_pivoting(op, 1);
  auto& b = op.b;
  const Value a = matrices(op, 0);
  const auto f = lu(b, a);
  const auto [l, u] = unpacked(b, f.factors);
  return {as_result(op, permutation(b, f.pivots, b.shape(a)[1])),
          as_result(op, l, 1),
          as_result(op, u, 2)};
}

// LU, pivots, B, left, adjoint
Values lu_solve(Op& op) {
  auto& b = op.b;
  const auto shape = op.result().shape;
  Shape pivots(shape.begin(), shape.end() - 2);
  pivots.push_back(op.type(1).shape.back());
  const Value swaps = b.broadcast(op.in(1), pivots);
  pivots.insert(pivots.end() - 1, 1);
  const Value x = solve_lu(b,
                           batched(op, 0, shape),
                           matrices(b, b.reshape(swaps, pivots)),
                           batched(op, 2, shape),
                           !op.has(3) || op.flag(3),
                           op.flag(4));
  return {as_result(op, x)};
}

const bool registered = [] {
  lower("aten::linalg_cholesky_ex", [](Op& op) -> Values {
    expect_unchecked(op, 2);
    const auto result = cholesky(op, op.flag(1));
    return {as_result(op, result.factor), as_result(op, result.info, 1)};
  });
  // The kernel in csrc/aten raises what these cannot.
  lower("aten::cholesky", [](Op& op) -> Values {
    return {as_result(op, cholesky(op, op.flag(1)).factor)};
  });
  lower("aten::cholesky_inverse", [](Op& op) -> Values {
    const Value l = lower_factor(op, 0, 1);
    const auto shape = op.b.shape(l);
    const Value unit = identity(op.b, shape[0], shape[1], shape[1]);
    return {as_result(op, solve_cholesky(op.b, l, unit))};
  });
  // self, A, upper
  lower("aten::_cholesky_solve_helper", [](Op& op) -> Values {
    const Value l = lower_factor(op, 1, 2);
    return {as_result(op, solve_cholesky(op.b, l, matrices(op, 0)))};
  });
  lower("aten::linalg_solve_triangular", &solve_triangular);
  lower("aten::triangular_solve", &triangular_solve);
  lower("aten::linalg_lu_factor_ex", &lu_factor);
  lower("aten::linalg_lu", &lu_matrices);
  lower("aten::lu_unpack", &unpack);
  lower("aten::linalg_lu_solve", &lu_solve);
  lower("aten::_linalg_solve_ex", &solve);
  lower("aten::linalg_inv_ex", &invert);
  lower("aten::_linalg_det", &determinant);
  lower("aten::_linalg_slogdet", &log_determinant);
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
