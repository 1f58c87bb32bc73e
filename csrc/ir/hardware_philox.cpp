// SPDX-License-Identifier: Apache-2.0
// neuronx.philox in 32-bit integers (see philox.cpp), for compilers that
// compute 64-bit ones in 32 bits. Equal to it for seeds and offsets of 32 bits.
#include <array>

#include "ir/hardware_rewrites.h"

namespace neuronx::ir::hardware {
namespace {

constexpr int64_t kMultiplier[] = {0xD2511F53, 0xCD9E8D57};
constexpr int64_t kWeyl[] = {0x9E3779B9, 0xBB67AE85};
constexpr int kRounds = 10;

struct Words {
  Value low, high;
};

Value full(Builder& b, Value like, int64_t value) {
  return b.constant(b.dtype(like), value, b.shape(like));
}

// The words of a sign-extended 32-bit number.
Words words(Builder& b, Value x) {
  x = b.convert(x, DType::Int32);
  const Value sign = b.binary("shift_right_arithmetic", x, full(b, x, 31));
  return {b.bitcast(x, DType::UInt32), b.bitcast(sign, DType::UInt32)};
}

Value low_half(Builder& b, Value x) {
  return b.logical_and(x, full(b, x, 0xFFFF));
}

Value high_half(Builder& b, Value x) {
  return b.binary("shift_right_logical", x, full(b, x, 16));
}

// All 64 bits of x * multiplier, from products of 16 bits (H. S. Warren,
// "Hacker's Delight", 8-2).
Words multiply(Builder& b, Value x, int64_t multiplier) {
  const Value low = full(b, x, multiplier & 0xFFFF);
  const Value high = full(b, x, multiplier >> 16);
  const Value x_low = low_half(b, x), x_high = high_half(b, x);
  const Value first = high_half(b, b.mul(x_low, low));
  const Value middle = b.add(b.mul(x_high, low), first);
  const Value other = b.add(b.mul(x_low, high), low_half(b, middle));
  return {b.mul(x, full(b, x, multiplier)),
          b.add(b.add(b.mul(x_high, high), high_half(b, middle)),
                high_half(b, other))};
}

}  // namespace

Value philox_32(Builder& b, Value seed, Value offset, int64_t n) {
  const int64_t blocks = n / 4 + (n % 4 != 0);
  const Shape shape{blocks};
  const Words start = words(b, offset), seeds = words(b, seed);
  const Value first = b.broadcast(start.low, shape);
  const Value low = b.add(first, b.iota({DType::UInt32, shape}, 0));
  const Value carry =
      b.convert(b.compare(Compare::LT, low, first), DType::UInt32);
  const Value high = b.add(b.broadcast(start.high, shape), carry);
  const Value zero = b.constant(DType::UInt32, 0, shape);
  std::array<Value, 4> c{low, high, zero, zero};
  std::array<Value, 2> key{seeds.low, seeds.high};
  for (int round = 0; round < kRounds; ++round) {
    const Words p0 = multiply(b, c[0], kMultiplier[0]);
    const Words p1 = multiply(b, c[2], kMultiplier[1]);
    const auto mix = [&](Value x, Value word, Value k) {
      return b.binary("xor", b.binary("xor", x, word), b.broadcast(k, shape));
    };
    c = {
        mix(p1.high, c[1], key[0]), p1.low, mix(p0.high, c[3], key[1]), p0.low};
    for (int i : {0, 1})
      key[i] = b.add(key[i], full(b, key[i], kWeyl[i]));
  }
  Values columns;
  for (Value word : c)
    columns.push_back(b.reshape(word, {blocks, 1}));
  return b.slice(
      b.reshape(b.concatenate(columns, 1), {4 * blocks}), {0}, {n}, {1});
}

}  // namespace neuronx::ir::hardware
