// SPDX-License-Identifier: Apache-2.0
// Builder: the program itself, constants, elementwise operations, contraction
// and composites.
#include "ir/builder.h"

#include <fmt/format.h>

#include <stdexcept>

#include "common/number.h"
#include "ir/infer.h"

namespace neuronx::ir {
namespace {

std::string_view direction(Compare compare) {
  static constexpr std::string_view kNames[] = {
      "EQ", "NE", "LT", "LE", "GT", "GE"};
  return kNames[int(compare)];
}

}  // namespace

Builder::Builder(std::string name) {
  program_.name = std::move(name);
}

Value Builder::parameter(TensorType type) {
  check_type(type, "parameter");
  const Value v{int32_t(program_.types.size())};
  program_.types.push_back(std::move(type));
  program_.parameters.push_back(v);
  return v;
}

TensorType Builder::type(Value v) const {
  if (v.id < 0 || size_t(v.id) >= program_.types.size())
    throw std::invalid_argument(
        fmt::format("value {} is not part of program {}", v.id, program_.name));
  return program_.types[v.id];
}

Shape Builder::shape(Value v) const {
  return type(v).shape;
}
DType Builder::dtype(Value v) const {
  return type(v).dtype;
}
int64_t Builder::rank(Value v) const {
  return int64_t(shape(v).size());
}

bool Builder::is_strided(Value v) const {
  for (const Operation& op : program_.operations)
    if (op.name == "neuronx.as_strided" && op.results[0] == v)
      return true;
  return false;
}

Program Builder::finish(const Values& results, std::vector<int32_t> aliases) {
  for (Value v : results)
    type(v);
  if (aliases.empty())
    aliases.assign(results.size(), -1);
  if (aliases.size() != results.size())
    throw std::invalid_argument(
        fmt::format("[finish] expected {} aliases, got {}",
                    results.size(),
                    aliases.size()));
  program_.results = results;
  program_.aliases = std::move(aliases);
  return std::move(program_);
}

Values Builder::append(Operation op, std::vector<TensorType> types) {
  Types operands;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const int32_t id = op.operands[i].id;
    if (id < 0 || size_t(id) >= program_.types.size())
      throw std::invalid_argument(fmt::format(
          "[{}] operand {} is not a value of this program", op.name, i));
    operands.push_back(program_.types[id]);
  }
  for (TensorType& type : infer(op, operands, types)) {
    op.results.push_back({int32_t(program_.types.size())});
    program_.types.push_back(std::move(type));
  }
  program_.operations.push_back(std::move(op));
  return program_.operations.back().results;
}

Value Builder::constant(TensorType type, std::string bytes) {
  return append({.name = "stablehlo.constant",
                 .attributes = {{"value", std::move(bytes)}}},
                {std::move(type)})[0];
}

Value Builder::constant(DType dtype, double value, Shape shape) {
  return broadcast(constant({dtype, {}}, encode(dtype, value)), shape);
}

Value Builder::constant(DType dtype, int64_t value, Shape shape) {
  return broadcast(constant({dtype, {}}, encode(dtype, value)), shape);
}

Value Builder::constant(DType dtype, int value, Shape shape) {
  return constant(dtype, int64_t(value), std::move(shape));
}

Value Builder::iota(TensorType type, int64_t dimension) {
  return append(
      {.name = "stablehlo.iota", .attributes = {{"iota_dimension", dimension}}},
      {std::move(type)})[0];
}

Value Builder::unary(const std::string& op, Value x) {
  return append({.name = "stablehlo." + op, .operands = {x}})[0];
}

Value Builder::binary(const std::string& op, Value a, Value b) {
  return append({.name = "stablehlo." + op, .operands = {a, b}})[0];
}

Value Builder::compare(Compare compare, Value a, Value b) {
  return append({.name = "stablehlo.compare",
                 .operands = {a, b},
                 .attributes = {{"comparison_direction",
                                 std::string(direction(compare))}}})[0];
}

