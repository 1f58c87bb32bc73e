// SPDX-License-Identifier: Apache-2.0
// Gathers and scatters.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "common/permutation.h"
#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

using ir::Builder;
using ir::Compare;

ir::Region combine(const std::string& op) {
  return [op](Builder& r, const ir::Values& v) -> ir::Values {
    return {op.empty() ? v[1] : r.binary(op, v[0], v[1])};
  };
}

// Rows of x along dim 0 by index of any shape.
Value take_rows(Builder& b, Value x, Value index) {
  const Shape shape = b.shape(x);
  index = b.check_index(index, 0, shape[0]);
  const int64_t index_rank = b.rank(index);
  ir::GatherDimensions dims;
  dims.collapsed = {0};
  dims.start_index_map = {0};
  dims.index_vector = index_rank;
  dims.slice_sizes = shape;
  dims.slice_sizes[0] = 1;
  for (int64_t d = 1; d < static_cast<int64_t>(shape.size()); ++d) {
    dims.offset.push_back(index_rank + d - 1);
  }
  return b.gather(x, index, dims);
}

Value index_select(Builder& b, Value x, int64_t dim, Value index) {
  if (b.rank(x) == 0) {
    return x;
  }
  if (b.rank(index) == 0) {
    index = b.reshape(index, {1});
  }
  const int64_t rank = b.rank(x);
  index = b.check_index(index, 0, b.shape(x)[dim]);
  ir::GatherDimensions dims;
  dims.collapsed = {dim};
  dims.start_index_map = {dim};
  dims.index_vector = 1;
  dims.slice_sizes = b.shape(x);
  dims.slice_sizes[dim] = 1;
  for (int64_t d = 0; d < rank; ++d) {
    if (d != dim) {
      dims.offset.push_back(d);
    }
  }
  return b.gather(x, index, dims);
}

// Full coordinates [index shape..., rank] for gather and scatter along dim,
// which has `size` elements.
Value coordinates(Builder& b, Value index, int64_t dim, int64_t size) {
  const Shape shape = b.shape(index);
  index = b.check_index(index, 0, size);
  Shape one = shape;
  one.push_back(1);
  Values parts;
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d) {
    const Value part = d == dim ? b.convert(index, DType::Int64)
                                : b.iota({DType::Int64, shape}, d);
    parts.push_back(b.reshape(part, one));
  }
  return b.concatenate(parts, static_cast<int64_t>(shape.size()));
}

Values gather(Op& op) {
  auto& b = op.b;
  Value x = op.in(0), index = op.in(2);
  if (b.type(index).numel() == 0) {
    return {b.constant(op.result(), std::string{})};
  }
  if (b.rank(x) == 0 || b.rank(index) == 0) {
    return {
        b.broadcast(b.rank(x) == 0 ? x : b.reshape(take_rows(b, x, index), {}),
                    op.result().shape)};
  }
  const int64_t rank = b.rank(x);
  ir::GatherDimensions dims;
  for (int64_t d = 0; d < rank; ++d) {
    dims.collapsed.push_back(d);
    dims.start_index_map.push_back(d);
  }
  dims.index_vector = rank;
  dims.slice_sizes = Shape(rank, 1);
  const int64_t dim = wrap(op.integer(1), rank);
  return {b.gather(x, coordinates(b, index, dim, b.shape(x)[dim]), dims)};
}

