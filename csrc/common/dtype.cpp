// SPDX-License-Identifier: Apache-2.0
#include "common/dtype.h"

namespace neuronx {
namespace {

struct Info {
  size_t itemsize;
  std::string_view name;
  std::string_view stablehlo;
};

constexpr Info kInfo[kDTypeCount] = {
    {1, "bool", "i1"},
    {1, "uint8", "ui8"},
    {1, "int8", "i8"},
    {2, "uint16", "ui16"},
    {2, "int16", "i16"},
    {4, "uint32", "ui32"},
    {4, "int32", "i32"},
    {8, "uint64", "ui64"},
    {8, "int64", "i64"},
    {2, "float16", "f16"},
    {2, "bfloat16", "bf16"},
    {4, "float32", "f32"},
    {8, "float64", "f64"},
    {1, "float8_e4m3fn", "f8E4M3FN"},
    {1, "float8_e5m2", "f8E5M2"},
    {8, "complex64", "complex<f32>"},
    {16, "complex128", "complex<f64>"},
};

const Info& info(DType dtype) {
  return kInfo[static_cast<int>(dtype)];
}

}  // namespace

size_t itemsize(DType dtype) {
  return info(dtype).itemsize;
}
std::string_view name(DType dtype) {
  return info(dtype).name;
}
std::string_view stablehlo_name(DType dtype) {
  return info(dtype).stablehlo;
}

bool is_floating_point(DType dtype) {
  return dtype >= DType::Float16 && dtype <= DType::Float8E5M2;
}

bool is_complex(DType dtype) {
  return dtype >= DType::Complex64;
}

bool is_integral(DType dtype) {
  return dtype <= DType::Int64;
}

bool is_unsigned(DType dtype) {
  return dtype == DType::Bool || dtype == DType::UInt8 ||
         dtype == DType::UInt16 || dtype == DType::UInt32 ||
         dtype == DType::UInt64;
}

}  // namespace neuronx
