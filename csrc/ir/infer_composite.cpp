// SPDX-License-Identifier: Apache-2.0
// Rules of our composites (the simulator runs them from their attributes, so
// these must fit the operands and the body) and of custom calls.
#include <fmt/format.h>

#include <stdexcept>

#include "common/strides.h"
#include "ir/infer.h"

namespace neuronx::ir {
namespace {

// The body's results, which must be one of type `expected`.
Types expect_result(const Call& c, const TensorType& expected) {
  Types results = call_body(c);
  if (results != Types{expected})
    c.fail(fmt::format("expected the body to return {}, it returns {}",
                       to_string(expected),
                       to_string(results)));
  return results;
}

Types as_strided(const Call& c) {
  c.expect_operands(1);
  const Shape& size = c.ints("size");
  check_view(c.op.name, c.in(0), size, c.ints("stride"), c.integer("offset"));
  return expect_result(c, {c.in(0).dtype, size});
}

Types as_strided_scatter(const Call& c) {
  c.expect_operands(2);
  const Shape& size = c.in(1).shape;
  const Shape& stride = c.ints("stride");
  check_written_view(c.op.name, c.in(0), size, stride, c.integer("offset"));
  return expect_result(c, c.in(0));
}

Types to_strided(const Call& c) {
  c.expect_operands(1);
  const Shape& size = c.in(0).shape;
  const Shape& stride = c.ints("stride");
  if (stride.size() != size.size() || !dense_permutation(size, stride))
    c.fail(fmt::format("stride {} is not a dense permutation of {}",
                       to_string(stride),
                       to_string(c.in(0))));
  return expect_result(c, {c.in(0).dtype, {c.in(0).numel()}});
}

Types check_index(const Call& c) {
  c.expect_operands(1);
  if (c.in(0).dtype != DType::Int32 && c.in(0).dtype != DType::Int64)
    c.fail(fmt::format("expected indices of int32 or int64, got {}",
                       to_string(c.in(0))));
  if (c.integer("low") > c.integer("high"))
    c.fail(fmt::format("expected low <= high, got {} and {}",
                       c.integer("low"),
                       c.integer("high")));
  return expect_result(c, c.in(0));
}

Types philox(const Call& c) {
  c.expect_operands(2);
  const TensorType scalar{DType::Int64, {}};
  if (c.in(0) != scalar || c.in(1) != scalar)
    c.fail(fmt::format("expected seed and offset int64[], got {}",
                       to_string(c.operands)));
  const Types results = call_body(c);
  if (results.size() != 1 || results[0].dtype != DType::UInt32 ||
      results[0].shape.size() != 1)
    c.fail(fmt::format("expected the body to return uint32[n], it returns {}",
                       to_string(results)));
  return results;
}

// Whatever is asked for: only the hardware's compiler knows better.
Types custom_call(const Call& c) {
  if (c.string("call_target_name").empty())
    c.fail("expected the name of a target");
  c.string("backend_config");
  if (c.given.empty())
    c.wanted();
  return c.given;
}

constexpr Rule kRules[] = {
    {"stablehlo.custom_call", custom_call},
    {"neuronx.as_strided", as_strided, true},
    {"neuronx.as_strided_scatter", as_strided_scatter, true},
    {"neuronx.to_strided", to_strided, true},
    {"neuronx.check_index", check_index, true},
    {"neuronx.philox", philox, true},
};

}  // namespace

std::span<const Rule> composite_rules() {
  return kRules;
}

void check_view(std::string_view where,
                const TensorType& extent,
                const Shape& size,
                const Shape& stride,
                int64_t offset) {
  const auto fail = [&](const char* message) {
    throw std::invalid_argument(
        fmt::format("[{}] {}: size {}, stride {}, offset {} of {}",
                    where,
                    message,
                    to_string(size),
                    to_string(stride),
                    offset,
                    to_string(extent)));
  };
  if (extent.shape.size() != 1)
    fail("expected a 1-D extent");
  check_type({extent.dtype, size}, where);
  if (size.size() != stride.size() || offset < 0)
    fail("invalid view");
  Wide last = offset;
  for (size_t d = 0; d < size.size(); ++d) {
    if (stride[d] < 0)
      fail("negative stride");
    last += Wide(size[d] - 1) * stride[d];
  }
  if (numel(size) != 0 && last >= extent.shape[0])
    fail("view out of bounds");
}

void check_written_view(std::string_view where,
                        const TensorType& extent,
                        const Shape& size,
                        const Shape& stride,
                        int64_t offset) {
  check_view(where, extent, size, stride, offset);
  if (numel(size) == 0)
    return;
  for (size_t d = 0; d < size.size(); ++d)
    if (size[d] > 1 && stride[d] == 0)
      throw std::invalid_argument(
          fmt::format("[{}] view of size {} and stride {} overlaps itself",
                      where,
                      to_string(size),
                      to_string(stride)));
}

}  // namespace neuronx::ir