// x with updates combined in along dim at index.
Value scatter(Builder& b,
              Value x,
              int64_t dim,
              Value index,
              Value updates,
              const std::string& op) {
  if (b.type(index).numel() == 0) {
    return x;
  }
  const Shape shape = b.shape(x);
  if (shape.empty()) {
    x = b.reshape(x, {1});
  }
  if (b.rank(index) == 0) {
    index = b.reshape(index, {1});
    updates = b.reshape(updates, {1});
  }
  const int64_t rank = b.rank(x);
  if (b.shape(updates) != b.shape(index)) {
    updates = b.slice(updates, Shape(rank, 0), b.shape(index), Shape(rank, 1));
  }
  ir::ScatterDimensions dims;
  for (int64_t d = 0; d < rank; ++d) {
    dims.inserted_window.push_back(d);
    dims.scatter_to_operand.push_back(d);
  }
  dims.index_vector = rank;
  return b.reshape(b.scatter(x,
                             coordinates(b, index, dim, b.shape(x)[dim]),
                             updates,
                             dims,
                             combine(op)),
                   shape);
}

// index_put and friends: rows of x (leading dims indexed) updated.
struct Indexed {
  Shape order;      // x's dims, indexed ones first
  Shape indexed;    // the indexed dims
  Value positions;  // [broadcast shape..., number of indexed dims]
  Shape broadcast;
  bool adjacent = true;
};

// Counts negative indices from the end.
Value wrap_index(Builder& b, Value index, int64_t size) {
  index = b.check_index(index, -size, size);
  return b.select(b.compare(Compare::LT, index, fill_like(b, index, 0)),
                  b.add(index, b.constant(DType::Int64, size, b.shape(index))),
                  index);
}

Indexed analyse(Op& op, const Values& indices, Shape shape) {
  auto& b = op.b;
  Indexed result;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d]) {
      continue;
    }
    if (b.dtype(indices[d]) == DType::Bool ||
        b.dtype(indices[d]) == DType::UInt8) {
      throw Unsupported(
          "a mask selects a number of elements that depends on "
          "the data");
    }
    result.adjacent = result.adjacent &&
                      (result.indexed.empty() ||
                       result.indexed.back() + 1 == static_cast<int64_t>(d));
    result.indexed.push_back(static_cast<int64_t>(d));
    result.broadcast = broadcast_shape(result.broadcast, b.shape(indices[d]));
  }
  result.order = result.indexed;
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d) {
    if (std::find(result.indexed.begin(), result.indexed.end(), d) ==
        result.indexed.end()) {
      result.order.push_back(d);
    }
  }
  Shape one = result.broadcast;
  one.push_back(1);
  Values parts;
  for (int64_t d : result.indexed) {
    const Value index =
        wrap_index(b, b.convert(indices[d], DType::Int64), shape[d]);
    parts.push_back(b.reshape(b.broadcast(index, result.broadcast), one));
  }
  result.positions =
      b.concatenate(parts, static_cast<int64_t>(result.broadcast.size()));
  return result;
}

// Where PyTorch puts the indexed dimensions: in place of adjacent ones, else
// in front. Maps [broadcast..., rest...] to the result's order.
Shape result_order(const Indexed& indexed) {
  const auto n = static_cast<int64_t>(indexed.broadcast.size());
  const auto rest =
      static_cast<int64_t>(indexed.order.size() - indexed.indexed.size());
  const int64_t before = indexed.adjacent ? indexed.indexed[0] : 0;
  Shape order;
  for (int64_t d = 0; d < before; ++d) {
    order.push_back(n + d);
  }
  for (int64_t d = 0; d < n; ++d) {
    order.push_back(d);
  }
  for (int64_t d = before; d < rest; ++d) {
    order.push_back(n + d);
  }
  return order;
}

Values index(Op& op) {
  auto& b = op.b;
  const Value x = op.in(0);
  const auto indices = op.list(1);
  const auto indexed = analyse(op, indices, b.shape(x));
  const Value front = b.transpose(x, indexed.order);
  const auto n = static_cast<int64_t>(indexed.broadcast.size());
  const auto k = static_cast<int64_t>(indexed.indexed.size());
  ir::GatherDimensions dims;
  dims.index_vector = n;
  dims.slice_sizes = b.shape(front);
  for (int64_t d = 0; d < k; ++d) {
    dims.collapsed.push_back(d);
    dims.start_index_map.push_back(d);
    dims.slice_sizes[d] = 1;
  }
  for (int64_t d = k; d < b.rank(x); ++d) {
    dims.offset.push_back(n + d - k);
  }
  const Value taken = b.gather(front, indexed.positions, dims);
  return {b.transpose(taken, result_order(indexed))};
}