Value Builder::select(Value predicate, Value on_true, Value on_false) {
  return append({.name = "stablehlo.select",
                 .operands = {predicate, on_true, on_false}})[0];
}

Value Builder::clamp(Value low, Value x, Value high) {
  return append({.name = "stablehlo.clamp", .operands = {low, x, high}})[0];
}

Value Builder::convert(Value x, DType dtype) {
  if (type(x).dtype == dtype)
    return x;
  return append({.name = "stablehlo.convert", .operands = {x}},
                {{dtype, shape(x)}})[0];
}

Value Builder::bitcast(Value x, DType dtype) {
  if (type(x).dtype == dtype)
    return x;
  return append({.name = "stablehlo.bitcast_convert", .operands = {x}},
                {{dtype, shape(x)}})[0];
}

Value Builder::erf(Value x) {
  return chlo("erf", x);
}

Value Builder::chlo(const std::string& op, Value x) {
  return append({.name = "chlo." + op, .operands = {x}})[0];
}

Value Builder::chlo(const std::string& op, Value a, Value b) {
  return append({.name = "chlo." + op, .operands = {a, b}})[0];
}

Value Builder::is_finite(Value x) {
  return unary("is_finite", x);
}

Value Builder::reduce_precision(Value x, int exponent_bits, int mantissa_bits) {
  return append({.name = "stablehlo.reduce_precision",
                 .operands = {x},
                 .attributes = {{"exponent_bits", int64_t(exponent_bits)},
                                {"mantissa_bits", int64_t(mantissa_bits)}}})[0];
}

Value Builder::dot_general(Value lhs,
                           Value rhs,
                           const DotDimensions& dimensions,
                           DType result) {
  return append(
      {.name = "stablehlo.dot_general",
       .operands = {lhs, rhs},
       .attributes = {{"lhs_batching_dimensions", dimensions.lhs_batch},
                      {"rhs_batching_dimensions", dimensions.rhs_batch},
                      {"lhs_contracting_dimensions", dimensions.lhs_contract},
                      {"rhs_contracting_dimensions", dimensions.rhs_contract}}},
      {{result, {}}})[0];
}

Value Builder::gather(Value x,
                      Value indices,
                      const GatherDimensions& dimensions) {
  return append({.name = "stablehlo.gather",
                 .operands = {x, indices},
                 .attributes = {{"offset_dims", dimensions.offset},
                                {"collapsed_slice_dims", dimensions.collapsed},
                                {"start_index_map", dimensions.start_index_map},
                                {"index_vector_dim", dimensions.index_vector},
                                {"slice_sizes", dimensions.slice_sizes},
                                {"indices_are_sorted", dimensions.sorted}}})[0];
}

Values Builder::composite(const std::string& name,
                          const Values& operands,
                          std::vector<Attribute> arguments,
                          Program body) {
  Operation op{.name = name,
               .operands = operands,
               .arguments = std::move(arguments),
               .bodies = {std::make_shared<const Program>(std::move(body))}};
  if (!op.is_composite())
    throw std::invalid_argument(
        fmt::format("[{}] is not the name of a composite", name));
  return append(std::move(op));
}

Values Builder::custom_call(const std::string& target,
                            const Values& operands,
                            std::vector<TensorType> results,
                            std::string backend_config) {
  return append({.name = "stablehlo.custom_call",
                 .operands = operands,
                 .attributes = {{"call_target_name", target},
                                {"has_side_effect", false},
                                {"backend_config", std::move(backend_config)},
                                {"api_version", int64_t(2)}}},
                std::move(results));
}

Program build_region(const Region& region,
                     const std::vector<TensorType>& parameters,
                     const std::string& name) {
  Builder b(name);
  Values values;
  for (const TensorType& type : parameters)
    values.push_back(b.parameter(type));
  const Values results = region(b, values);
  return b.finish(results);
}

}  // namespace neuronx::ir
