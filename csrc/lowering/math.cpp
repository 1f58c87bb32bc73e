// SPDX-License-Identifier: Apache-2.0
#include "lowering/math.h"

#include <numeric>

namespace neuronx::lowering {

Shape wrap_dims(Shape dims, int64_t rank) {
  if (dims.empty()) {
    return range(0, rank);
  }
  for (auto& dim : dims) {
    dim = wrap(dim, rank);
  }
  std::sort(dims.begin(), dims.end());
  if (rank == 0) {
    dims.clear();
  }
  return dims;
}

Value fill(ir::Builder& b, DType dtype, Shape shape, double value) {
  return b.constant(dtype, value, std::move(shape));
}

Value fill_like(ir::Builder& b, Value x, double value) {
  return fill(b, b.dtype(x), b.shape(x), value);
}

Value keep_dims(ir::Builder& b, Value reduced, Shape original, Shape dims) {
  for (int64_t dim : dims) {
    original[dim] = 1;
  }
  return b.reshape(reduced, original);
}

Value spread(ir::Builder& b, Value reduced, Shape shape, Shape dims) {
  return b.broadcast(keep_dims(b, reduced, shape, std::move(dims)), shape);
}

Shape broadcast_shape(const Shape& a, const Shape& c) {
  const size_t rank = std::max(a.size(), c.size());
  Shape result(rank);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t x = i + a.size() < rank ? 1 : a[i + a.size() - rank];
    const int64_t y = i + c.size() < rank ? 1 : c[i + c.size() - rank];
    result[i] = x == 1 ? y : x;
  }
  return result;
}

std::pair<Value, Value> broadcast_pair(ir::Builder& b, Value a, Value c) {
  const auto shape = broadcast_shape(b.shape(a), b.shape(c));
  const Value left = b.broadcast(a, shape);
  return {left, b.broadcast(c, shape)};
}

Value narrow(ir::Builder& b, Value x, int64_t dim, int64_t start, int64_t end) {
  Shape from(b.rank(x), 0), to = b.shape(x), stride(b.rank(x), 1);
  from[dim] = start;
  to[dim] = end;
  return b.slice(x, from, to, stride);
}

int64_t count(const Shape& shape, const Shape& dims) {
  int64_t n = 1;
  for (int64_t dim : dims) {
    n *= shape[dim];
  }
  return n;
}

Shape complement(int64_t rank, const Shape& dims) {
  Shape rest;
  for (int64_t d = 0; d < rank; ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) {
      rest.push_back(d);
    }
  }
  return rest;
}

Shape range(int64_t begin, int64_t end) {
  Shape result(std::max<int64_t>(end - begin, 0));
  std::iota(result.begin(), result.end(), begin);
  return result;
}

Shape expand_list(Shape values, size_t n) {
  if (values.size() == 1) {
    values.resize(n, values[0]);
  }
  return values;
}

Value flatten(ir::Builder& b, Value x) {
  return b.reshape(x, {b.type(x).numel()});
}

Value take(ir::Builder& b, Value x, Value positions) {
  ir::GatherDimensions dims;
  dims.collapsed = {0};
  dims.start_index_map = {0};
  dims.index_vector = b.rank(positions);
  dims.slice_sizes = {1};
  return b.gather(x, positions, dims);
}

Value put(ir::Builder& b,
          Value x,
          Value positions,
          Value updates,
          const std::string& how) {
  ir::ScatterDimensions dims;
  dims.inserted_window = {0};
  dims.scatter_to_operand = {0};
  dims.index_vector = b.rank(positions);
  return b.scatter(x,
                   positions,
                   updates,
                   dims,
                   [&](ir::Builder& r, const ir::Values& v) -> ir::Values {
                     return {how.empty() ? v[1] : r.binary(how, v[0], v[1])};
                   });
}

Value running_sum(ir::Builder& b, Value x) {
  return (*call(b,
                "aten::cumsum",
                {x},
                {ir::Operand{0}, int64_t{0}, std::monostate{}},
                {b.type(x)}))[0];
}

Value average(ir::Builder& b, Value x, Shape dims) {
  const auto n = static_cast<double>(count(b.shape(x), dims));
  const Value total = b.reduce(x, ir::Reduce::Add, dims);
  return b.div(total, fill_like(b, total, n));
}

Moments moments(ir::Builder& b, Value x, Shape dims, double correction) {
  const auto n = static_cast<double>(count(b.shape(x), dims));
  const Value mean = average(b, x, dims);
  const Value centred = b.sub(x, spread(b, mean, b.shape(x), dims));
  const Value squares =
      b.reduce(b.mul(centred, centred), ir::Reduce::Add, dims);
  const Value divisor = fill_like(b, squares, std::max(0.0, n - correction));
  return {mean, b.div(squares, divisor)};
}

Value truth(ir::Builder& b, Value x) {
  return b.dtype(x) == DType::Bool ? x : compare(b, ir::Compare::NE, x, 0);
}

Value is_nan(ir::Builder& b, Value x) {
  return is_integral(b.dtype(x)) ? b.constant(DType::Bool, 0, b.shape(x))
                                 : b.compare(ir::Compare::NE, x, x);
}

Value truncate(ir::Builder& b, Value x) {
  if (is_integral(b.dtype(x))) {
    return x;
  }
  const Value negative = compare(b, ir::Compare::LT, x, 0);
  const Value up = b.unary("ceil", x);
  return b.select(negative, up, b.unary("floor", x));
}

Value compare(ir::Builder& b, ir::Compare direction, Value x, double number) {
  return b.compare(direction, x, fill_like(b, x, number));
}

Value unit(ir::Builder& b, Value bits) {
  const Value high = b.binary(
      "shift_right_logical", bits, b.constant(DType::UInt32, 8, b.shape(bits)));
  const Value x = b.convert(b.convert(high, DType::Int32), DType::Float32);
  return b.mul(x, fill_like(b, x, 0x1p-24));
}

Value reduce_loss(ir::Builder& b, Value x, int64_t reduction) {
  const auto dims = range(0, b.rank(x));
  switch (reduction) {
    case 0:
      return x;
    case 1:
      return average(b, x, dims);
    default:
      return b.reduce(x, ir::Reduce::Add, dims);
  }
}

Value along(ir::Builder& b, Value x, int64_t d, Value matrix, bool transposed) {
  ir::DotDimensions dims;
  dims.lhs_contract = {d};
  dims.rhs_contract = {transposed ? 0 : 1};
  const Value y = b.dot_general(x, matrix, dims, b.dtype(x));
  Shape order;  // the new dimension is last
  const int64_t rank = b.rank(x);
  for (int64_t i = 0; i < rank; ++i) {
    order.push_back(i < d ? i : i == d ? rank - 1 : i - 1);
  }
  return b.transpose(y, order);
}

}  // namespace neuronx::lowering
