// SPDX-License-Identifier: Apache-2.0
#include "eager/arguments.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/jit_type.h>

#include <utility>

namespace neuronx::eager {
namespace {

constexpr std::pair<c10::ScalarType, DType> kDTypes[] = {
    {c10::ScalarType::Bool, DType::Bool},
    {c10::ScalarType::Byte, DType::UInt8},
    {c10::ScalarType::Char, DType::Int8},
    {c10::ScalarType::UInt16, DType::UInt16},
    {c10::ScalarType::Short, DType::Int16},
    {c10::ScalarType::UInt32, DType::UInt32},
    {c10::ScalarType::Int, DType::Int32},
    {c10::ScalarType::UInt64, DType::UInt64},
    {c10::ScalarType::Long, DType::Int64},
    {c10::ScalarType::Half, DType::Float16},
    {c10::ScalarType::BFloat16, DType::BFloat16},
    {c10::ScalarType::Float, DType::Float32},
    {c10::ScalarType::Double, DType::Float64},
    {c10::ScalarType::Float8_e4m3fn, DType::Float8E4M3FN},
    {c10::ScalarType::Float8_e5m2, DType::Float8E5M2},
    {c10::ScalarType::ComplexFloat, DType::Complex64},
    {c10::ScalarType::ComplexDouble, DType::Complex128},
};

const c10::Type& strip_optional(const c10::Type& type) {
  return type.kind() == c10::TypeKind::OptionalType
             ? *type.castRaw<c10::OptionalType>()->getElementType()
             : type;
}

}  // namespace

std::optional<DType> to_dtype(c10::ScalarType dtype) {
  for (const auto& [torch, ours] : kDTypes) {
    if (torch == dtype) {
      return ours;
    }
  }
  return std::nullopt;
}

c10::ScalarType to_scalar_type(DType dtype) {
  for (const auto& [torch, ours] : kDTypes) {
    if (ours == dtype) {
      return torch;
    }
  }
  return c10::ScalarType::Undefined;
}

std::optional<ir::Attribute> to_attribute(const c10::IValue& value,
                                          const c10::Type& declared) {
  const c10::Type& type = strip_optional(declared);
  if (value.isNone() || value.isDevice() || value.isGenerator()) {
    return ir::Attribute{};
  }
  if (value.isBool()) {
    return value.toBool();
  }
  if (value.isInt()) {
    if (type.kind() == c10::TypeKind::ScalarTypeType) {
      const auto dtype = to_dtype(static_cast<c10::ScalarType>(value.toInt()));
      if (!dtype) {
        return std::nullopt;
      }
      return *dtype;
    }
    return value.toInt();
  }
  if (value.isDouble()) {
    return value.toDouble();
  }
  if (value.isString()) {
    return value.toStringRef();
  }
  if (value.isIntList()) {
    return value.toIntVector();
  }
  if (value.isDoubleList()) {
    return value.toDoubleVector();
  }
  if (value.isBoolList()) {
    std::vector<int64_t> flags;
    for (bool flag : value.toBoolList()) {
      flags.push_back(flag);
    }
    return flags;
  }
  if (value.isList()) {
    const auto elements = value.toListRef();
    bool integers = true;
    for (const auto& element : elements) {
      if (!element.isInt() && !element.isBool() && !element.isDouble()) {
        return std::nullopt;
      }
      integers = integers && !element.isDouble();
    }
    if (integers) {
      std::vector<int64_t> list;
      for (const auto& element : elements) {
        list.push_back(element.isBool() ? element.toBool() : element.toInt());
      }
      return list;
    }
    std::vector<double> list;
    for (const auto& element : elements) {
      list.push_back(element.toScalar().toDouble());
    }
    return list;
  }
  return std::nullopt;
}

ir::NumberTensor to_number_tensor(const at::Tensor& tensor) {
  const auto dtype = tensor.scalar_type();
  ir::NumberTensor number{*to_dtype(dtype),
                          tensor.unsafeGetTensorImpl()->is_wrapped_number(),
                          false};
  if (dtype == c10::ScalarType::Bool) {
    number.value = tensor.item().toBool();
  } else if (c10::isFloatingType(dtype)) {
    number.value = tensor.item().toDouble();
  } else {
    number.value = tensor.item().toLong();
  }
  return number;
}

}  // namespace neuronx::eager