Values index_put(Op& op) {
  // self, indices, values, accumulate
  auto& b = op.b;
  const Value x = op.in(0);
  const auto indices = op.list(1);
  const Value values = op.in(2, b.dtype(x));
  // A single mask as large as x with one value is a select.
  if (indices.size() == 1 && indices[0] && b.dtype(indices[0]) == DType::Bool &&
      b.shape(indices[0]) == b.shape(x) && b.type(values).numel() == 1 &&
      !op.flag(3)) {
    return {b.select(
        indices[0], b.broadcast(b.reshape(values, {}), b.shape(x)), x)};
  }
  const auto indexed = analyse(op, indices, b.shape(x));
  const Value front = b.transpose(x, indexed.order);
  const auto n = static_cast<int64_t>(indexed.broadcast.size());
  const auto k = static_cast<int64_t>(indexed.indexed.size());
  // values broadcast to the result of x[indices], then indexed dims first.
  const auto order = result_order(indexed);
  Shape gathered = indexed.broadcast;
  for (int64_t d = k; d < b.rank(x); ++d) {
    gathered.push_back(b.shape(front)[d]);
  }
  Shape target;
  for (int64_t d : order) {
    target.push_back(gathered[d]);
  }
  const Value updates =
      b.transpose(b.broadcast(values, target), inverse(order));
  if (b.type(updates).numel() == 0) {
    return {x};
  }
  ir::ScatterDimensions dims;
  dims.index_vector = n;
  for (int64_t d = 0; d < k; ++d) {
    dims.inserted_window.push_back(d);
    dims.scatter_to_operand.push_back(d);
  }
  for (int64_t d = k; d < b.rank(x); ++d) {
    dims.update_window.push_back(n + d - k);
  }
  const std::string how = !op.flag(3)                 ? ""
                          : b.dtype(x) == DType::Bool ? "or"
                                                      : "add";
  const Value written =
      b.scatter(front, indexed.positions, updates, dims, combine(how));
  return {b.transpose(written, inverse(indexed.order))};
}

// x with slices of source combined in at index along dim.
Value update_slices(Builder& b,
                    Value x,
                    int64_t dim,
                    Value index,
                    Value source,
                    const std::string& how) {
  const Shape shape = b.shape(x);
  index = b.convert(index, DType::Int64);
  if (b.rank(index) == 0) {
    index = b.reshape(index, {1});
  }
  if (shape.empty()) {
    x = b.reshape(x, {1});
    source = b.reshape(source, {1});
  }
  if (b.rank(source) == 0) {
    source = b.reshape(source, {1});
  }
  index = b.check_index(index, 0, b.shape(x)[dim]);
  const int64_t rank = b.rank(x);
  ir::ScatterDimensions dims;
  dims.index_vector = 1;
  dims.inserted_window = {dim};
  dims.scatter_to_operand = {dim};
  for (int64_t d = 0; d < rank; ++d) {
    if (d != dim) {
      dims.update_window.push_back(d);
    }
  }
  return b.reshape(b.scatter(x, index, source, dims, combine(how)), shape);
}

// self, dim, index, source: slices of source at index along dim.
Values index_update(Op& op, const std::string& how) {
  auto& b = op.b;
  const Value x = op.in(0);
  Value source = op.in(3, b.dtype(x));
  if (op.name().starts_with("aten::index_add") && op.has(4) &&
      op.number(4) != 1) {
    source =
        b.mul(source, b.broadcast(op.scalar(4, b.dtype(x)), b.shape(source)));
  }
  const int64_t dim = wrap(op.integer(1), b.rank(x));
  return {update_slices(b, x, dim, op.in(2), source, how)};
}

