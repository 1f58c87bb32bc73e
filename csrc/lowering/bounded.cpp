// SPDX-License-Identifier: Apache-2.0
// What is behind operators whose result size depends on the data: results of
// the largest possible size, zero behind the real ones, and their number.
// Their schemas are in aten/data_dependent.cpp.
#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

using ir::Builder;
using ir::Compare;
using ir::Reduce;

Value line(Builder& b, int64_t value, int64_t n) {
  return b.constant(DType::Int64, value, {n});
}

Value count_true(Builder& b, Value mask) {
  return b.reduce(b.convert(mask, DType::Int64), Reduce::Add, {0});
}

// 0, 1... at the true elements of the 1-D mask in order, n at the others: the
// place of each in a compacted tensor.
Value places(Builder& b, Value mask) {
  const int64_t n = b.type(mask).numel();
  const Value rank =
      b.sub(running_sum(b, b.convert(mask, DType::Int64)), line(b, 1, n));
  return b.select(mask, rank, line(b, n, n));
}

// The elements of x where the mask is true, then zeros.
Value compact(Builder& b, Value x, Value place) {
  return put(b, fill_like(b, x, 0), place, x);
}

// Flat positions in `shape` as coordinates [rank, n].
Value coordinates(Builder& b, Value position, const Shape& shape) {
  const int64_t n = b.type(position).numel();
  const auto rank = static_cast<int64_t>(shape.size());
  Values rows(rank);
  int64_t stride = 1;
  for (int64_t d = rank - 1; d >= 0; --d) {
    const Value row = b.div(position, line(b, stride, n));
    rows[d] =
        b.reshape(b.binary("remainder", row, line(b, shape[d], n)), {1, n});
    stride *= shape[d];
  }
  return b.concatenate(rows, 0);
}

Values nonzero(Op& op) {
  // self -> coordinates [rank, numel], count
  auto& b = op.b;
  const Value mask = flatten(b, truth(b, op.in(0)));
  const int64_t n = b.type(mask).numel();
  const Value position =
      compact(b, b.iota({DType::Int64, {n}}, 0), places(b, mask));
  return {coordinates(b, position, b.shape(op.in(0))), count_true(b, mask)};
}

Values nonzero_static(Op& op) {
  // self, size, fill_value -> coordinates [size, rank]
  auto& b = op.b;
  const int64_t n = op.type(0).numel(), size = op.integer(1);
  const Value fill = b.constant(DType::Int64, op.integer(2), op.result().shape);
  if (n == 0) {
    return {fill};
  }
  const Value mask = flatten(b, truth(b, op.in(0)));
  // Behind the result are the places of those that it has no room for.
  const Value place =
      b.select(mask, places(b, mask), line(b, std::max(n, size), n));
  const Value position =
      put(b, line(b, 0, size), place, b.iota({DType::Int64, {n}}, 0));
  const Value found =
      b.compare(Compare::LT,
                b.iota(op.result(), 0),
                b.broadcast(count_true(b, mask), op.result().shape));
  const Value rows =
      b.transpose(coordinates(b, position, op.type(0).shape), {1, 0});
  return {b.select(found, rows, fill)};
}

Values masked_select(Op& op) {
  // self, mask of one shape -> values [numel], count
  auto& b = op.b;
  const Value mask = flatten(b, truth(b, op.in(1)));
  return {compact(b, flatten(b, op.in(0)), places(b, mask)),
          count_true(b, mask)};
}

// Groups of equal neighbours: for each row its group, the number of groups,
// and each group's size.
struct Groups {
  Value first;  // Bool[n]: the row begins a group
  Value group;  // int64[n]
  Value sizes;  // int64[n], zero behind the last
  Value count;
};

Groups group(Builder& b, Value differs) {
  // differs: Bool[n - 1], whether row i + 1 is unlike row i.
  const int64_t n = b.type(differs).numel() + 1;
  Groups g;
  g.first = b.concatenate({b.constant(DType::Bool, 1, {1}), differs}, 0);
  g.group =
      b.sub(running_sum(b, b.convert(g.first, DType::Int64)), line(b, 1, n));
  g.sizes = put(b, line(b, 0, n), g.group, line(b, 1, n), "add");
  g.count = count_true(b, g.first);
  return g;
}

