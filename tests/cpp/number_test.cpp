// SPDX-License-Identifier: Apache-2.0
#include "common/number.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace neuronx {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

uint64_t bits(const std::string& bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    value |= uint64_t(uint8_t(bytes[i])) << (8 * i);
  return value;
}

TEST(Encode, KnownBits) {
  const struct {
    DType dtype;
    double value;
    uint64_t expected;
  } cases[] = {
      {DType::Float16, 1.0, 0x3C00},
      {DType::Float16, 65504, 0x7BFF},
      {DType::Float16, 65520, 0x7C00},
      {DType::Float16, 5.960464477539063e-08, 0x0001},
      {DType::Float16, 2.980232238769531e-08, 0x0000},  // tie to even
      {DType::Float16, -0.0, 0x8000},
      {DType::BFloat16, 1.00390625, 0x3F80},  // tie to even
      {DType::BFloat16, 1.01171875, 0x3F82},
      {DType::BFloat16, -kInfinity, 0xFF80},
      {DType::Float32, 0.1, 0x3DCCCCCD},
      {DType::Float32, 1e-45, 0x00000001},
      {DType::Float32, 3.5e38, 0x7F800000},
      {DType::Float8E4M3FN, 448, 0x7E},
      {DType::Float8E4M3FN, 464, 0x7E},  // tie to even
      {DType::Float8E4M3FN, 465, 0x7F},
      {DType::Float8E5M2, 57344, 0x7B},
      {DType::Float8E5M2, kInfinity, 0x7C},
      {DType::Float64, -2.0, 0xC000000000000000},
      {DType::Int8, 300.7, 127},
      {DType::Int8, -1.9, 0xFF},
      {DType::UInt8, -1.0, 0},
      {DType::Int64, -kInfinity, 0x8000000000000000},
      {DType::UInt64, 1e30, 0xFFFFFFFFFFFFFFFF},
      {DType::Int32, std::nan(""), 0},
      {DType::Bool, 0.5, 1},
  };
  for (const auto& c : cases)
    EXPECT_EQ(bits(encode(c.dtype, c.value)), c.expected)
        << name(c.dtype) << " " << c.value;
}

TEST(Encode, NarrowFormatsSurviveTheRoundTrip) {
  for (DType dtype : {DType::Float16,
                      DType::BFloat16,
                      DType::Float8E4M3FN,
                      DType::Float8E5M2})
    for (uint32_t pattern = 0; pattern < (1u << (8 * itemsize(dtype)));
         ++pattern) {
      const double value = decode_double(dtype, &pattern);
      if (std::isnan(value))
        continue;
      ASSERT_EQ(bits(encode(dtype, value)), pattern) << name(dtype);
    }
}

TEST(Encode, FloatRoundsAsTheHardwareDoes) {
  uint64_t state = 1;
  for (int i = 0; i < 200000; ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    double value;
    std::memcpy(&value, &state, sizeof(value));
    if (std::isnan(value))
      continue;
    if (i % 2)
      value = std::ldexp(double(int64_t(state)), -int(state >> 56));
    const float expected = float(value);
    ASSERT_EQ(float(decode_double(DType::Float32,
                                  encode(DType::Float32, value).data())),
              expected)
        << value;
  }
}

TEST(Encode, IntegersWrapAndRoundOnce) {
  EXPECT_EQ(bits(encode(DType::UInt8, int64_t(-1))), 255u);
  EXPECT_EQ(bits(encode(DType::Int16, int64_t(1) << 40)), 0u);
  EXPECT_EQ(bits(encode(DType::Bool, int64_t(256))), 1u);
  // Rounding to double first would tie, and then round to even: down.
  const int64_t value = (int64_t(1) << 54) + (int64_t(1) << 30) + 1;
  EXPECT_EQ(decode_double(DType::Float32, encode(DType::Float32, value).data()),
            double(float(value)));
  EXPECT_EQ(float(value), std::ldexp(1.0f, 54) + std::ldexp(1.0f, 31));
}

TEST(Decode, IntegersExtendTheirSign) {
  const int8_t minus = -5;
  EXPECT_EQ(decode_int(DType::Int8, &minus), -5);
  EXPECT_EQ(decode_int(DType::UInt8, &minus), 251);
  const int64_t low = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(decode_int(DType::Int64, &low), low);
}

}  // namespace
}  // namespace neuronx
