// SPDX-License-Identifier: Apache-2.0
#include "sim/executor/arguments.h"

#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "common/number.h"

namespace neuronx::sim {
namespace {

using ir::Attribute;

[[noreturn]] void mismatch(const c10::Type& type) {
  throw std::invalid_argument("a value does not fit the type " + type.str());
}

int64_t to_int(const Attribute& value, const c10::Type& type) {
  if (const auto* v = std::get_if<int64_t>(&value))
    return *v;
  if (const auto* v = std::get_if<bool>(&value))
    return *v;
  if (const auto* v = std::get_if<DType>(&value))
    return int64_t(to_scalar_type(*v));
  mismatch(type);
}

double to_double(const Attribute& value, const c10::Type& type) {
  if (const auto* v = std::get_if<double>(&value))
    return *v;
  return double(to_int(value, type));
}

c10::IValue to_number(const Attribute& value, const c10::Type& type) {
  if (const auto* v = std::get_if<bool>(&value))
    return *v;
  if (const auto* v = std::get_if<int64_t>(&value))
    return *v;
  return to_double(value, type);
}

// One value for a list is a list of one.
std::vector<Attribute> elements(const Attribute& value) {
  std::vector<Attribute> result;
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&value))
    result.assign(ints->begin(), ints->end());
  else if (const auto* doubles = std::get_if<std::vector<double>>(&value))
    result.assign(doubles->begin(), doubles->end());
  else
    result.push_back(value);
  return result;
}

template <typename T, typename Convert>
c10::List<T> list_of(const Attribute& value, Convert convert) {
  c10::List<T> list;
  for (const Attribute& element : elements(value))
    list.push_back(convert(element));
  return list;
}

bool is_optional(const c10::Type& type) {
  return type.kind() == c10::TypeKind::OptionalType;
}

const c10::Type& strip_optional(const c10::Type& type) {
  return is_optional(type)
             ? *type.castRaw<c10::OptionalType>()->getElementType()
             : type;
}

}  // namespace

Arguments::Arguments(const c10::FunctionSchema& schema,
                     const ir::Operation& op,
                     const std::vector<ir::TensorType>& operands) {
  if (op.arguments.size() > schema.arguments().size())
    throw std::invalid_argument(
        c10::str(op.name, " has more arguments than ", schema));
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    if (i < op.arguments.size()) {
      values_.push_back(
          convert(op.arguments[i], *argument.real_type(), i, operands));
      continue;
    }
    if (!argument.default_value())
      throw std::invalid_argument(
          c10::str(op.name, " lacks argument ", argument.name()));
    values_.push_back(*argument.default_value());
  }
}

c10::IValue Arguments::convert(const Attribute& value,
                               const c10::Type& declared,
                               size_t position,
                               const std::vector<ir::TensorType>& operands) {
  const c10::Type& type = strip_optional(declared);
  const bool none = std::holds_alternative<std::monostate>(value);
  if (type.kind() == c10::TypeKind::DeviceObjType)
    return c10::Device(c10::kCPU);
  if (type.kind() == c10::TypeKind::GeneratorType)
    return {};
  if (none) {
    if (type.kind() == c10::TypeKind::TensorType && !is_optional(declared))
      return at::Tensor();
    return {};
  }
  if (type.kind() == c10::TypeKind::ListType)
    return list(value,
                *type.castRaw<c10::ListType>()->getElementType(),
                position,
                operands);
  if (const auto* operand = std::get_if<ir::Operand>(&value)) {
    if (type.kind() == c10::TypeKind::TensorType) {
      holes_.push_back({position, -1, operand->index});
    } else {
      const bool floating =
          is_floating_point(operands.at(operand->index).dtype);
      scalars_.push_back({position, -1, operand->index, floating, {}, {}});
    }
    return {};
  }
  if (const auto* number = std::get_if<ir::NumberTensor>(&value)) {
    if (type.kind() != c10::TypeKind::TensorType)
      mismatch(type);
    return number_tensor(*number, position, operands);
  }
  switch (type.kind()) {
    case c10::TypeKind::NumberType:
      return to_number(value, type);
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
    case c10::TypeKind::ScalarTypeType:
    case c10::TypeKind::LayoutType:
    case c10::TypeKind::MemoryFormatType:
      return to_int(value, type);
    case c10::TypeKind::FloatType:
    case c10::TypeKind::SymFloatType:
      return to_double(value, type);
    case c10::TypeKind::BoolType:
    case c10::TypeKind::SymBoolType:
      return to_int(value, type) != 0;
    case c10::TypeKind::StringType:
      if (const auto* text = std::get_if<std::string>(&value))
        return *text;
      mismatch(type);
    default:
      mismatch(type);
  }
}

