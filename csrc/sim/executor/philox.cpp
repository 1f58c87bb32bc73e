// SPDX-License-Identifier: Apache-2.0
// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2,
// 3", SC 2011).
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>

#include "sim/executor/native.h"

namespace neuronx::sim {
namespace {

constexpr uint64_t kMultiplier[] = {0xD2511F53, 0xCD9E8D57};
constexpr uint32_t kWeyl[] = {0x9E3779B9, 0xBB67AE85};
constexpr int kRounds = 10;
// Blocks at once, so that the compiler vectorises each round.
constexpr int kLanes = 8;
constexpr int64_t kGrain = 4096;

// kLanes blocks from `counter` on.
void generate(uint64_t seed, uint64_t counter, uint32_t* words) {
  uint32_t c[4][kLanes] = {};
  for (int i = 0; i < kLanes; ++i) {
    c[0][i] = uint32_t(counter + uint64_t(i));
    c[1][i] = uint32_t((counter + uint64_t(i)) >> 32);
  }
  uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kLanes; ++i) {
      const uint64_t p0 = kMultiplier[0] * c[0][i];
      const uint64_t p1 = kMultiplier[1] * c[2][i];
      c[0][i] = uint32_t(p1 >> 32) ^ c[1][i] ^ k0;
      c[2][i] = uint32_t(p0 >> 32) ^ c[3][i] ^ k1;
      c[1][i] = uint32_t(p1);
      c[3][i] = uint32_t(p0);
    }
    k0 += kWeyl[0];
    k1 += kWeyl[1];
  }
  for (int i = 0; i < kLanes; ++i)
    for (int j = 0; j < 4; ++j)
      words[4 * i + j] = c[j][i];
}

}  // namespace

void philox(uint64_t seed, uint64_t offset, uint32_t* words, int64_t n) {
  constexpr int64_t kWords = 4 * kLanes;
  const int64_t groups = n / kWords + (n % kWords != 0);
  at::parallel_for(0, groups, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      const uint64_t counter = offset + uint64_t(g) * kLanes;
      uint32_t* to = words + g * kWords;
      if (n - g * kWords >= kWords) {
        generate(seed, counter, to);
        continue;
      }
      uint32_t last[kWords];
      generate(seed, counter, last);
      std::copy_n(last, n - g * kWords, to);
    }
  });
}

Tensors philox(const ir::Operation& op, const Tensors& operands) {
  const ir::Program& body = *op.bodies.at(0);
  at::Tensor words = make_empty(body.type(body.results.at(0)));
  philox(uint64_t(*operands[0].const_data_ptr<int64_t>()),
         uint64_t(*operands[1].const_data_ptr<int64_t>()),
         static_cast<uint32_t*>(words.mutable_data_ptr()),
         words.numel());
  return {words};
}

}  // namespace neuronx::sim