Value neighbours_differ(Builder& b, Value x) {
  const int64_t n = b.shape(x)[0];
  const Value unlike =
      b.compare(Compare::NE, narrow(b, x, 0, 1, n), narrow(b, x, 0, 0, n - 1));
  return b.rank(x) == 1 ? unlike : b.reduce(unlike, Reduce::Or, {1});
}

Value argsort(Builder& b, Value x) {
  return (*call(b,
                "aten::argsort.stable",
                {x},
                {ir::Operand{0}, true, int64_t{0}, false},
                {{DType::Int64, b.shape(x)}}))[0];
}

Value select_rows(Builder& b, Value x, Value index) {
  return (*call(b,
                "aten::index_select",
                {x, index},
                {ir::Operand{0}, int64_t{0}, ir::Operand{1}},
                {b.type(x)}))[0];
}

// Ascending: stable sorts by column, the last one first.
Value sort_rows(Builder& b, Value rows) {
  const int64_t n = b.shape(rows)[0], m = b.shape(rows)[1];
  const auto results = b.while_loop(
      {b.constant(DType::Int64, m - 1), b.iota({DType::Int64, {n}}, 0), rows},
      [](Builder& r, const ir::Values& v) -> ir::Values {
        return {compare(r, Compare::GE, v[0], 0)};
      },
      [n](Builder& r, const ir::Values& v) -> ir::Values {
        const Value zero = r.constant(DType::Int64, 0);
        const Value column =
            r.reshape(r.dynamic_slice(v[2], {zero, v[0]}, {n, 1}), {n});
        const Value order = take(r, v[1], argsort(r, take(r, column, v[1])));
        return {r.sub(v[0], r.constant(DType::Int64, 1)), order, v[2]};
      });
  return results[1];
}

// self [n] or [n, m], sorted -> values like self, inverse [n], counts [n],
// count
Values unique(Op& op) {
  auto& b = op.b;
  Value x = op.in(0);
  const int64_t n = b.shape(x)[0];
  Value order;
  if (op.flag(1)) {
    order = b.rank(x) == 1 ? argsort(b, x) : sort_rows(b, x);
    x = b.rank(x) == 1 ? take(b, x, order) : select_rows(b, x, order);
  }
  const Groups g = group(b, neighbours_differ(b, x));
  const Value place = b.select(g.first, g.group, line(b, n, n));
  Value values;
  if (b.rank(x) == 1) {
    values = compact(b, x, place);
  } else {
    // Groups' first rows in order, then the last row over and over.
    const Value starts = compact(b, b.iota({DType::Int64, {n}}, 0), place);
    values = select_rows(b, x, starts);
  }
  const Value inverse = order ? put(b, line(b, 0, n), order, g.group) : g.group;
  return {values, inverse, g.sizes, g.count};
}

Values repeat_interleave(Op& op) {
  // repeats [n], size -> the row that each of `size` results repeats
  auto& b = op.b;
  const Value repeats = op.in(0, DType::Int64);
  const int64_t n = b.shape(repeats)[0], size = op.integer(1);
  const Value ends = running_sum(b, repeats);
  const Value row = (*call(b,
                           "aten::searchsorted.Tensor",
                           {ends, b.iota({DType::Int64, {size}}, 0)},
                           {ir::Operand{0},
                            ir::Operand{1},
                            false,
                            true,
                            std::monostate{},
                            std::monostate{}},
                           {{DType::Int64, {size}}}))[0];
  return {b.min(row, line(b, n - 1, size))};
}

Values bincount(Op& op) {
  // self [n], weights [n]?, size -> counts or sums of weights [size]
  auto& b = op.b;
  const Value index = op.in(0, DType::Int64);
  const DType dtype = op.result().dtype;
  const int64_t n = b.shape(index)[0];
  const Value weights = op.has(1) ? op.in(1, dtype) : b.constant(dtype, 1, {n});
  return {
      put(b, b.constant(dtype, 0, op.result().shape), index, weights, "add")};
}

const bool registered = [] {
  lower("neuronx_bounded::nonzero", &nonzero);
  lower("aten::nonzero_static", &nonzero_static);
  lower("neuronx_bounded::masked_select", &masked_select);
  lower("neuronx_bounded::unique", &unique);
  lower("neuronx_bounded::repeat_interleave", &repeat_interleave);
  lower("neuronx_bounded::bincount", &bincount);
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