// self, dim, index, value: indices count from the end if negative.
Values index_fill(Op& op) {
  auto& b = op.b;
  const Value x = op.in(0);
  const Value value = op.scalar(3, b.dtype(x));
  Shape filled = b.shape(x).empty() ? Shape{1} : b.shape(x);
  const int64_t dim = wrap(op.integer(1), b.rank(x));
  Value index = b.convert(op.in(2), DType::Int64);
  index = wrap_index(b, b.reshape(index, {b.type(index).numel()}), filled[dim]);
  filled[dim] = b.shape(index)[0];
  const Value source = b.broadcast(b.reshape(value, {}), filled);
  return {update_slices(b, x, dim, index, source, "")};
}

// The end of a type's range.
Value bound(Builder& b, DType dtype, bool upper, Shape shape) {
  if (is_floating_point(dtype)) {
    return b.constant(dtype, upper ? INFINITY : -INFINITY, shape);
  }
  if (dtype == DType::Bool) {
    return b.constant(dtype, upper ? 1 : 0, shape);
  }
  const int bits = static_cast<int>(itemsize(dtype)) * 8;
  if (is_unsigned(dtype)) {
    return b.constant(dtype, upper ? (int64_t{1} << bits) - 1 : 0, shape);
  }
  const int64_t low = std::numeric_limits<int64_t>::min() >> (64 - bits);
  return b.constant(dtype, upper ? -(low + 1) : low, shape);
}

// Writes updates into x at places that it knows, combining by an operation.
using Put = std::function<Value(Value x, Value updates, const std::string&)>;

// self, dim, index, source, reduce, include_self
Values reduce_into(Op& op, const Put& put) {
  auto& b = op.b;
  const DType dtype = opmath(op.type(0).dtype);
  const Value x = op.in(0, dtype), source = op.in(3, dtype);
  const bool include = !op.has(5) || op.flag(5);
  const std::string how = op.string(4);
  const bool mean = how == "mean";
  const std::string operation = how == "sum" || mean ? "add"
                                : how == "prod"      ? "multiply"
                                : how == "amax"      ? "maximum"
                                : how == "amin"      ? "minimum"
                                                     : "";
  if (operation.empty()) {
    throw Unsupported(how + " is no reduction");
  }
  Value start = x;
  if (!include) {
    const Shape shape = b.shape(source);
    const Value neutral = how == "amax"   ? bound(b, dtype, false, shape)
                          : how == "amin" ? bound(b, dtype, true, shape)
                          : how == "prod" ? b.constant(dtype, 1, shape)
                                          : b.constant(dtype, 0, shape);
    start = put(x, neutral, "");
  }
  const Value reduced = put(start, source, operation);
  if (!mean) {
    return {reduced};
  }
  const Value one = fill_like(b, x, 1);
  const Value count = b.max(
      put(include ? one : fill_like(b, x, 0), fill_like(b, source, 1), "add"),
      one);
  Value quotient = b.div(reduced, count);
  if (!is_floating_point(dtype) && !is_unsigned(dtype)) {
    // Rounded down, not towards zero.
    const Value excess =
        b.compare(Compare::GT, b.mul(quotient, count), reduced);
    quotient = b.select(excess, b.sub(quotient, one), quotient);
  }
  return {quotient};
}

Values embedding_backward(Op& op) {
  // grad, indices, num_weights, padding_idx, scale_grad_by_freq
  auto& b = op.b;
  if (op.flag(4)) {
    throw Unsupported("scale_grad_by_freq");
  }
  const DType dtype = opmath(op.result().dtype);
  Value index = b.convert(op.in(1), DType::Int64);
  const int64_t n = b.type(index).numel();
  const int64_t width = op.result().shape[1];
  index = b.reshape(index, {n});
  Value grad = b.reshape(op.in(0, dtype), {n, width});
  const Value padding = b.constant(DType::Int64, op.integer(3), {n});
  const Value real = b.compare(Compare::NE, index, padding);
  grad = b.select(
      b.broadcast_in_dim(real, {n, width}, {0}), grad, fill_like(b, grad, 0));
  ir::ScatterDimensions dims;
  dims.index_vector = 1;
  dims.inserted_window = {0};
  dims.scatter_to_operand = {0};
  dims.update_window = {1};
  return {b.scatter(b.constant(dtype, 0, op.result().shape),
                    index,
                    grad,
                    dims,
                    combine("add"))};
}

