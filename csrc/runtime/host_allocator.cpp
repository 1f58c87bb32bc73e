// SPDX-License-Identifier: Apache-2.0
#include "runtime/host_allocator.h"

#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "common/log.h"
#include "runtime/device.h"
#include "runtime/event.h"
#include "runtime/stream.h"

namespace neuronx::runtime {
namespace {

struct PinnedRanges {
  std::shared_mutex mutex;
  std::map<const char*, size_t> by_base;
};

PinnedRanges& ranges() {
  static auto* all = new PinnedRanges;
  return *all;
}

using EventPtr = std::shared_ptr<Event>;
using Block = at::HostBlock<c10::Stream>;

struct Impl : at::CachingHostAllocatorImpl<c10::Stream, EventPtr, Block> {
 private:
  void allocate_host_memory(size_t size, void** ptr) override {
    void* memory = nullptr;
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const int failed = posix_memalign(&memory, page, size);
    TORCH_CHECK_WITH(OutOfMemoryError,
                     failed == 0,
                     "out of memory: cannot allocate ",
                     size,
                     " bytes of pinned host memory");
    if (mlock(memory, size) != 0) {
      // Over RLIMIT_MEMLOCK: the pages may be swapped, nothing else changes.
      log::debug("mlock of pinned host memory failed");
    }
    std::unique_lock lock(ranges().mutex);
    ranges().by_base[static_cast<const char*>(memory)] = size;
    *ptr = memory;
  }

  void free_block(Block* block) override {
    {
      std::unique_lock lock(ranges().mutex);
      ranges().by_base.erase(static_cast<const char*>(block->ptr_));
    }
    munlock(block->ptr_, block->size_);
    std::free(block->ptr_);
  }

  void record_stream(std::optional<std::vector<EventPtr>>& events,
                     c10::Stream stream) override {
    auto event = std::make_shared<Event>(stream.device_index(), false);
    event->record(stream);
    events->push_back(std::move(event));
  }

  bool query_event(EventPtr& event) override { return event->query(); }

  c10::Stream get_current_stream() const override {
    return current_stream(current_device());
  }
  bool stream_is_capturing(c10::Stream) const override { return false; }
};

void delete_block(void* context);

struct HostAllocatorImpl final
    : at::CachingHostAllocatorInterface<Impl, delete_block> {};

HostAllocatorImpl& instance() {
  static auto* allocator = new HostAllocatorImpl;
  return *allocator;
}

void delete_block(void* context) {
  instance().free(context);
}

}  // namespace

at::HostAllocator& host_allocator() {
  return instance();
}

bool is_pinned(const void* address) noexcept {
  std::shared_lock lock(ranges().mutex);
  const auto* byte = static_cast<const char*>(address);
  auto it = ranges().by_base.upper_bound(byte);
  if (it == ranges().by_base.begin()) {
    return false;
  }
  --it;
  return byte < it->first + it->second;
}

REGISTER_HOST_ALLOCATOR(c10::DeviceType::PrivateUse1, &host_allocator())

}  // namespace neuronx::runtime
