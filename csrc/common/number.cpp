// SPDX-License-Identifier: Apache-2.0
#include "common/number.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace neuronx {
namespace {

// Layout of an IEEE-like format narrower than double.
struct Format {
  int exponent_bits, mantissa_bits;
  bool finite_only;  // no infinity, one NaN per sign: float8_e4m3fn
};

Format format(DType dtype) {
  switch (dtype) {
    case DType::Float16:
      return {5, 10, false};
    case DType::BFloat16:
      return {8, 7, false};
    case DType::Float8E4M3FN:
      return {4, 3, true};
    case DType::Float8E5M2:
      return {5, 2, false};
    default:
      return {8, 23, false};
  }
}

uint32_t encode_bits(Format f, double value) {
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const uint32_t exponent_mask = (1u << f.exponent_bits) - 1;
  const uint32_t sign = uint32_t(std::signbit(value))
                        << (f.exponent_bits + f.mantissa_bits);
  const uint32_t all_ones =
      (exponent_mask << f.mantissa_bits) | ((1u << f.mantissa_bits) - 1);
  const uint32_t infinity =
      f.finite_only ? all_ones : exponent_mask << f.mantissa_bits;
  const uint32_t nan =
      f.finite_only ? all_ones : infinity | (1u << (f.mantissa_bits - 1));
  if (std::isnan(value))
    return nan;
  if (std::isinf(value))
    return sign | infinity;
  if (value == 0)
    return sign;
  int exponent;
  std::frexp(value, &exponent);
  exponent -= 1;  // value = 1.m * 2^exponent
  const int lowest = 1 - bias;
  const int scale = f.mantissa_bits - std::max(exponent, lowest);
  // Exact: at most 24 significant bits remain left of the point.
  const double scaled = std::ldexp(std::fabs(value), scale);
  uint64_t mantissa = uint64_t(std::floor(scaled));
  const double rest = scaled - double(mantissa);
  if (rest > 0.5 || (rest == 0.5 && (mantissa & 1)))
    mantissa += 1;
  // The carry out of the mantissa increments the exponent by itself.
  const uint64_t bits =
      exponent < lowest
          ? mantissa
          : (uint64_t(exponent + bias - 1) << f.mantissa_bits) + mantissa;
  return sign | uint32_t(std::min<uint64_t>(bits, infinity));
}

double decode_bits(Format f, uint32_t bits) {
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const uint32_t exponent_mask = (1u << f.exponent_bits) - 1;
  const uint32_t mantissa_mask = (1u << f.mantissa_bits) - 1;
  const uint32_t exponent = (bits >> f.mantissa_bits) & exponent_mask;
  const uint32_t mantissa = bits & mantissa_mask;
  const bool negative = (bits >> (f.exponent_bits + f.mantissa_bits)) & 1;
  double value;
  if (f.finite_only ? exponent == exponent_mask && mantissa == mantissa_mask
                    : exponent == exponent_mask && mantissa != 0) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (!f.finite_only && exponent == exponent_mask) {
    value = std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(double(mantissa), 1 - bias - f.mantissa_bits);
  } else {
    value = std::ldexp(double(mantissa | (1u << f.mantissa_bits)),
                       int(exponent) - bias - f.mantissa_bits);
  }
  return negative ? -value : value;
}

std::string little_endian(uint64_t bits, size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size && i < 8; ++i)
    bytes[i] = char(bits >> (8 * i));
  return bytes;
}

uint64_t read(DType dtype, const void* bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes, itemsize(dtype));
  return bits;
}

template <typename T>
uint64_t saturate(double value) {
  if (std::isnan(value))
    return 0;
  constexpr T low = std::numeric_limits<T>::min();
  constexpr T high = std::numeric_limits<T>::max();
  if (value <= double(low))
    return uint64_t(low);
  if (value >= double(high))
    return uint64_t(high);
  return uint64_t(T(value));
}

uint64_t saturate(DType dtype, double value) {
  switch (dtype) {
    case DType::UInt8:
      return saturate<uint8_t>(value);
    case DType::Int8:
      return saturate<int8_t>(value);
    case DType::UInt16:
      return saturate<uint16_t>(value);
    case DType::Int16:
      return saturate<int16_t>(value);
    case DType::UInt32:
      return saturate<uint32_t>(value);
    case DType::Int32:
      return saturate<int32_t>(value);
    case DType::UInt64:
      return saturate<uint64_t>(value);
    case DType::Int64:
      return saturate<int64_t>(value);
    default:
      return value != 0;
  }
}

}  // namespace

std::string encode(DType dtype, double value) {
  const size_t size = itemsize(dtype);
  if (is_integral(dtype))
    return little_endian(saturate(dtype, value), size);
  // One NaN, so that equal constants have equal bytes.
  if (std::isnan(value))
    value = std::numeric_limits<double>::quiet_NaN();
  if (dtype == DType::Float64 || dtype == DType::Complex128)
    return little_endian(std::bit_cast<uint64_t>(value), size);
  return little_endian(encode_bits(format(dtype), value), size);
}

std::string encode(DType dtype, int64_t value) {
  if (dtype == DType::Bool)
    return std::string(1, char(value != 0));
  if (is_integral(dtype))
    return little_endian(uint64_t(value), itemsize(dtype));
  double rounded = double(value);
  if (dtype != DType::Float64 && dtype != DType::Complex128) {
    // Round to odd, so that the second rounding sees what the first dropped.
    const __int128 error = __int128(value) - __int128(rounded);
    if (error != 0 && !(std::bit_cast<uint64_t>(rounded) & 1)) {
      const bool up = (error > 0) == (value > 0);
      rounded = std::bit_cast<double>(std::bit_cast<uint64_t>(rounded) +
                                      (up ? 1 : -1));
    }
  }
  return encode(dtype, rounded);
}

double decode_double(DType dtype, const void* bytes) {
  const uint64_t bits = read(dtype, bytes);
  if (dtype == DType::Float64)
    return std::bit_cast<double>(bits);
  return decode_bits(format(dtype), uint32_t(bits));
}

int64_t decode_int(DType dtype, const void* bytes) {
  const uint64_t bits = read(dtype, bytes);
  if (is_unsigned(dtype))
    return int64_t(bits);
  const int unused = 64 - 8 * int(itemsize(dtype));
  return int64_t(bits << unused) >> unused;
}

}  // namespace neuronx
