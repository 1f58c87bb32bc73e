// SPDX-License-Identifier: Apache-2.0
#include "lowering/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ir/number.h"
#include "ir/passes.h"

namespace neuronx::lowering {
namespace {

std::map<std::string, Lowering, std::less<>>& table() {
  static auto* entries = new std::map<std::string, Lowering, std::less<>>;
  return *entries;
}

// An undefined result (None) has this type; see eager.
bool is_undefined(const ir::TensorType& type) {
  return type.dtype == DType::Bool && type.shape == ir::Shape{0};
}

// PyTorch's categories: bool < integer < floating point.
int category(DType dtype) {
  return dtype == DType::Bool ? 0 : is_integral(dtype) ? 1 : 2;
}

DType promote(DType a, DType b) {
  if (a == b) {
    return a;
  }
  if (category(a) != category(b)) {
    return category(a) > category(b) ? a : b;
  }
  if (category(a) == 2) {
    if (itemsize(a) != itemsize(b)) {
      return itemsize(a) > itemsize(b) ? a : b;
    }
    return DType::Float32;  // float16 with bfloat16
  }
  if (is_unsigned(a) == is_unsigned(b)) {
    return itemsize(a) > itemsize(b) ? a : b;
  }
  const DType u = is_unsigned(a) ? a : b;
  const DType s = is_unsigned(a) ? b : a;
  if (itemsize(s) > itemsize(u)) {
    return s;
  }
  return itemsize(u) == 1 ? DType::Int16 : DType::Int64;
}

}  // namespace

Op::Op(ir::Builder& builder,
       std::string_view name,
       const Values& operands,
       const std::vector<ir::Attribute>& arguments,
       const std::vector<ir::TensorType>& results,
       std::vector<bool> strided)
    : b(builder),
      name_(name),
      operands_(operands),
      arguments_(arguments),
      results_(results),
      strided_(std::move(strided)) {}

int Op::argument_count() const {
  return static_cast<int>(arguments_.size());
}

const ir::Attribute& Op::argument(int i) const {
  if (i < 0 || i >= argument_count()) {
    throw std::logic_error(fmt::format("[{}] has no argument {}", name_, i));
  }
  return arguments_[i];
}

bool Op::has(int i) const {
  return i < argument_count() &&
         !std::holds_alternative<std::monostate>(argument(i));
}

Value Op::in(int i) const {
  const auto& a = argument(i);
  if (const auto* operand = std::get_if<ir::Operand>(&a)) {
    return operands_.at(operand->index);
  }
  if (const auto* number = std::get_if<ir::NumberTensor>(&a)) {
    return in(i, number->dtype);
  }
  throw Unsupported(fmt::format("argument {} is no tensor", i));
}

Value Op::in(int i, DType dtype) const {
  const auto& a = argument(i);
  if (const auto* number = std::get_if<ir::NumberTensor>(&a)) {
    if (number->operand >= 0) {
      return b.convert(operands_.at(number->operand), dtype);
    }
    if (const auto* real = std::get_if<double>(&number->value)) {
      return b.constant(dtype, *real);
    }
    if (const auto* whole = std::get_if<int64_t>(&number->value)) {
      return b.constant(dtype, *whole);
    }
    return b.constant(dtype,
                      static_cast<int64_t>(std::get<bool>(number->value)));
  }
  return b.convert(in(i), dtype);
}

Values Op::list(int i) const {
  Values values;
  if (!has(i)) {
    return values;
  }
  const auto* indices = std::get_if<ir::OperandList>(&argument(i));
  if (indices == nullptr) {
    const auto* empty = std::get_if<std::vector<int64_t>>(&argument(i));
    if (empty != nullptr && empty->empty()) {
      return values;
    }
    throw Unsupported(fmt::format("argument {} is no tensor list", i));
  }
  for (int32_t index : indices->indices) {
    values.push_back(index < 0 ? Value{} : operands_.at(index));
  }
  return values;
}

Value Op::scalar(int i, DType dtype) const {
  const auto& a = argument(i);
  if (std::holds_alternative<ir::Operand>(a) ||
      std::holds_alternative<ir::NumberTensor>(a)) {
    return in(i, dtype);
  }
  if (const auto* real = std::get_if<double>(&a)) {
    return b.constant(dtype, *real);
  }
  if (const auto* whole = std::get_if<int64_t>(&a)) {
    return b.constant(dtype, *whole);
  }
  if (const auto* flag = std::get_if<bool>(&a)) {
    return b.constant(dtype, static_cast<int64_t>(*flag));
  }
  throw Unsupported(fmt::format("argument {} is no number", i));
}

double Op::number(int i) const {
  if (const auto value = ir::number(argument(i))) {
    return *value;
  }
  throw NeedsConstant(
      fmt::format("[{}] argument {} must be a constant", name_, i));
}

int64_t Op::integer(int i) const {
  if (const auto* whole = std::get_if<int64_t>(&argument(i))) {
    return *whole;
  }
  return static_cast<int64_t>(number(i));
}

bool Op::flag(int i) const {
  return has(i) && number(i) != 0;
}

std::vector<int64_t> Op::ints(int i) const {
  const auto& a = argument(i);
  if (const auto* list = std::get_if<std::vector<int64_t>>(&a)) {
    return *list;
  }
  if (const auto* one = std::get_if<int64_t>(&a)) {
    return {*one};
  }
  if (std::holds_alternative<std::monostate>(a)) {
    return {};
  }
  throw Unsupported(fmt::format("argument {} is no list of integers", i));
}

std::string Op::string(int i) const {
  return std::get<std::string>(argument(i));
}

DType Op::dtype(int i) const {
  return std::get<DType>(argument(i));
}

ir::TensorType Op::type(int i) const {
  if (const auto* number = std::get_if<ir::NumberTensor>(&argument(i))) {
    return {number->dtype, {}};
  }
  return b.type(in(i));
}

bool Op::contiguous(int i) const {
  const auto* operand = std::get_if<ir::Operand>(&argument(i));
  return operand == nullptr || strided_.empty() || !strided_[operand->index];
}

const ir::TensorType& Op::result(int k) const {
  return results_.at(k);
}
int Op::result_count() const {
  return static_cast<int>(results_.size());
}

DType Op::promoted(std::initializer_list<int> positions) const {
  // torch.result_type: dimensioned tensors, then 0-dim ones, then numbers;
  // a later class counts only if its category is higher.
  std::optional<DType> classes[3];
  const auto add = [&](int c, DType dtype) {
    classes[c] = classes[c] ? promote(*classes[c], dtype) : dtype;
  };
  for (int i : positions) {
    const auto& a = argument(i);
    if (const auto* n = std::get_if<ir::NumberTensor>(&a)) {
      if (!n->wrapped) {
        add(1, n->dtype);
      } else {
        add(2, n->dtype == DType::Float64 ? DType::Float32 : n->dtype);
      }
    } else if (const auto* o = std::get_if<ir::Operand>(&a)) {
      const auto& type = b.type(operands_.at(o->index));
      add(type.shape.empty() ? 1 : 0, type.dtype);
    } else if (std::holds_alternative<double>(a)) {
      add(2, DType::Float32);
    } else if (std::holds_alternative<int64_t>(a)) {
      add(2, DType::Int64);
    } else if (std::holds_alternative<bool>(a)) {
      add(2, DType::Bool);
    }
  }
  std::optional<DType> result;
  for (const auto& c : classes) {
    if (c && (!result || category(*c) > category(*result))) {
      result = c;
    }
  }
  return result.value_or(DType::Float32);
}

bool lower(std::string_view name, Lowering lowering) {
  table().insert_or_assign(std::string(name), std::move(lowering));
  return true;
}

bool has_lowering(std::string_view name) {
  return table().find(name) != table().end();
}

std::vector<std::string> lowered_names() {
  std::vector<std::string> names;
  for (const auto& [name, lowering] : table()) {
    names.push_back(name);
  }
  return names;
}

std::optional<Values> call(ir::Builder& builder,
                           std::string_view name,
                           const Values& operands,
                           const std::vector<ir::Attribute>& arguments,
                           const std::vector<ir::TensorType>& results) {
  const auto it = table().find(name);
  if (it == table().end()) {
    return std::nullopt;
  }
  if (name.starts_with("neuronx::")) {
    // No operator of ATen's: expanded in place.
    Op op(builder, name, operands, arguments, results);
    Values values = it->second(op);
    for (size_t k = 0; k < results.size(); ++k) {
      values[k] = builder.convert(values[k], results[k].dtype);
    }
    return values;
  }
  ir::Builder body{std::string(name)};
  Values parameters;
  std::vector<bool> strided;
  for (Value operand : operands) {
    parameters.push_back(body.parameter(builder.type(operand)));
    strided.push_back(builder.is_strided(operand));
  }
  Op op(body, name, parameters, arguments, results, std::move(strided));
  Values values;
  try {
    values = it->second(op);
  } catch (const std::invalid_argument& error) {
    throw Unsupported(fmt::format("[{}] {}", name, error.what()));
  } catch (const std::bad_variant_access&) {
    throw Unsupported(fmt::format("[{}] an argument is of another kind", name));
  }
  if (values.size() != results.size()) {
    throw std::logic_error(fmt::format("[{}] lowered to {} results, not {}",
                                       name,
                                       values.size(),
                                       results.size()));
  }
  for (size_t k = 0; k < results.size(); ++k) {
    if (is_undefined(results[k])) {
      values[k] = body.constant(results[k], std::string{});
      continue;
    }
    values[k] = body.convert(values[k], results[k].dtype);
    if (body.shape(values[k]) != results[k].shape) {
      throw std::logic_error(fmt::format("[{}] result {} lowered to {}, not {}",
                                         name,
                                         k,
                                         ir::to_string(body.type(values[k])),
                                         ir::to_string(results[k])));
    }
  }
  auto program = body.finish(values);
  ir::dead_code_elimination(program);
  std::string composite(name);
  if (const auto colons = composite.find("::"); colons != std::string::npos) {
    composite.replace(colons, 2, ".");
  }
  return builder.composite(composite, operands, arguments, std::move(program));
}

}  // namespace neuronx::lowering
