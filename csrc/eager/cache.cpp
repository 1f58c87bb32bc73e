// SPDX-License-Identifier: Apache-2.0
#include "eager/cache.h"

#include <algorithm>
#include <utility>

namespace neuronx::eager {

uint64_t Key::hash() const {
  // One multiply and fold per word, as in wyhash.
  uint64_t state = 0x9e3779b97f4a7c15ull ^ size_;
  for (size_t i = 0; i < size_; ++i) {
    const auto product = static_cast<unsigned __int128>(state ^ words_[i]) *
                         0xa0761d6478bd642full;
    state = static_cast<uint64_t>(product) ^
            static_cast<uint64_t>(product >> 64) ^ (words_[i] << 1);
  }
  state ^= state >> 32;
  return state * 0xe7037ed1a0b428dbull;
}

ExecutableCache::ExecutableCache() {
  tables_.push_back(std::make_unique<Table>(8));
  table_.store(tables_.back().get());
}

ExecutableCache::~ExecutableCache() = default;

void ExecutableCache::place(Table& table, const Entry* entry) {
  size_t i = entry->hash & table.mask;
  while (table.slots[i].load(std::memory_order_relaxed) != nullptr) {
    i = (i + 1) & table.mask;
  }
  table.slots[i].store(entry, std::memory_order_release);
}

const Entry* ExecutableCache::insert(std::unique_ptr<Entry> entry) {
  std::lock_guard lock(mutex_);
  Table* table = table_.load(std::memory_order_relaxed);
  for (size_t i = entry->hash & table->mask;; i = (i + 1) & table->mask) {
    const Entry* existing = table->slots[i].load(std::memory_order_relaxed);
    if (existing == nullptr) {
      break;
    }
    if (existing->hash == entry->hash && existing->key == entry->key) {
      if (existing->route != Entry::Route::HostForNow ||
          entry->route == Entry::Route::HostForNow) {
        return existing;
      }
      auto owner = std::ranges::find(
          entries_, existing, &std::unique_ptr<const Entry>::get);
      replaced_.push_back(std::exchange(*owner, std::move(entry)));
      table->slots[i].store(owner->get(), std::memory_order_release);
      return owner->get();
    }
  }
  if (2 * (size_ + 1) > table->mask) {
    auto grown = std::make_unique<Table>(2 * (table->mask + 1));
    for (const auto& existing : entries_) {
      place(*grown, existing.get());
    }
    table = grown.get();
    tables_.push_back(std::move(grown));
    table_.store(table, std::memory_order_release);
  }
  const Entry* result = entry.get();
  entries_.push_back(std::move(entry));
  place(*table, result);
  ++size_;
  return result;
}

}  // namespace neuronx::eager
