// SPDX-License-Identifier: Apache-2.0
// neuronx.philox: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3", SC 2011) in 32 and 64-bit integer StableHLO.
#include <fmt/format.h>

#include <array>
#include <stdexcept>

#include "ir/builder.h"
#include "ir/infer.h"

namespace neuronx::ir {
namespace {

constexpr int64_t kMultiplier[] = {0xD2511F53, 0xCD9E8D57};
constexpr int64_t kWeyl[] = {0x9E3779B9, 0xBB67AE85};
constexpr int64_t kLow32 = 0xFFFFFFFF;
constexpr int kRounds = 10;

struct Words {
  Value low, high;
};

// The two halves of 64-bit words.
Words halves(Builder& b, Value x) {
  const Value mask = b.constant(DType::UInt64, kLow32, b.shape(x));
  const Value shift = b.constant(DType::UInt64, 32, b.shape(x));
  return {b.convert(b.logical_and(x, mask), DType::UInt32),
          b.convert(b.binary("shift_right_logical", x, shift), DType::UInt32)};
}

// All 64 bits of x * multiplier.
Words multiply(Builder& b, Value x, int64_t multiplier) {
  return halves(b,
                b.mul(b.convert(x, DType::UInt64),
                      b.constant(DType::UInt64, multiplier, b.shape(x))));
}

Values philox_body(Builder& b, Value seed, Value offset, int64_t n) {
  const int64_t blocks = n / 4 + (n % 4 != 0);
  const Shape shape{blocks};
  const Value first = b.broadcast(b.bitcast(offset, DType::UInt64), shape);
  const Words counter =
      halves(b, b.add(first, b.iota({DType::UInt64, shape}, 0)));
  const Words seeds = halves(b, b.bitcast(seed, DType::UInt64));
  std::array<Value, 2> key{seeds.low, seeds.high};
  const Value zero = b.constant(DType::UInt32, 0, shape);
  std::array<Value, 4> c{counter.low, counter.high, zero, zero};
  for (int round = 0; round < kRounds; ++round) {
    const Words p0 = multiply(b, c[0], kMultiplier[0]);
    const Words p1 = multiply(b, c[2], kMultiplier[1]);
    const auto mix = [&](Value high, Value word, Value k) {
      return b.binary(
          "xor", b.binary("xor", high, word), b.broadcast(k, shape));
    };
    c = {
        mix(p1.high, c[1], key[0]), p1.low, mix(p0.high, c[3], key[1]), p0.low};
    for (int i : {0, 1})
      key[i] = b.add(key[i], b.constant(DType::UInt32, kWeyl[i]));
  }
  Values columns;
  for (Value word : c)
    columns.push_back(b.reshape(word, {blocks, 1}));
  const Value words = b.reshape(b.concatenate(columns, 1), {4 * blocks});
  return {b.slice(words, {0}, {n}, {1})};
}

}  // namespace

Value Builder::philox(Value seed, Value offset, int64_t n) {
  static constexpr char kName[] = "neuronx.philox";
  const TensorType scalar{DType::Int64, {}};
  if (type(seed) != scalar || type(offset) != scalar || n < 0)
    throw std::invalid_argument(
        fmt::format("[{}] expected seed and offset int64[] and n of at least "
                    "0, got {}, {} and {}",
                    kName,
                    to_string(type(seed)),
                    to_string(type(offset)),
                    n));
  const Region words = [&](Builder& b, const Values& v) {
    return philox_body(b, v[0], v[1], n);
  };
  return append({.name = kName,
                 .operands = {seed, offset},
                 .bodies = {std::make_shared<const Program>(
                     build_region(words, {scalar, scalar}, "philox"))}})[0];
}

}  // namespace neuronx::ir
