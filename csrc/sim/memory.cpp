// SPDX-License-Identifier: Apache-2.0
#include "sim/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>

#include "sim/core.h"
#include "sim/error.h"
#include "sim/mirror.h"

namespace neuronx::sim {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kAlignment = 64;
// Below this a mapping of its own costs more than the pages it saves.
constexpr size_t kHeapLimit = size_t{64} << 10;

size_t round_up(size_t size, size_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

void* map_anonymous(size_t size, int protection) {
  void* memory = mmap(nullptr,
                      size,
                      protection,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                      -1,
                      0);
  return memory == MAP_FAILED ? nullptr : memory;
}

// Aligned to huge pages when large enough for them.
std::byte* map_pages(size_t size) {
  if (size < kHugePage) {
    return static_cast<std::byte*>(map_anonymous(size, PROT_READ | PROT_WRITE));
  }
  auto* memory = static_cast<std::byte*>(
      map_anonymous(size + kHugePage, PROT_READ | PROT_WRITE));
  if (memory == nullptr) {
    return nullptr;
  }
  const auto base = reinterpret_cast<uintptr_t>(memory);
  const size_t head = round_up(base, kHugePage) - base;
  if (head > 0) {
    munmap(memory, head);
  }
  munmap(memory + head + size, kHugePage - head);
  madvise(memory + head, size, MADV_HUGEPAGE);
  return memory + head;
}

bool map(Storage& storage) {
  switch (storage.kind) {
    case Storage::Kind::Heap:
      storage.data = static_cast<std::byte*>(
          std::aligned_alloc(kAlignment, round_up(storage.size, kAlignment)));
      storage.address = storage.data;
      return storage.data != nullptr;
    case Storage::Kind::Pages:
      storage.data = map_pages(round_up(storage.size, kPage));
      storage.address = storage.data;
      return storage.data != nullptr;
    case Storage::Kind::Mirrored: {
      auto part = map_mirrored(storage.size);
      if (!part.mirror) {
        return false;
      }
      storage.data = part.mirror->data + part.offset;
      storage.address = part.mirror->address + part.offset;
      storage.mirror = std::move(part.mirror);
      return true;
    }
    case Storage::Kind::Attached:
      return true;
  }
  return false;
}

void unmap(Storage& storage) {
  switch (storage.kind) {
    case Storage::Kind::Heap:
      std::free(storage.data);
      break;
    case Storage::Kind::Pages:
      munmap(storage.data, round_up(storage.size, kPage));
      break;
    case Storage::Kind::Mirrored:
      bury(std::move(storage.mirror), storage.data, storage.size);
      break;
    case Storage::Kind::Attached:
      break;
  }
  storage.data = nullptr;
}

Storage* make(Storage::Kind kind, Core* core, size_t size) {
  auto* storage = new Storage;
  storage->kind = kind;
  storage->core = core;
  storage->size = size;
  return storage;
}

}  // namespace

bool charge(Core& core, size_t bytes) noexcept {
  size_t used = core.used.load(std::memory_order_relaxed);
  do {
    if (bytes > core.limit - used) {
      return false;
    }
  } while (!core.used.compare_exchange_weak(used, used + bytes));
  return true;
}

void discharge(Core& core, size_t bytes) noexcept {
  core.used -= bytes;
}

Storage* allocate_device(Core& core, size_t size, NRT_STATUS& status) {
  if (!charge(core, size)) {
    status = fail(NRT_RESOURCE,
                  fmt::format("core {} has {} of {} bytes free, {} are needed",
                              core.index,
                              core.limit - core.used.load(),
                              core.limit,
                              size));
    return nullptr;
  }
  const auto kind = strict()            ? Storage::Kind::Mirrored
                    : size < kHeapLimit ? Storage::Kind::Heap
                                        : Storage::Kind::Pages;
  std::unique_ptr<Storage> storage(make(kind, &core, size));
  if (!map(*storage)) {
    discharge(core, size);
    status =
        fail(NRT_RESOURCE,
             fmt::format(
                 "the host cannot map {} bytes for core {}", size, core.index));
    return nullptr;
  }
  std::lock_guard lock(core.storages_mutex);
  storage->next = core.storages;
  if (core.storages != nullptr) {
    core.storages->previous = storage.get();
  }
  core.storages = storage.get();
  status = NRT_SUCCESS;
  return storage.release();
}

Storage* allocate_host(size_t size) {
  std::unique_ptr<Storage> storage(
      make(size < kHeapLimit ? Storage::Kind::Heap : Storage::Kind::Pages,
           nullptr,
           size));
  if (!map(*storage)) {
    throw std::bad_alloc();
  }
  return storage.release();
}

Storage* attach(void* buffer, size_t size) {
  Storage* storage = make(Storage::Kind::Attached, nullptr, size);
  storage->data = static_cast<std::byte*>(buffer);
  storage->address = buffer;
  return storage;
}

void release(Storage& storage) noexcept {
  if (storage.references.fetch_sub(1, std::memory_order_acq_rel) != 1) {
    return;
  }
  if (storage.core != nullptr) {
    Core& core = *storage.core;
    std::lock_guard lock(core.storages_mutex);
    if (storage.data != nullptr) {
      (storage.previous != nullptr ? storage.previous->next : core.storages) =
          storage.next;
      if (storage.next != nullptr) {
        storage.next->previous = storage.previous;
      }
      discharge(core, storage.size);
    }
  }
  if (storage.data != nullptr) {
    unmap(storage);
  }
  delete &storage;
}

void release_all(Core& core) noexcept {
  std::lock_guard lock(core.storages_mutex);
  for (Storage* storage = core.storages; storage != nullptr;
       storage = storage->next) {
    discharge(core, storage->size);
    unmap(*storage);
  }
  core.storages = nullptr;
}

}  // namespace neuronx::sim
