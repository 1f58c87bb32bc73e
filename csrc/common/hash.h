// SPDX-License-Identifier: Apache-2.0
// Hashes: 64 bits for tables in memory, SHA-256 for content keys on disk.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace neuronx {

// The finaliser of SplitMix64 (Steele et al. 2014): every input bit reaches
// every output bit.
inline uint64_t hash_mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9;
  x ^= x >> 27;
  x *= 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// The hash of a sequence, one value at a time; order matters.
inline uint64_t hash_combine(uint64_t seed, uint64_t value) {
  return hash_mix(seed + 0x9e3779b97f4a7c15 + hash_mix(value));
}

uint64_t hash_bytes(const void* data, size_t size, uint64_t seed = 0);

// SHA-256 (FIPS 180-4) of the bytes, of which no two are known to collide.
std::array<uint8_t, 32> sha256(std::string_view bytes);
// As 64 lower-case hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

}  // namespace neuronx
