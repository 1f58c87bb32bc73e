// SPDX-License-Identifier: Apache-2.0
// Views and other rearrangements.
#include <algorithm>
#include <numeric>

#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

Values reshaped(Op& op) {
  return {op.b.reshape(op.in(0), op.result().shape)};
}

Values identity(Op& op) {
  return {op.in(0)};
}

Values slice(Op& op) {
  const Value x = op.in(0);
  Shape limit = op.b.shape(x);
  const auto rank = static_cast<int64_t>(limit.size());
  const int64_t dim = wrap(op.has(1) ? op.integer(1) : 0, rank);
  const int64_t size = limit[dim];
  const auto clip = [&](int64_t i) {
    return std::clamp<int64_t>(i < 0 ? i + size : i, 0, size);
  };
  Shape start(rank, 0), stride(rank, 1);
  start[dim] = clip(op.has(2) ? op.integer(2) : 0);
  limit[dim] = std::max(start[dim], clip(op.has(3) ? op.integer(3) : size));
  stride[dim] = op.has(4) ? op.integer(4) : 1;
  return {op.b.slice(x, start, limit, stride)};
}

Values select(Op& op) {
  const Value x = op.in(0);
  const int64_t dim = wrap(op.integer(1), op.b.rank(x));
  int64_t i = op.integer(2);
  i += i < 0 ? op.b.shape(x)[dim] : 0;
  return {op.b.reshape(narrow(op.b, x, dim, i, i + 1), op.result().shape)};
}

Values permute(Op& op) {
  Shape dims = op.ints(1);
  for (auto& dim : dims) {
    dim = wrap(dim, static_cast<int64_t>(dims.size()));
  }
  return {op.b.transpose(op.in(0), dims)};
}

Value swapped(ir::Builder& b, Value x, int64_t a, int64_t c) {
  Shape dims(b.rank(x));
  std::iota(dims.begin(), dims.end(), 0);
  if (!dims.empty()) {
    std::swap(dims[wrap(a, b.rank(x))], dims[wrap(c, b.rank(x))]);
  }
  return b.transpose(x, dims);
}

Values split(Op& op, const Shape& sizes, int64_t dim) {
  Values parts;
  int64_t start = 0;
  for (int64_t size : sizes) {
    parts.push_back(narrow(op.b, op.in(0), dim, start, start + size));
    start += size;
  }
  return parts;
}

Values concatenate(Op& op) {
  Values parts;
  const DType dtype = op.result().dtype;
  for (Value x : op.list(0)) {
    // Empty 1-D tensors are skipped, as PyTorch always has.
    if (op.b.shape(x) == Shape{0} && op.result().shape.size() != 1) {
      continue;
    }
    parts.push_back(op.b.convert(x, dtype));
  }
  const auto rank = static_cast<int64_t>(op.result().shape.size());
  return {op.b.concatenate(parts, wrap(op.has(1) ? op.integer(1) : 0, rank))};
}

Values stack(Op& op) {
  const auto rank = static_cast<int64_t>(op.result().shape.size());
  const int64_t dim = wrap(op.has(1) ? op.integer(1) : 0, rank);
  Shape each = op.result().shape;
  each[dim] = 1;
  Values parts;
  for (Value x : op.list(0)) {
    parts.push_back(op.b.reshape(op.b.convert(x, op.result().dtype), each));
  }
  return {op.b.concatenate(parts, dim)};
}

Values constant_pad(Op& op) {
  const Value x = op.in(0);
  const auto pads = op.ints(1);
  const auto rank = op.b.rank(x);
  Shape low(rank, 0), high(rank, 0), interior(rank, 0);
  for (size_t i = 0; i < pads.size() / 2; ++i) {
    low[rank - 1 - i] = pads[2 * i];
    high[rank - 1 - i] = pads[2 * i + 1];
  }
  const Value value =
      op.has(2) ? op.scalar(2, op.b.dtype(x)) : op.b.constant(op.b.dtype(x), 0);
  return {op.b.pad(x, value, low, high, interior)};
}

Values flip(Op& op) {
  const Value x = op.in(0);
  if (op.ints(1).empty()) {
    return {x};
  }
  return {op.b.reverse(x, wrap_dims(op.ints(1), op.b.rank(x)))};
}

Values repeat(Op& op) {
  auto& b = op.b;
  const auto times = op.ints(1);
  Shape shape = b.shape(op.in(0));
  shape.insert(shape.begin(), times.size() - shape.size(), 1);
  Shape split, spread;
  for (size_t i = 0; i < times.size(); ++i) {
    split.insert(split.end(), {1, shape[i]});
    spread.insert(spread.end(), {times[i], shape[i]});
  }
  const Value x = b.broadcast(b.reshape(op.in(0), split), spread);
  return {b.reshape(x, op.result().shape)};
}

