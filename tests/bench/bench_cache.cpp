// SPDX-License-Identifier: Apache-2.0
// Look-up in the eager executable cache by its number of entries. Each is the
// key of a binary operator on two 2-D operands, as csrc/eager/call.cpp writes
// it; the time includes hashing, as a call's does.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "eager/cache.h"

namespace neuronx::eager {
namespace {

void write_key(Key& key, uint64_t shape) {
  key.clear();
  for (int operand = 0; operand < 2; ++operand) {
    key.add(2 | 0x10206 << 8);  // a tensor: dtype, rank, contiguous
    key.add(shape);
    key.add(64);
  }
  key.add(5);  // an integer scalar, alpha...
  key.add(1);  // ...and its value
}

void fill(ExecutableCache& cache, uint64_t entries) {
  auto key = std::make_unique<Key>();
  for (uint64_t i = 0; i < entries; ++i) {
    write_key(*key, i + 1);
    auto entry = std::make_unique<Entry>();
    entry->key.assign(key->words(), key->words() + key->size());
    entry->hash = key->hash();
    cache.insert(std::move(entry));
  }
}

// `order` of shapes, over and over.
void look_up(benchmark::State& state,
             const ExecutableCache& cache,
             const std::vector<uint64_t>& order) {
  auto key = std::make_unique<Key>();
  size_t i = 0;
  for (auto _ : state) {
    write_key(*key, order[i]);
    const Entry* entry = cache.find(*key, key->hash());
    if (entry == nullptr) {
      state.SkipWithError("a key that was inserted is not found");
      break;
    }
    benchmark::DoNotOptimize(entry);
    i = i + 1 == order.size() ? 0 : i + 1;
  }
}

// A program's inner loop: the same 32 keys, spread over all entries. Their
// entries stay in the processor's caches, so this is the algorithm's cost.
void BM_FindRecent(benchmark::State& state) {
  const auto entries = static_cast<uint64_t>(state.range(0));
  ExecutableCache cache;
  fill(cache, entries);
  std::vector<uint64_t> order;
  for (uint64_t i = 0; i < 32; ++i) {
    order.push_back(1 + i * entries / 32);
  }
  look_up(state, cache, order);
}

// Every key in random order: memory's latency comes on top.
void BM_FindAny(benchmark::State& state) {
  const auto entries = static_cast<uint64_t>(state.range(0));
  ExecutableCache cache;
  fill(cache, entries);
  std::vector<uint64_t> order(entries);
  for (uint64_t i = 0; i < entries; ++i) {
    order[i] = i + 1;
  }
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  look_up(state, cache, order);
}

BENCHMARK(BM_FindRecent)->Arg(1)->Arg(100)->Arg(10'000)->Arg(100'000);
BENCHMARK(BM_FindAny)->Arg(1)->Arg(100)->Arg(10'000)->Arg(100'000);

}  // namespace
}  // namespace neuronx::eager

BENCHMARK_MAIN();
