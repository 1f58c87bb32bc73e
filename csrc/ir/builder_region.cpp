// SPDX-License-Identifier: Apache-2.0
// Builder: operations with regions and windows.
#include <fmt/format.h>

#include <limits>
#include <stdexcept>

#include "ir/builder.h"
#include "ir/infer.h"

namespace neuronx::ir {
namespace {

std::shared_ptr<const Program> shared(Program program) {
  return std::make_shared<const Program>(std::move(program));
}

const char* operation(Reduce kind) {
  static constexpr const char* kNames[] = {
      "add", "multiply", "maximum", "minimum", "and", "or"};
  return kNames[int(kind)];
}

Region combine(Reduce kind) {
  return [kind](Builder& b, const Values& v) -> Values {
    return {b.binary(operation(kind), v[0], v[1])};
  };
}

// The neutral element.
Value identity(Builder& b, Reduce kind, DType dtype) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  // float8_e4m3fn has no infinity; its lowest and highest are +-448.
  const double bound = dtype == DType::Float8E4M3FN ? 448 : infinity;
  switch (kind) {
    case Reduce::Mul:
      return b.constant(dtype, 1);
    case Reduce::Max:
      return b.constant(dtype, dtype == DType::Bool ? 0 : -bound);
    case Reduce::Min:
      return b.constant(dtype, bound);
    case Reduce::And:
      return b.constant(dtype, -1);
    default:
      return b.constant(dtype, 0);
  }
}

std::vector<TensorType> elements(const Builder& b, const Values& xs) {
  std::vector<TensorType> types;
  for (Value x : xs)
    types.push_back({b.dtype(x), {}});
  return types;
}

std::shared_ptr<const Program> combiner(const Builder& b,
                                        const Values& xs,
                                        const Region& region) {
  std::vector<TensorType> parameters = elements(b, xs);
  const size_t n = parameters.size();
  for (size_t i = 0; i < n; ++i)
    parameters.push_back(parameters[i]);
  return shared(build_region(region, parameters));
}

Values joined(const Values& a, const Values& b) {
  Values all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

// StableHLO's padding: low and high of each dimension, row by row.
Shape interleaved(const std::string& op, const Shape& low, const Shape& high) {
  if (low.size() != high.size())
    throw std::invalid_argument(
        fmt::format("[{}] expected as many entries in padding low {} as in "
                    "high {}",
                    op,
                    to_string(low),
                    to_string(high)));
  Shape padding;
  for (size_t i = 0; i < low.size(); ++i) {
    padding.push_back(low[i]);
    padding.push_back(high[i]);
  }
  return padding;
}

}  // namespace

Value Builder::reduce(Value x, Reduce kind, const Shape& dimensions) {
  if (dimensions.empty())
    return x;
  return reduce(x, identity(*this, kind, dtype(x)), kind, dimensions);
}

Value Builder::reduce(Value x,
                      Value init,
                      Reduce kind,
                      const Shape& dimensions) {
  return reduce(Values{x}, Values{init}, dimensions, combine(kind))[0];
}

Values Builder::reduce(const Values& xs,
                       const Values& inits,
                       const Shape& dimensions,
                       const Region& region) {
  return append({.name = "stablehlo.reduce",
                 .operands = joined(xs, inits),
                 .attributes = {{"dimensions", dimensions}},
                 .bodies = {combiner(*this, xs, region)}});
}

Value Builder::reduce_window(Value x,
                             Value init,
                             const Window& window,
                             Reduce kind) {
  return reduce_window(Values{x}, Values{init}, window, combine(kind))[0];
}

Values Builder::reduce_window(const Values& xs,
                              const Values& inits,
                              const Window& window,
                              const Region& region) {
  const std::string name = "stablehlo.reduce_window";
  return append(
      {.name = name,
       .operands = joined(xs, inits),
       .attributes = {{"window_dimensions", window.size},
                      {"window_strides", window.stride},
                      {"window_dilations", window.dilation},
                      {"padding",
                       interleaved(name, window.pad_low, window.pad_high)}},
       .bodies = {combiner(*this, xs, region)}});
}

Value Builder::select_and_scatter(Value x,
                                  Value source,
                                  Value init,
                                  const Window& window,
                                  Compare select,
                                  Reduce scatter) {
  const std::string name = "stablehlo.select_and_scatter";
  if (window.dilation != Shape(window.dilation.size(), 1))
    throw std::invalid_argument(
        fmt::format("[{}] has no window dilation, got {}",
                    name,
                    to_string(window.dilation)));
  const std::vector<TensorType> pair(2, {dtype(x), {}});
  const Region prefer = [select](Builder& b, const Values& v) -> Values {
    return {b.compare(select, v[0], v[1])};
  };
  return append(
      {.name = name,
       .operands = {x, source, init},
       .attributes = {{"window_dimensions", window.size},
                      {"window_strides", window.stride},
                      {"padding",
                       interleaved(name, window.pad_low, window.pad_high)}},
       .bodies = {shared(build_region(prefer, pair)),
                  shared(build_region(combine(scatter), pair))}})[0];
}

Values Builder::sort(const Values& xs,
                     int64_t dimension,
                     bool stable,
                     const Region& less) {
  std::vector<TensorType> parameters;
  for (const TensorType& type : elements(*this, xs))
    parameters.insert(parameters.end(), 2, type);
  return append(
      {.name = "stablehlo.sort",
       .operands = xs,
       .attributes = {{"dimension", dimension}, {"is_stable", stable}},
       .bodies = {shared(build_region(less, parameters))}});
}

Value Builder::convolution(Value input,
                           Value kernel,
                           const ConvolutionDimensions& dimensions,
                           DType result) {
  const std::string name = "stablehlo.convolution";
  for (const Shape* order :
       {&dimensions.input, &dimensions.kernel, &dimensions.output})
    if (order->size() < 2)
      throw std::invalid_argument(
          fmt::format("[{}] expected at least 2 dimension numbers, got {}",
                      name,
                      to_string(*order)));
  const auto spatial = [](const Shape& order) {
    return Shape(order.begin() + 2, order.end());
  };
  const auto& [in, out, k] =
      std::tie(dimensions.input, dimensions.output, dimensions.kernel);
  return append(
      {.name = name,
       .operands = {input, kernel},
       .attributes = {{"window_strides", dimensions.stride},
                      {"padding",
                       interleaved(
                           name, dimensions.pad_low, dimensions.pad_high)},
                      {"lhs_dilation", dimensions.lhs_dilation},
                      {"rhs_dilation", dimensions.rhs_dilation},
                      {"input_batch_dimension", in[0]},
                      {"input_feature_dimension", in[1]},
                      {"input_spatial_dimensions", spatial(in)},
                      {"kernel_output_feature_dimension", k[0]},
                      {"kernel_input_feature_dimension", k[1]},
                      {"kernel_spatial_dimensions", spatial(k)},
                      {"output_batch_dimension", out[0]},
                      {"output_feature_dimension", out[1]},
                      {"output_spatial_dimensions", spatial(out)},
                      {"feature_group_count", dimensions.groups},
                      {"batch_group_count", dimensions.batch_groups}}},
      {{result, {}}})[0];
}

Value Builder::scatter(Value x,
                       Value indices,
                       Value updates,
                       const ScatterDimensions& dimensions,
                       const Region& region) {
  return append(
      {.name = "stablehlo.scatter",
       .operands = {x, indices, updates},
       .attributes = {{"update_window_dims", dimensions.update_window},
                      {"inserted_window_dims", dimensions.inserted_window},
                      {"scatter_dims_to_operand_dims",
                       dimensions.scatter_to_operand},
                      {"index_vector_dim", dimensions.index_vector},
                      {"indices_are_sorted", dimensions.sorted},
                      {"unique_indices", dimensions.unique}},
       .bodies = {combiner(*this, {x}, region)}})[0];
}

Values Builder::while_loop(const Values& init,
                           const Region& condition,
                           const Region& body) {
  std::vector<TensorType> types;
  for (Value v : init)
    types.push_back(type(v));
  return append({.name = "stablehlo.while",
                 .operands = init,
                 .bodies = {shared(build_region(condition, types)),
                            shared(build_region(body, types))}});
}

Values Builder::conditional(Value index, const std::vector<Region>& branches) {
  return conditional(index, {}, branches);
}

Values Builder::conditional(Value index,
                            const Values& captures,
                            const std::vector<Region>& branches) {
  std::vector<TensorType> types;
  for (Value v : captures)
    types.push_back(type(v));
  Operation op{.name = "stablehlo.case", .operands = joined({index}, captures)};
  for (const Region& branch : branches)
    op.bodies.push_back(shared(build_region(branch, types)));
  return append(std::move(op));
}

}  // namespace neuronx::ir