c10::IValue Arguments::list(const Attribute& value,
                            const c10::Type& element,
                            size_t position,
                            const std::vector<ir::TensorType>& operands) {
  const auto* indices = std::get_if<ir::OperandList>(&value);
  const c10::Type& type = strip_optional(element);
  switch (type.kind()) {
    case c10::TypeKind::TensorType: {
      if (!indices)
        mismatch(type);
      c10::List<at::Tensor> tensors;
      c10::List<std::optional<at::Tensor>> optionals;
      for (size_t i = 0; i < indices->indices.size(); ++i) {
        const int32_t index = indices->indices[i];
        tensors.push_back(at::Tensor());
        optionals.push_back(std::nullopt);
        if (index >= 0)
          holes_.push_back({position, int64_t(i), index});
      }
      if (is_optional(element))
        return optionals;
      return tensors;
    }
    case c10::TypeKind::NumberType: {
      c10::impl::GenericList numbers(c10::NumberType::get());
      if (!indices) {
        for (const Attribute& number : elements(value))
          numbers.push_back(to_number(number, type));
        return numbers;
      }
      for (size_t i = 0; i < indices->indices.size(); ++i) {
        const int32_t index = indices->indices[i];
        const bool floating = is_floating_point(operands.at(index).dtype);
        numbers.push_back(c10::IValue(0));
        scalars_.push_back({position, int64_t(i), index, floating, {}, {}});
      }
      return numbers;
    }
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return list_of<int64_t>(
          value, [&](const Attribute& v) { return to_int(v, type); });
    case c10::TypeKind::FloatType:
      return list_of<double>(
          value, [&](const Attribute& v) { return to_double(v, type); });
    case c10::TypeKind::BoolType:
      return list_of<bool>(
          value, [&](const Attribute& v) { return to_int(v, type) != 0; });
    default:
      mismatch(type);
  }
}

c10::IValue Arguments::number_tensor(
    ir::NumberTensor number,
    size_t position,
    const std::vector<ir::TensorType>& operands) {
  // Among float32 tensors a wrapped number becomes float32 at each call,
  // which takes longer than the call itself: do it once.
  const auto is_float = [](const ir::TensorType& type) {
    return type.dtype == DType::Float32;
  };
  const bool number_is_wide =
      number.dtype == DType::Float64 || number.dtype == DType::Int64;
  if (number.wrapped && number_is_wide && !operands.empty() &&
      std::all_of(operands.begin(), operands.end(), is_float)) {
    number.dtype = DType::Float32;
    if (const auto* v = std::get_if<int64_t>(&number.value))
      number.value = double(*v);
  }
  at::Tensor tensor = make_empty(number.dtype, {});
  std::string bytes;
  if (const auto* v = std::get_if<double>(&number.value))
    bytes = encode(number.dtype, *v);
  else if (const auto* v = std::get_if<int64_t>(&number.value))
    bytes = encode(number.dtype, *v);
  else
    bytes = encode(number.dtype, int64_t(std::get<bool>(number.value)));
  std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  tensor.unsafeGetTensorImpl()->set_wrapped_number(number.wrapped);
  if (number.operand >= 0)
    scalars_.push_back({position,
                        -1,
                        number.operand,
                        is_floating_point(number.dtype),
                        tensor,
                        {}});
  return tensor;
}

void Arguments::bind(const Tensors& operands) {
  for (const Hole& hole : holes_) {
    c10::IValue& value = values_[hole.position];
    const at::Tensor& tensor = operands.at(hole.operand);
    if (hole.element < 0)
      value = tensor;
    else if (value.isTensorList())
      value.toTensorList().set(hole.element, tensor);
    else
      value.toList().set(hole.element, tensor);
  }
  for (Scalar& scalar : scalars_)
    scalar.source = operands.at(scalar.operand);
}

void Arguments::read_scalars() {
  for (const Scalar& scalar : scalars_) {
    const void* data = scalar.source.const_data_ptr();
    const auto type = scalar.source.scalar_type();
    if (scalar.number.defined()) {
      if (type == at::kFloat && scalar.number.scalar_type() == at::kDouble)
        *static_cast<double*>(scalar.number.mutable_data_ptr()) =
            double(*static_cast<const float*>(data));
      else
        copy(scalar.number, scalar.source);
      continue;
    }
    c10::IValue value;
    if (type == at::kFloat)
      value = double(*static_cast<const float*>(data));
    else if (type == at::kLong)
      value = *static_cast<const int64_t*>(data);
    else if (scalar.floating)
      value = scalar.source.item().toDouble();
    else
      value = scalar.source.item().toLong();
    if (scalar.element < 0)
      values_[scalar.position] = std::move(value);
    else
      values_[scalar.position].toList().set(scalar.element, std::move(value));
  }
}

std::vector<int32_t> Arguments::list_operands(size_t i) const {
  std::vector<int32_t> all;
  for (const Hole& hole : holes_)
    if (hole.position == i && hole.element == int64_t(all.size()))
      all.push_back(hole.operand);
  return all;
}

int32_t Arguments::operand(size_t i) const {
  for (const Hole& hole : holes_)
    if (hole.position == i && hole.element < 0)
      return hole.operand;
  return -1;
}

}  // namespace neuronx::sim
