// SPDX-License-Identifier: Apache-2.0
#include "ir/print_element.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "common/number.h"

namespace neuronx::ir {
namespace {

// Numbers listed one by one; longer constants are hexadecimal.
constexpr int64_t kListed = 32;

template <typename T>
std::string literal(T value) {
  std::string text = fmt::format("{}", value);
  if (text.find('.') != std::string::npos)
    return text;
  const size_t exponent = std::min(text.find('e'), text.size());
  return text.insert(exponent, ".0");
}

std::string bits(const char* bytes, size_t size) {
  uint64_t value = 0;
  std::memcpy(&value, bytes, size);
  return fmt::format("0x{:0{}X}", value, 2 * size);
}

std::string element(DType dtype, const char* bytes) {
  if (dtype == DType::Bool)
    return *bytes ? "true" : "false";
  if (dtype == DType::UInt64)
    return fmt::format("{}", uint64_t(decode_int(dtype, bytes)));
  if (is_integral(dtype))
    return fmt::format("{}", decode_int(dtype, bytes));
  if (is_complex(dtype)) {
    const DType part =
        dtype == DType::Complex64 ? DType::Float32 : DType::Float64;
    return fmt::format("({}, {})",
                       element(part, bytes),
                       element(part, bytes + itemsize(part)));
  }
  const double value = decode_double(dtype, bytes);
  if (!std::isfinite(value))
    return bits(bytes, itemsize(dtype));
  return dtype == DType::Float64 ? literal(value) : literal(float(value));
}

std::string nested(const TensorType& type,
                   const std::string& bytes,
                   size_t dimension,
                   int64_t& index) {
  if (dimension == type.shape.size())
    return mlir_element(type, bytes, index++);
  std::string text = "[";
  for (int64_t i = 0; i < type.shape[dimension]; ++i) {
    if (i)
      text += ", ";
    text += nested(type, bytes, dimension + 1, index);
  }
  return text + "]";
}

}  // namespace

std::string mlir_type(const TensorType& type) {
  std::string text = "tensor<";
  for (int64_t size : type.shape)
    text += fmt::format("{}x", size);
  return text + std::string(stablehlo_name(type.dtype)) + ">";
}

std::string mlir_double(double value) {
  if (std::isfinite(value))
    return literal(value);
  return fmt::format("0x{:016X}", std::bit_cast<uint64_t>(value));
}

std::string mlir_element(const TensorType& type,
                         const std::string& bytes,
                         int64_t index) {
  return element(type.dtype, bytes.data() + index * itemsize(type.dtype));
}

bool is_splat(const TensorType& type, const std::string& bytes) {
  const size_t size = itemsize(type.dtype);
  return !bytes.empty() &&
         std::memcmp(bytes.data(), bytes.data() + size, bytes.size() - size) ==
             0;
}

std::string mlir_dense(const TensorType& type, const std::string& bytes) {
  if (bytes.empty())
    return "dense<>";
  if (is_splat(type, bytes))
    return fmt::format("dense<{}>", mlir_element(type, bytes, 0));
  // MLIR packs the bits of i1, in a way that changed over time.
  if (type.numel() <= kListed || type.dtype == DType::Bool) {
    int64_t index = 0;
    return fmt::format("dense<{}>", nested(type, bytes, 0, index));
  }
  std::string text = "dense<\"0x";
  for (unsigned char byte : bytes)
    fmt::format_to(std::back_inserter(text), "{:02X}", byte);
  return text + "\">";
}

}  // namespace neuronx::ir
