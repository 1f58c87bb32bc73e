// SPDX-License-Identifier: Apache-2.0
// Element types, with the names PyTorch and StableHLO give them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace neuronx {

// Values are part of the serialised Program format: append only.
enum class DType : uint8_t {
  Bool,
  UInt8,
  Int8,
  UInt16,
  Int16,
  UInt32,
  Int32,
  UInt64,
  Int64,
  Float16,
  BFloat16,
  Float32,
  Float64,
  Float8E4M3FN,
  Float8E5M2,
  Complex64,
  Complex128,
};
inline constexpr int kDTypeCount = 17;

// Bytes of one element; a Bool takes one byte.
size_t itemsize(DType dtype);

// PyTorch's name, as in "float32".
std::string_view name(DType dtype);

// StableHLO's element type, as in "f32" or "i1".
std::string_view stablehlo_name(DType dtype);

bool is_floating_point(DType dtype);
bool is_complex(DType dtype);
// Integers and Bool.
bool is_integral(DType dtype);
bool is_unsigned(DType dtype);

}  // namespace neuronx
