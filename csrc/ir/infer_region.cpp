// SPDX-License-Identifier: Apache-2.0
// Rules of the operations that have regions.
#include <fmt/format.h>

#include "ir/infer.h"

namespace neuronx::ir {
namespace {

TensorType scalar(const TensorType& type) {
  return {type.dtype, {}};
}

// Splits the operands in n inputs of one shape and n rank-0 inits; the region
// combines two tuples of them.
size_t expect_inputs_and_inits(const Call& c) {
  const size_t n = c.operands.size() / 2;
  if (n == 0 || c.operands.size() % 2)
    c.fail("expected as many initial values as inputs, at least one");
  Types elements;
  for (size_t i = 0; i < n; ++i) {
    if (c.in(i).shape != c.in(0).shape)
      c.fail(fmt::format("expected inputs of equal shape, got {} and {}",
                         to_string(c.in(0)),
                         to_string(c.in(i))));
    if (c.in(n + i) != scalar(c.in(i)))
      c.fail(fmt::format("expected initial value {}, got {}",
                         to_string(scalar(c.in(i))),
                         to_string(c.in(n + i))));
    elements.push_back(scalar(c.in(i)));
  }
  Types parameters = elements;
  parameters.insert(parameters.end(), elements.begin(), elements.end());
  c.expect_bodies(1);
  c.expect_body(0, parameters, elements);
  return n;
}

Types reduce(const Call& c) {
  const size_t n = expect_inputs_and_inits(c);
  const Shape& dimensions = c.dimensions("dimensions", c.rank(0));
  std::vector<bool> reduced(c.rank(0));
  for (int64_t d : dimensions)
    reduced[d] = true;
  Shape kept;
  for (int64_t d = 0; d < c.rank(0); ++d)
    if (!reduced[d])
      kept.push_back(c.in(0).shape[d]);
  Types results;
  for (size_t i = 0; i < n; ++i)
    results.push_back({c.in(i).dtype, kept});
  return results;
}

// How many windows fit in each dimension of operand 0.
Shape windowed(const Call& c, const Shape& dilation) {
  const Shape& shape = c.in(0).shape;
  const Shape& size = c.ints("window_dimensions", shape.size(), 1);
  const Shape& stride = c.ints("window_strides", shape.size(), 1);
  const Shape& padding = c.ints("padding", 2 * shape.size(), INT64_MIN);
  Shape result;
  for (size_t d = 0; d < shape.size(); ++d) {
    const Wide padded = Wide(shape[d]) + padding[2 * d] + padding[2 * d + 1];
    const Wide window = Wide(size[d] - 1) * dilation[d] + 1;
    if (padded < 0)
      c.fail(fmt::format("padding {} is impossible for shape {}",
                         to_string(padding),
                         to_string(shape)));
    const Wide count =
        padded < window ? Wide(0) : (padded - window) / stride[d] + 1;
    if (count > INT64_MAX)
      c.fail("result is too large");
    result.push_back(int64_t(count));
  }
  return result;
}

Types reduce_window(const Call& c) {
  const size_t n = expect_inputs_and_inits(c);
  const Shape& dilation = c.ints("window_dilations", c.in(0).shape.size(), 1);
  const Shape shape = windowed(c, dilation);
  Types results;
  for (size_t i = 0; i < n; ++i)
    results.push_back({c.in(i).dtype, shape});
  return results;
}

Types select_and_scatter(const Call& c) {
  c.expect_operands(3);
  c.expect_bodies(2);
  const Shape shape = windowed(c, Shape(c.in(0).shape.size(), 1));
  const TensorType element = scalar(c.in(0));
  if (c.in(1) != TensorType{element.dtype, shape})
    c.fail(fmt::format("expected source {}, got {}",
                       to_string(TensorType{element.dtype, shape}),
                       to_string(c.in(1))));
  if (c.in(2) != element)
    c.fail(fmt::format("expected initial value {}, got {}",
                       to_string(element),
                       to_string(c.in(2))));
  c.expect_body(0, {element, element}, {{DType::Bool, {}}});
  c.expect_body(1, {element, element}, {element});
  return {c.in(0)};
}

Types sort(const Call& c) {
  if (c.operands.empty())
    c.fail("expected at least one operand");
  c.expect_bodies(1);
  c.dimension("dimension", c.rank(0));
  c.flag("is_stable");
  Types parameters;
  for (const TensorType& type : c.operands) {
    if (type.shape != c.in(0).shape)
      c.fail(fmt::format("expected operands of equal shape, got {} and {}",
                         to_string(c.in(0)),
                         to_string(type)));
    parameters.push_back(scalar(type));
    parameters.push_back(scalar(type));
  }
  c.expect_body(0, parameters, {{DType::Bool, {}}});
  return c.operands;
}

Types while_loop(const Call& c) {
  c.expect_bodies(2);
  c.expect_body(0, c.operands, {{DType::Bool, {}}});
  c.expect_body(1, c.operands, c.operands);
  return c.operands;
}

// Operands after the index are what the branches use.
Types conditional(const Call& c) {
  if (c.operands.empty() || c.in(0) != TensorType{DType::Int32, {}})
    c.fail(
        fmt::format("expected index int32[], got ({})", to_string(c.operands)));
  if (c.op.bodies.empty())
    c.fail("expected at least one branch");
  c.expect_bodies(c.op.bodies.size());
  const Types captured(c.operands.begin() + 1, c.operands.end());
  Types results;
  for (Value v : c.op.bodies[0]->results)
    results.push_back(c.op.bodies[0]->type(v));
  for (size_t i = 0; i < c.op.bodies.size(); ++i)
    c.expect_body(i, captured, results);
  return results;
}

constexpr Rule kRules[] = {
    {"stablehlo.reduce", reduce, true},
    {"stablehlo.reduce_window", reduce_window, true},
    {"stablehlo.select_and_scatter", select_and_scatter, true},
    {"stablehlo.sort", sort, true},
    {"stablehlo.while", while_loop, true},
    {"stablehlo.case", conditional, true},
};

}  // namespace

std::span<const Rule> region_rules() {
  return kRules;
}

}  // namespace neuronx::ir
