// SPDX-License-Identifier: Apache-2.0
// Numbers to and from the bytes of one element.
#pragma once

#include <cstdint>
#include <string>

#include "common/dtype.h"

namespace neuronx {

// One element of `dtype`. Floating point rounds once, to nearest even, and
// overflows to infinity (NaN in float8_e4m3fn, which has none). A double
// saturates to an integer dtype and truncates towards zero, NaN becomes 0; an
// int64 wraps. Bool is `value != 0`. Complex gets a zero imaginary part.
std::string encode(DType dtype, double value);
std::string encode(DType dtype, int64_t value);

// The element at `bytes`, exactly, for a floating-point dtype.
double decode_double(DType dtype, const void* bytes);
// The element at `bytes` for an integer dtype or Bool; uint64 wraps.
int64_t decode_int(DType dtype, const void* bytes);

}  // namespace neuronx
