// SPDX-License-Identifier: Apache-2.0
// Storage: a piece of device or host memory that tensors share. Device memory
// is reserved lazily: nothing is touched until it is used.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "nrt/abi.h"

namespace neuronx::sim {

struct Core;
struct Mirror;

struct Storage {
  enum class Kind : uint8_t { Heap, Pages, Mirrored, Attached };

  std::atomic<uint32_t> references{1};
  Kind kind = Kind::Heap;
  Core* core = nullptr;  // null for host memory
  std::byte* data =
      nullptr;              // what the simulator works on; null after nrt_close
  void* address = nullptr;  // what nrt_tensor_get_va shows
  size_t size = 0;
  std::shared_ptr<Mirror> mirror;  // owner of `data`, for Mirrored
  // The core's list of live storages.
  Storage* previous = nullptr;
  Storage* next = nullptr;
};

// Charges the core. Null with a status and text when it or the host is full.
Storage* allocate_device(Core& core, size_t size, NRT_STATUS& status);
Storage* allocate_host(size_t size);  // throws std::bad_alloc
// Memory of the caller's, never released.
Storage* attach(void* buffer, size_t size);

inline void retain(Storage& storage) {
  storage.references.fetch_add(1, std::memory_order_relaxed);
}
void release(Storage& storage) noexcept;

// Takes the memory of all storages of the core away; their handles are dead.
void release_all(Core& core) noexcept;

// Adds to the core's use unless that exceeds its limit.
bool charge(Core& core, size_t bytes) noexcept;
void discharge(Core& core, size_t bytes) noexcept;

}  // namespace neuronx::sim