Values is_in(Op& op) {
  // elements, test_elements, assume_unique, invert
  auto& b = op.b;
  const DType dtype = op.promoted({0, 1});
  const Value x = op.in(0, dtype);
  const Value test = op.in(1, dtype);
  const int64_t n = b.type(x).numel(), m = b.type(test).numel();
  const Value left = b.broadcast_in_dim(b.reshape(x, {n}), {n, m}, {0});
  const Value right = b.broadcast_in_dim(b.reshape(test, {m}), {n, m}, {1});
  Value found =
      b.reduce(b.compare(Compare::EQ, left, right), ir::Reduce::Or, {1});
  if (op.flag(3)) {
    found = b.logical_not(found);
  }
  return {b.reshape(found, op.result().shape)};
}

const bool registered = [] {
  lower("aten::embedding", [](Op& op) -> Values {
    return {
        op.b.reshape(take_rows(op.b, op.in(0), op.in(1)), op.result().shape)};
  });
  lower("aten::embedding_dense_backward", &embedding_backward);
  lower("aten::index_select", [](Op& op) -> Values {
    const int64_t rank = op.b.rank(op.in(0));
    return {index_select(op.b, op.in(0), wrap(op.integer(1), rank), op.in(2))};
  });
  lower("aten::gather", &gather);
  const auto scatter_of = [](const char* name, const char* how) {
    lower(name, [how = std::string(how)](Op& op) -> Values {
      auto& b = op.b;
      const Value x = op.in(0), index = op.in(2);
      const bool tensor = std::holds_alternative<ir::Operand>(op.argument(3)) &&
                          op.name() != "aten::scatter.value";
      const Value updates =
          tensor ? op.in(3, b.dtype(x))
                 : b.broadcast(op.scalar(3, b.dtype(x)), b.shape(index));
      return {
          scatter(b, x, wrap(op.integer(1), b.rank(x)), index, updates, how)};
    });
  };
  scatter_of("aten::scatter.src", "");
  scatter_of("aten::scatter.value", "");
  scatter_of("aten::scatter_add", "add");
  lower("aten::scatter_reduce.two", [](Op& op) -> Values {
    auto& b = op.b;
    const int64_t dim = wrap(op.integer(1), b.rank(op.in(0)));
    return reduce_into(op, [&](Value x, Value updates, const std::string& how) {
      return scatter(b, x, dim, op.in(2), updates, how);
    });
  });
  lower("aten::index_reduce", [](Op& op) -> Values {
    auto& b = op.b;
    const int64_t dim = wrap(op.integer(1), b.rank(op.in(0)));
    return reduce_into(op, [&](Value x, Value updates, const std::string& how) {
      return update_slices(b, x, dim, op.in(2), updates, how);
    });
  });
  lower("aten::index.Tensor", &index);
  lower("aten::_unsafe_index.Tensor", &index);
  lower("aten::index_put", &index_put);
  lower("aten::_unsafe_index_put", &index_put);
  lower("aten::_index_put_impl", &index_put);
  lower("aten::index_add", [](Op& op) { return index_update(op, "add"); });
  lower("aten::index_copy", [](Op& op) { return index_update(op, ""); });
  lower("aten::index_fill.int_Scalar", &index_fill);
  lower("aten::index_fill.int_Tensor", &index_fill);
  lower("aten::isin.Tensor_Tensor", &is_in);
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