Values roll(Op& op) {
  auto& b = op.b;
  Value x = op.in(0);
  const auto shifts = op.ints(1);
  auto dims = op.has(2) ? op.ints(2) : Shape{};
  const Shape shape = b.shape(x);
  if (dims.empty()) {
    x = b.reshape(x, {b.type(x).numel()});
    dims = {0};
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t dim = wrap(dims[i], b.rank(x));
    const int64_t size = b.shape(x)[dim];
    if (size == 0) {
      continue;
    }
    const int64_t cut = ((-shifts[i] % size) + size) % size;
    x = b.concatenate({narrow(b, x, dim, cut, size), narrow(b, x, dim, 0, cut)},
                      dim);
  }
  return {b.reshape(x, shape)};
}

Values slice_backward(Op& op) {
  // grad, input_sizes, dim, start, end, step
  auto& b = op.b;
  const Value grad = op.in(0);
  const Shape shape = op.ints(1);
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t dim = wrap(op.integer(2), rank);
  const int64_t size = shape[dim], step = op.integer(5);
  const auto clip = [&](int64_t i) {
    return std::clamp<int64_t>(i < 0 ? i + size : i, 0, size);
  };
  const int64_t start = clip(op.integer(3));
  const int64_t n = b.shape(grad)[dim];
  Shape low(rank, 0), high(rank, 0), interior(rank, 0);
  low[dim] = start;
  interior[dim] = step - 1;
  high[dim] = n == 0 ? size - start : size - start - ((n - 1) * step + 1);
  return {b.pad(grad, b.constant(b.dtype(grad), 0), low, high, interior)};
}

Values select_backward(Op& op) {
  // grad, input_sizes, dim, index
  auto& b = op.b;
  const Shape shape = op.ints(1);
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t dim = wrap(op.integer(2), rank);
  int64_t i = op.integer(3);
  i += i < 0 ? shape[dim] : 0;
  Shape one = shape, low(rank, 0), high(rank, 0), interior(rank, 0);
  one[dim] = 1;
  low[dim] = i;
  high[dim] = shape[dim] - i - 1;
  const Value grad = op.in(0);
  return {b.pad(
      b.reshape(grad, one), b.constant(b.dtype(grad), 0), low, high, interior)};
}

// x with the slice of `dim` replaced by src.
Values slice_scatter(Op& op) {
  auto& b = op.b;
  const Value x = op.in(0);
  const Shape shape = b.shape(x);
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t dim = wrap(op.has(2) ? op.integer(2) : 0, rank);
  const int64_t size = shape[dim];
  const auto clip = [&](int64_t i) {
    return std::clamp<int64_t>(i < 0 ? i + size : i, 0, size);
  };
  const int64_t start = clip(op.has(3) ? op.integer(3) : 0);
  const int64_t step = op.has(5) ? op.integer(5) : 1;
  const Value src = op.in(1, b.dtype(x));
  const int64_t n = b.shape(src)[dim];
  if (n == 0) {
    return {x};
  }
  Shape low(rank, 0), high(rank, 0), interior(rank, 0);
  low[dim] = start;
  interior[dim] = step - 1;
  high[dim] = size - start - ((n - 1) * step + 1);
  const Value placed =
      b.pad(src, b.constant(b.dtype(x), 0), low, high, interior);
  const Value mask = b.pad(b.constant(DType::Bool, 1, b.shape(src)),
                           b.constant(DType::Bool, 0),
                           low,
                           high,
                           interior);
  return {b.select(mask, placed, x)};
}

Values select_scatter(Op& op) {
  auto& b = op.b;
  const Value x = op.in(0);
  const auto rank = b.rank(x);
  const int64_t dim = wrap(op.integer(2), rank);
  int64_t i = op.integer(3);
  i += i < 0 ? b.shape(x)[dim] : 0;
  Shape one = b.shape(x);
  one[dim] = 1;
  Values start;
  for (int64_t d = 0; d < rank; ++d) {
    start.push_back(b.constant(DType::Int64, d == dim ? i : 0));
  }
  return {
      b.dynamic_update_slice(x, b.reshape(op.in(1, b.dtype(x)), one), start)};
}

// Copies broadcast and convert.
Values copy(Op& op) {
  return {op.b.broadcast(op.in(1, op.result().dtype), op.result().shape)};
}

