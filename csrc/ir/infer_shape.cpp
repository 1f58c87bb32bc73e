// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "ir/infer.h"

namespace neuronx::ir {
namespace {

Types constant(const Call& c) {
  c.expect_operands(0);
  const TensorType& type = c.wanted();
  check_type(type, c.op.name);
  const std::string& value = c.string("value");
  if (int64_t(value.size()) != type.bytes())
    c.fail(fmt::format("expected {} bytes for {}, got {}",
                       type.bytes(),
                       to_string(type),
                       value.size()));
  return {type};
}

Types iota(const Call& c) {
  c.expect_operands(0);
  const TensorType& type = c.wanted();
  c.dimension("iota_dimension", int64_t(type.shape.size()));
  if (type.dtype == DType::Bool)
    c.fail("does not return bool");
  return {type};
}

Types broadcast_in_dim(const Call& c) {
  c.expect_operands(1);
  const TensorType& result = c.wanted();
  const Shape& dimensions =
      c.dimensions("broadcast_dimensions", int64_t(result.shape.size()));
  const Shape& shape = c.in(0).shape;
  bool fits =
      result.dtype == c.in(0).dtype && dimensions.size() == shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i)
    fits = shape[i] == 1 || shape[i] == result.shape[dimensions[i]];
  if (!fits)
    c.fail(fmt::format("cannot broadcast {} to {} along dimensions {}",
                       to_string(c.in(0)),
                       to_string(result),
                       to_string(dimensions)));
  return {result};
}

Types reshape(const Call& c) {
  c.expect_operands(1);
  const TensorType& result = c.wanted();
  check_type(result, c.op.name);
  if (result.dtype != c.in(0).dtype || result.numel() != c.in(0).numel())
    c.fail(fmt::format(
        "cannot reshape {} to {}", to_string(c.in(0)), to_string(result)));
  return {result};
}

Types transpose(const Call& c) {
  c.expect_operands(1);
  const Shape& permutation = c.dimensions("permutation", c.rank(0));
  if (int64_t(permutation.size()) != c.rank(0))
    c.fail(fmt::format("expected a permutation of {} dimensions, got {}",
                       c.rank(0),
                       to_string(permutation)));
  TensorType result{c.in(0).dtype, {}};
  for (int64_t d : permutation)
    result.shape.push_back(c.in(0).shape[d]);
  return {result};
}

Types slice(const Call& c) {
  c.expect_operands(1);
  const size_t rank = size_t(c.rank(0));
  const Shape& start = c.ints("start_indices", rank, 0);
  const Shape& limit = c.ints("limit_indices", rank, 0);
  const Shape& stride = c.ints("strides", rank, 1);
  TensorType result = c.in(0);
  for (size_t d = 0; d < rank; ++d) {
    if (start[d] > limit[d] || limit[d] > c.in(0).shape[d])
      c.fail(fmt::format("start {} limit {} out of bounds for {}",
                         to_string(start),
                         to_string(limit),
                         to_string(c.in(0))));
    const int64_t span = limit[d] - start[d];
    result.shape[d] = span / stride[d] + (span % stride[d] != 0);
  }
  return {result};
}

// Operands from `first` on are the start indices of operand 0.
void expect_starts(const Call& c, size_t first) {
  for (size_t i = first; i < c.operands.size(); ++i)
    if (c.rank(i) != 0 || !is_integral(c.in(i).dtype) ||
        c.in(i).dtype == DType::Bool || c.in(i).dtype != c.in(first).dtype)
      c.fail(fmt::format(
          "expected rank-0 integer start indices, got {}",
          to_string(Types(c.operands.begin() + first, c.operands.end()))));
}

Types dynamic_slice(const Call& c) {
  if (c.operands.empty())
    c.expect_operands(1);
  c.expect_operands(1 + c.in(0).shape.size());
  expect_starts(c, 1);
  const Shape& size = c.ints("slice_sizes", c.in(0).shape.size(), 0);
  for (size_t d = 0; d < size.size(); ++d)
    if (size[d] > c.in(0).shape[d])
      c.fail(fmt::format(
          "slice_sizes {} exceed {}", to_string(size), to_string(c.in(0))));
  return {{c.in(0).dtype, size}};
}

Types dynamic_update_slice(const Call& c) {
  if (c.operands.size() < 2)
    c.expect_operands(2);
  c.expect_operands(2 + c.in(0).shape.size());
  expect_starts(c, 2);
  bool fits = c.in(1).dtype == c.in(0).dtype && c.rank(1) == c.rank(0);
  for (int64_t d = 0; fits && d < c.rank(0); ++d)
    fits = c.in(1).shape[d] <= c.in(0).shape[d];
  if (!fits)
    c.fail(fmt::format("update {} does not fit in {}",
                       to_string(c.in(1)),
                       to_string(c.in(0))));
  return {c.in(0)};
}

Types concatenate(const Call& c) {
  if (c.operands.empty())
    c.fail("expected at least one operand");
  const int64_t d = c.dimension("dimension", c.rank(0));
  TensorType result = c.in(0);
  Wide total = 0;
  for (const TensorType& type : c.operands) {
    bool fits =
        type.dtype == result.dtype && type.shape.size() == result.shape.size();
    for (size_t i = 0; fits && i < type.shape.size(); ++i)
      fits = int64_t(i) == d || type.shape[i] == result.shape[i];
    if (!fits)
      c.fail(fmt::format("operands differ outside dimension {}: {} and {}",
                         d,
                         to_string(c.in(0)),
                         to_string(type)));
    total += type.shape[d];
  }
  if (total > INT64_MAX)
    c.fail("result is too large");
  result.shape[d] = int64_t(total);
  return {result};
}

Types pad(const Call& c) {
  c.expect_operands(2);
  if (c.in(1) != TensorType{c.in(0).dtype, {}})
    c.fail(fmt::format("expected padding value {}[], got {}",
                       name(c.in(0).dtype),
                       to_string(c.in(1))));
  const size_t rank = size_t(c.rank(0));
  const Shape& low = c.ints("edge_padding_low", rank, INT64_MIN);
  const Shape& high = c.ints("edge_padding_high", rank, INT64_MIN);
  const Shape& interior = c.ints("interior_padding", rank, 0);
  TensorType result = c.in(0);
  for (size_t d = 0; d < rank; ++d) {
    const int64_t n = c.in(0).shape[d];
    const Wide size = Wide(low[d]) + high[d] + n +
                      Wide(std::max<int64_t>(n - 1, 0)) * interior[d];
    if (size < 0 || size > INT64_MAX)
      c.fail(fmt::format("padding low {} high {} is impossible for {}",
                         to_string(low),
                         to_string(high),
                         to_string(c.in(0))));
    result.shape[d] = int64_t(size);
  }
  return {result};
}

Types reverse(const Call& c) {
  c.expect_operands(1);
  c.dimensions("dimensions", c.rank(0));
  return {c.in(0)};
}

constexpr Rule kRules[] = {
    {"stablehlo.constant", constant},
    {"stablehlo.iota", iota},
    {"stablehlo.broadcast_in_dim", broadcast_in_dim},
    {"stablehlo.reshape", reshape},
    {"stablehlo.transpose", transpose},
    {"stablehlo.slice", slice},
    {"stablehlo.dynamic_slice", dynamic_slice},
    {"stablehlo.dynamic_update_slice", dynamic_update_slice},
    {"stablehlo.concatenate", concatenate},
    {"stablehlo.pad", pad},
    {"stablehlo.reverse", reverse},
};

}  // namespace

std::span<const Rule> shape_rules() {
  return kRules;
}

}  // namespace neuronx::ir
