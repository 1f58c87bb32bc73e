// SPDX-License-Identifier: Apache-2.0
// ExecutableCache: one operator's compiled calls by key. Reads take no lock;
// their cost does not depend on the number of entries.
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "compiler/executable.h"

namespace neuronx::eager {

// A call's key: dtypes, sizes, strides and static arguments, word by word.
// The values of scalars follow behind the structure.
class Key {
 public:
  static constexpr size_t kCapacity = 4096;

  void clear() { size_ = 0; }
  void add(uint64_t word) {
    if (size_ < kCapacity) {
      words_[size_] = word;
    }
    ++size_;
  }
  bool overflown() const { return size_ > kCapacity; }
  size_t size() const { return size_; }
  const uint64_t* words() const { return words_.data(); }
  void truncate(size_t size) { size_ = size; }
  uint64_t hash() const;

 private:
  size_t size_ = 0;
  std::array<uint64_t, kCapacity> words_;
};

// One result of a call.
struct Output {
  enum class Kind : uint8_t { New, Written, None, Number } kind;
  int argument = -1;  // Written: index among the call's tensors
  c10::ScalarType dtype;
  bool contiguous = true;
  bool resized = false;  // Written: `out` gets these sizes first
  size_t bytes = 0;
  c10::SmallVector<int64_t, 5> sizes, strides;
  int64_t number = 0;
};

struct Entry {
  uint64_t hash;
  std::vector<uint64_t> key;
  // Null when nothing runs (all results are empty).
  std::shared_ptr<compiler::Executable> executable;
  // Tensors of the call, by position, that become inputs.
  c10::SmallVector<int16_t, 8> inputs;
  // Results of the executable that alias no input: Output index or, for a
  // written tensor, -1 - position.
  c10::SmallVector<int16_t, 4> results;
  // Scalars of the call, by position, that become runtime inputs.
  c10::SmallVector<int16_t, 4> scalars;
  c10::SmallVector<Output, 2> outputs;
  // Philox blocks that a call uses up; seed and offset are the last scalars.
  uint64_t random_blocks = 0;
  // What a call with the key does instead of running one program: expand the
  // masks among its indices (masks.h), fill each location of a view that meets
  // some twice (overlap.h), clone by copy_, which moves any dtype's bits and
  // resolves conjugate views, or run on the host, for good or until
  // decompositions are available.
  enum class Route : uint8_t {
    Program,
    Masked,
    Overlapping,
    Clone,
    Host,
    HostForNow
  };
  Route route = Route::Program;
  std::string reason;  // of the host
};

class ExecutableCache {
 public:
  ExecutableCache();
  ~ExecutableCache();

  const Entry* find(const Key& key, uint64_t hash) const {
    const Table* table = table_.load(std::memory_order_acquire);
    for (size_t i = hash & table->mask;; i = (i + 1) & table->mask) {
      const Entry* entry = table->slots[i].load(std::memory_order_acquire);
      if (entry == nullptr) {
        return nullptr;
      }
      if (entry->hash == hash && entry->key.size() == key.size() &&
          std::memcmp(entry->key.data(), key.words(), key.size() * 8) == 0) {
        return entry;
      }
    }
  }
  // Takes the entry; returns it, or the one already there for the key. A
  // HostForNow one gives way.
  const Entry* insert(std::unique_ptr<Entry> entry);
  size_t size() const { return size_; }

 private:
  struct Table {
    explicit Table(size_t capacity)
        : mask(capacity - 1),
          slots(new std::atomic<const Entry*>[capacity]()) {}
    size_t mask;
    std::unique_ptr<std::atomic<const Entry*>[]> slots;
  };
  void place(Table& table, const Entry* entry);

  std::atomic<Table*> table_;
  // Outgrown tables stay for readers that may still be in one.
  std::vector<std::unique_ptr<Table>> tables_;
  std::vector<std::unique_ptr<const Entry>> entries_;
  // Likewise entries that have given way.
  std::vector<std::unique_ptr<const Entry>> replaced_;
  std::mutex mutex_;
  size_t size_ = 0;
};

}  // namespace neuronx::eager