Values diagonal(Op& op) {
  auto& b = op.b;
  Value x = op.in(0);
  const int64_t rank = b.rank(x);
  const int64_t offset = op.has(1) ? op.integer(1) : 0;
  const int64_t d1 = wrap(op.has(2) ? op.integer(2) : 0, rank);
  const int64_t d2 = wrap(op.has(3) ? op.integer(3) : 1, rank);
  Shape order;
  for (int64_t d = 0; d < rank; ++d) {
    if (d != d1 && d != d2) {
      order.push_back(d);
    }
  }
  order.insert(order.end(), {d1, d2});
  x = b.transpose(x, order);
  const int64_t n = op.result().shape.back();
  if (n == 0) {
    return {b.constant(op.result(), std::string{})};
  }
  // One-hot over columns, summed: exact, for all but one term are zero.
  const int64_t r0 = std::max<int64_t>(0, -offset);
  const int64_t c0 = std::max<int64_t>(0, offset);
  x = narrow(b, narrow(b, x, rank - 2, r0, r0 + n), rank - 1, c0, c0 + n);
  const Shape square = b.shape(x);
  const Value row = b.iota({DType::Int32, square}, rank - 2);
  const Value column = b.iota({DType::Int32, square}, rank - 1);
  const Value on = b.compare(ir::Compare::EQ, row, column);
  const Value kept = b.select(on, x, fill_like(b, x, 0));
  return {b.reduce(kept,
                   b.dtype(x) == DType::Bool ? ir::Reduce::Or : ir::Reduce::Add,
                   {rank - 1})};
}

const bool registered = [] {
  for (const char* name : {"aten::view",
                           "aten::_unsafe_view",
                           "aten::reshape",
                           "aten::unsqueeze",
                           "aten::squeeze",
                           "aten::squeeze.dim",
                           "aten::squeeze.dims",
                           "aten::_reshape_copy",
                           "aten::view_copy",
                           "aten::_reshape_alias"}) {
    lower(name, &reshaped);
  }
  for (const char* name : {"aten::alias",
                           "aten::detach",
                           "aten::clone",
                           "aten::lift_fresh",
                           "aten::lift_fresh_copy",
                           "aten::_to_copy",
                           "aten::contiguous",
                           "aten::alias_copy"}) {
    lower(name, &identity);
  }
  for (const char* name : {"aten::expand", "aten::expand_copy"}) {
    lower(name, [](Op& op) -> Values {
      return {op.b.broadcast(op.in(0), op.result().shape)};
    });
  }
  lower("aten::permute", &permute);
  lower("aten::t", [](Op& op) -> Values {
    return {op.b.rank(op.in(0)) < 2 ? op.in(0) : swapped(op.b, op.in(0), 0, 1)};
  });
  lower("aten::transpose.int", [](Op& op) -> Values {
    return {swapped(op.b, op.in(0), op.integer(1), op.integer(2))};
  });
  lower("aten::slice.Tensor", &slice);
  lower("aten::select.int", &select);
  lower("aten::split_with_sizes", [](Op& op) {
    return split(op,
                 op.ints(1),
                 wrap(op.has(2) ? op.integer(2) : 0, op.b.rank(op.in(0))));
  });
  lower("aten::split.Tensor", [](Op& op) {
    Shape sizes;
    const int64_t dim =
        wrap(op.has(2) ? op.integer(2) : 0, op.b.rank(op.in(0)));
    for (int k = 0; k < op.result_count(); ++k) {
      sizes.push_back(op.result(k).shape[dim]);
    }
    return split(op, sizes, dim);
  });
  lower("aten::unbind.int", [](Op& op) {
    const int64_t dim =
        wrap(op.has(1) ? op.integer(1) : 0, op.b.rank(op.in(0)));
    Values parts;
    for (int k = 0; k < op.result_count(); ++k) {
      parts.push_back(op.b.reshape(narrow(op.b, op.in(0), dim, k, k + 1),
                                   op.result(k).shape));
    }
    return parts;
  });
  lower("aten::cat", &concatenate);
  lower("aten::stack", &stack);
  lower("aten::constant_pad_nd", &constant_pad);
  lower("aten::flip", &flip);
  lower("aten::repeat", &repeat);
  lower("aten::roll", &roll);
  lower("aten::slice_backward", &slice_backward);
  lower("aten::select_backward", &select_backward);
  lower("aten::slice_scatter", &slice_scatter);
  lower("aten::select_scatter", &select_scatter);
  lower("aten::copy", &copy);
  lower("aten::diagonal", &diagonal);
  lower("aten::as_strided", [](Op& op) -> Values {
    const Value x = op.in(0);
    return {op.b.as_strided(op.b.reshape(x, {op.b.type(x).numel()}),
                            op.ints(1),
                            op.ints(2),
                            op.has(3) ? op.integer(3) : 0)};
  });
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
