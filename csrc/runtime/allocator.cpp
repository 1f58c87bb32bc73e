// SPDX-License-Identifier: Apache-2.0
#include "runtime/allocator.h"

#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <array>
#include <bit>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <unordered_set>

#include "common/metrics.h"
#include "nrt/handles.h"
#include "runtime/device.h"
#include "runtime/event.h"
#include "runtime/queue.h"
#include "runtime/storage.h"
#include "runtime/stream.h"

namespace neuronx::runtime {
namespace {

using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;
using c10::CachingDeviceAllocator::BlockInfo;
using c10::CachingDeviceAllocator::DeviceStats;
using c10::CachingDeviceAllocator::SegmentInfo;

constexpr size_t kGranularity = 512;
constexpr size_t kSmallLimit = 1 << 20;     // small pool up to 1 MiB
constexpr size_t kSmallSegment = 2 << 20;   // its segments
constexpr size_t kLargeSegment = 20 << 20;  // segments for < 10 MiB
constexpr size_t kMinLargeAllocation = 10 << 20;
constexpr size_t kRoundLarge = 2 << 20;
constexpr int kBins = kSmallLimit / kGranularity + 1;
// More than any device has, and rounding it up does not overflow.
constexpr size_t kLargest = size_t{1} << 62;

struct Pool;

struct Segment {
  nrt::Tensor tensor;
  char* base;
  size_t size;
};

struct Block {
  Pool* pool;
  Segment* segment;
  char* address;
  size_t size;
  size_t requested = 0;
  bool allocated = false;
  bool binned = false;
  bool pending = false;  // freed, but other streams still use it
  Block* previous = nullptr;
  Block* next = nullptr;
  std::vector<c10::Stream> used_on = {};
};

struct BySize {
  bool operator()(const Block* a, const Block* b) const {
    return a->size != b->size ? a->size < b->size : a->address < b->address;
  }
};

// Free blocks of one stream. Small ones first go to exact-size bins, without
// coalescing; bins are emptied into the tree before more memory is asked for.
struct Pool {
  c10::DeviceIndex device;
  int64_t stream;
  bool small;
  std::set<Block*, BySize> free;
  std::array<std::vector<Block*>, kBins> bins;
  size_t binned = 0;
};

size_t round_size(size_t bytes) {
  return std::max(kGranularity,
                  (bytes + kGranularity - 1) / kGranularity * kGranularity);
}

size_t segment_size(size_t bytes) {
  if (bytes <= kSmallLimit) {
    return kSmallSegment;
  }
  if (bytes < kMinLargeAllocation) {
    return kLargeSegment;
  }
  return (bytes + kRoundLarge - 1) / kRoundLarge * kRoundLarge;
}

std::string human(size_t bytes) {
  if (bytes >= 1ull << 30) {
    return fmt::format("{:.2f} GiB", bytes / 1073741824.0);
  }
  if (bytes >= 1ull << 20) {
    return fmt::format("{:.2f} MiB", bytes / 1048576.0);
  }
  return fmt::format("{:.2f} KiB", bytes / 1024.0);
}

void increase(StatArray& stat, bool small, size_t amount) {
  stat[static_cast<size_t>(StatType::AGGREGATE)].increase(amount);
  stat[static_cast<size_t>(small ? StatType::SMALL_POOL : StatType::LARGE_POOL)]
      .increase(amount);
}

void decrease(StatArray& stat, bool small, size_t amount) {
  stat[static_cast<size_t>(StatType::AGGREGATE)].decrease(amount);
  stat[static_cast<size_t>(small ? StatType::SMALL_POOL : StatType::LARGE_POOL)]
      .decrease(amount);
}

void for_each_stat(DeviceStats& stats, void (*reset)(StatArray&)) {
  for (StatArray* stat : {&stats.allocation,
                          &stats.segment,
                          &stats.active,
                          &stats.inactive_split,
                          &stats.allocated_bytes,
                          &stats.reserved_bytes,
                          &stats.active_bytes,
                          &stats.inactive_split_bytes,
                          &stats.requested_bytes}) {
    reset(*stat);
  }
}

// Segments by address, read by the queues' workers.
struct SegmentMap {
  std::shared_mutex mutex;
  struct Entry {
    Segment* segment;
    c10::DeviceIndex device;
  };
  std::map<const char*, Entry> by_base;
};

SegmentMap& segment_map() {
  static auto* map = new SegmentMap;
  return *map;
}

class DeviceCache {
 public:
  explicit DeviceCache(c10::DeviceIndex device) : device_(device) {}

  Block* allocate(size_t bytes, int64_t stream) {
    if (bytes > kLargest) {
      out_of_memory(bytes, stream);
    }
    const size_t size = round_size(bytes);
    {
      std::lock_guard lock(mutex_);
      if (!pending_.empty()) {
        collect_pending();
      }
      if (Block* block = take(pool(stream, size), size)) {
        return hand_out(block, bytes, stream);
      }
    }
    return grow(bytes, size, stream);
  }

  void free(Block* block) {
    std::vector<c10::Stream> streams;
    {
      std::lock_guard lock(mutex_);
      block->allocated = false;
      decrease(stats_.allocation, block->pool->small, 1);
      decrease(stats_.allocated_bytes, block->pool->small, block->size);
      decrease(stats_.requested_bytes, block->pool->small, block->requested);
      trace("free_requested", block->address, block->size, block->pool->stream);
      if (block->used_on.empty()) {
        release(block);
        return;
      }
      streams = std::exchange(block->used_on, {});
      block->pending = true;
    }
    std::vector<std::unique_ptr<Event>> events;
    for (c10::Stream stream : streams) {
      events.push_back(std::make_unique<Event>(device_, false));
      events.back()->record(stream);
    }
    std::lock_guard lock(mutex_);
    pending_.push_back({block, std::move(events)});
  }

  void record_stream(Block* block, c10::Stream stream) {
    std::lock_guard lock(mutex_);
    if (stream.id() == block->pool->stream) {
      return;
    }
    for (c10::Stream used : block->used_on) {
      if (used == stream) {
        return;
      }
    }
    block->used_on.push_back(stream);
  }

  // Returns unused segments to the runtime. Launches that use a freed block
  // may still wait in a queue, and other threads go on: a segment leaves its
  // pool first, so that nothing new is queued for it, and the runtime last,
  // when the queues have passed.
  void empty() {
    drain_device(device_);
    std::vector<std::unique_ptr<Segment>> released;
    {
      std::lock_guard lock(mutex_);
      collect_pending();
      for (auto& [key, pool] : pools_) {
        flush_bins(*pool);
        for (auto it = pool->free.begin(); it != pool->free.end();) {
          Block* block = *it;
          if (block->previous == nullptr && block->next == nullptr) {
            it = pool->free.erase(it);
            released.push_back(detach(block));
          } else {
            ++it;
          }
        }
      }
    }
    for (const auto& segment : released) {
      for (int stream = 0; stream <= 2 * kStreamsPerPool; ++stream) {
        if (Queue* queue = existing_queue(c10::Stream(
                c10::Stream::UNSAFE, c10::Device(kNeuron, device_), stream))) {
          queue->forget(segment->base, segment->base + segment->size);
        }
      }
      std::unique_lock lock(segment_map().mutex);
      segment_map().by_base.erase(segment->base);
    }
  }

  DeviceStats stats() {
    std::lock_guard lock(mutex_);
    return stats_;
  }

  void reset_peaks() {
    std::lock_guard lock(mutex_);
    for_each_stat(stats_, [](StatArray& stat) {
      for (auto& s : stat) {
        s.reset_peak();
      }
    });
  }

  void reset_accumulated() {
    std::lock_guard lock(mutex_);
    for_each_stat(stats_, [](StatArray& stat) {
      for (auto& s : stat) {
        s.reset_accumulated();
      }
    });
    stats_.num_alloc_retries = 0;
    stats_.num_ooms = 0;
    stats_.num_device_alloc = 0;
    stats_.num_device_free = 0;
    stats_.num_sync_all_streams = 0;
  }

  void describe(std::vector<SegmentInfo>& result) {
    std::lock_guard lock(mutex_);
    for (const auto& [segment, first] : segments_) {
      SegmentInfo info;
      info.device = device_;
      info.address = reinterpret_cast<size_t>(segment->base);
      info.total_size = segment->size;
      info.is_large = !first->pool->small;
      info.stream = reinterpret_cast<void*>(first->pool->stream);
      for (const Block* block = first; block; block = block->next) {
        BlockInfo b;
        b.size = block->size;
        b.requested_size = block->requested;
        b.allocated = block->allocated;
        b.active = block->allocated || block->pending;
        info.allocated_size += block->allocated ? block->size : 0;
        info.active_size += b.active ? block->size : 0;
        info.requested_size += block->allocated ? block->requested : 0;
        info.blocks.push_back(b);
      }
      result.push_back(std::move(info));
    }
  }

  void set_history(bool enabled, size_t max_entries) {
    std::lock_guard lock(mutex_);
    tracing_ = enabled;
    max_trace_ = max_entries;
    if (enabled) {
      trace_.clear();
    }
  }

  std::vector<TraceEvent> history() {
    std::lock_guard lock(mutex_);
    return {trace_.begin(), trace_.end()};
  }

 private:
  struct Pending {
    Block* block;
    std::vector<std::unique_ptr<Event>> events;
  };

  Pool& pool(int64_t stream, size_t size) {
    const bool small = size <= kSmallLimit;
    const auto key = static_cast<size_t>(stream) * 2 + small;
    if (key < quick_.size() && quick_[key]) {
      return *quick_[key];
    }
    auto& pool = pools_[{stream, small}];
    if (!pool) {
      pool = std::make_unique<Pool>();
      pool->device = device_;
      pool->stream = stream;
      pool->small = small;
      if (quick_.size() <= key) {
        quick_.resize(key + 1);
      }
      quick_[key] = pool.get();
    }
    return *pool;
  }

  Block* take(Pool& pool, size_t size) {
    if (pool.small) {
      auto& bin = pool.bins[size / kGranularity];
      if (!bin.empty()) {
        Block* block = bin.back();
        bin.pop_back();
        block->binned = false;
        pool.binned -= block->size;
        return block;
      }
      if (Block* block = take_from_tree(pool, size)) {
        return block;
      }
      if (pool.binned < size) {
        return nullptr;
      }
      flush_bins(pool);
    }
    return take_from_tree(pool, size);
  }

  Block* take_from_tree(Pool& pool, size_t size) {
    Block key{&pool, nullptr, nullptr, size};
    auto it = pool.free.lower_bound(&key);
    if (it == pool.free.end()) {
      return nullptr;
    }
    Block* block = *it;
    pool.free.erase(it);
    inactive(block, -1);
    return split(block, size);
  }

  // Large remainders below 1 MiB stay with the block, as in CUDA's allocator.
  Block* split(Block* block, size_t size) {
    const size_t rest = block->size - size;
    if (rest < (block->pool->small ? kGranularity : kSmallLimit)) {
      return block;
    }
    auto* tail =
        new Block{block->pool, block->segment, block->address + size, rest};
    block->size = size;
    tail->previous = block;
    tail->next = block->next;
    if (tail->next != nullptr) {
      tail->next->previous = tail;
    }
    block->next = tail;
    insert_free(tail);
    return block;
  }

  bool is_split(const Block* block) const {
    return block->previous != nullptr || block->next != nullptr;
  }

  void inactive(Block* block, int sign) {
    if (!is_split(block)) {
      return;
    }
    if (sign > 0) {
      increase(stats_.inactive_split, block->pool->small, 1);
      increase(stats_.inactive_split_bytes, block->pool->small, block->size);
    } else {
      decrease(stats_.inactive_split, block->pool->small, 1);
      decrease(stats_.inactive_split_bytes, block->pool->small, block->size);
    }
  }

  void insert_free(Block* block) {
    block->pool->free.insert(block);
    inactive(block, 1);
  }

  bool mergeable(const Block* block) const {
    return block != nullptr && !block->allocated && !block->pending &&
           !block->binned;
  }

  // Puts a free block into the tree, merged with free neighbours.
  void coalesce(Block* block) {
    if (mergeable(block->previous)) {
      Block* previous = block->previous;
      inactive(previous, -1);
      block->pool->free.erase(previous);
      block->address = previous->address;
      block->size += previous->size;
      block->previous = previous->previous;
      if (block->previous != nullptr) {
        block->previous->next = block;
      } else {
        segments_[block->segment] = block;
      }
      delete previous;
    }
    if (mergeable(block->next)) {
      Block* next = block->next;
      inactive(next, -1);
      block->pool->free.erase(next);
      block->size += next->size;
      block->next = next->next;
      if (block->next != nullptr) {
        block->next->previous = block;
      }
      delete next;
    }
    insert_free(block);
  }

  void flush_bins(Pool& pool) {
    if (pool.binned == 0) {
      return;
    }
    for (auto& bin : pool.bins) {
      for (Block* block : bin) {
        block->binned = false;
        coalesce(block);
      }
      bin.clear();
    }
    pool.binned = 0;
  }

  // The block is free now, for its own stream.
  void release(Block* block) {
    Pool& pool = *block->pool;
    decrease(stats_.active, pool.small, 1);
    decrease(stats_.active_bytes, pool.small, block->size);
    trace("free_completed", block->address, block->size, pool.stream);
    if (pool.small && block->size <= kSmallLimit) {
      block->binned = true;
      pool.binned += block->size;
      pool.bins[block->size / kGranularity].push_back(block);
    } else {
      coalesce(block);
    }
  }

  Block* hand_out(Block* block, size_t bytes, int64_t stream) {
    block->allocated = true;
    block->requested = bytes;
    const bool small = block->pool->small;
    increase(stats_.allocation, small, 1);
    increase(stats_.allocated_bytes, small, block->size);
    increase(stats_.active, small, 1);
    increase(stats_.active_bytes, small, block->size);
    increase(stats_.requested_bytes, small, bytes);
    trace("alloc", block->address, block->size, stream);
    return block;
  }

  void collect_pending() {
    for (auto it = pending_.begin(); it != pending_.end();) {
      bool done = true;
      for (const auto& event : it->events) {
        done = done && event->query();
      }
      if (!done) {
        ++it;
        continue;
      }
      it->block->pending = false;
      release(it->block);
      it = pending_.erase(it);
    }
  }

  std::unique_ptr<Segment> detach(Block* block) {
    std::unique_ptr<Segment> segment(block->segment);
    segments_.erase(block->segment);
    decrease(stats_.segment, block->pool->small, 1);
    decrease(stats_.reserved_bytes, block->pool->small, segment->size);
    ++stats_.num_device_free;
    trace("segment_free", block->address, segment->size, block->pool->stream);
    delete block;
    return segment;
  }

  Block* grow(size_t bytes, size_t size, int64_t stream) {
    const size_t want = segment_size(size);
    auto segment = std::make_unique<Segment>();
    segment->size = want;
    if (!allocate_segment(*segment)) {
      {
        std::lock_guard lock(mutex_);
        ++stats_.num_alloc_retries;
      }
      metrics::count(metrics::Metric::AllocatorRetries);
      empty();
      {
        // Blocks that waited for other streams are free now, and merged.
        std::lock_guard lock(mutex_);
        if (Block* block = take(pool(stream, size), size)) {
          return hand_out(block, bytes, stream);
        }
      }
      if (!allocate_segment(*segment)) {
        segment->size = (size + kRoundLarge - 1) / kRoundLarge * kRoundLarge;
        if (segment->size >= want || !allocate_segment(*segment)) {
          out_of_memory(bytes, stream);
        }
      }
    }
    Segment* owned = segment.release();
    {
      std::unique_lock lock(segment_map().mutex);
      segment_map().by_base[owned->base] = {owned, device_};
    }
    std::lock_guard lock(mutex_);
    Pool& target = pool(stream, size);
    auto* block = new Block{&target, owned, owned->base, owned->size};
    segments_[owned] = block;
    increase(stats_.segment, target.small, 1);
    increase(stats_.reserved_bytes, target.small, owned->size);
    ++stats_.num_device_alloc;
    trace("segment_alloc", owned->base, owned->size, stream);
    return hand_out(split(block, size), bytes, stream);
  }

  bool allocate_segment(Segment& segment) {
    auto tensor = nrt::Tensor::try_allocate(device_, segment.size);
    if (!tensor) {
      return false;
    }
    segment.tensor = std::move(*tensor);
    segment.base = static_cast<char*>(segment.tensor.address());
    return true;
  }

  [[noreturn]] void out_of_memory(size_t bytes, int64_t stream) {
    size_t allocated, reserved;
    {
      std::lock_guard lock(mutex_);
      ++stats_.num_ooms;
      allocated = stats_.allocated_bytes[0].current;
      reserved = stats_.reserved_bytes[0].current;
      trace("oom", nullptr, bytes, stream);
    }
    const auto [free, total] = device_memory(device_);
    TORCH_CHECK_WITH(
        OutOfMemoryError,
        false,
        fmt::format(
            "Neuron out of memory. Tried to allocate {}. Device {} has a "
            "total capacity of {} of which {} is free. PyTorch holds {} in "
            "tensors and {} is reserved but unallocated. Free tensors that "
            "are no longer needed, lower the batch size or sequence length, "
            "or use a logical core with more memory "
            "(NEURON_LOGICAL_NC_CONFIG=2).",
            human(bytes),
            device_,
            human(total),
            human(free),
            human(allocated),
            human(reserved - allocated)));
  }

  void trace(const char* action,
             const void* address,
             size_t size,
             int64_t stream) {
    if (!tracing_ || max_trace_ == 0) {
      return;
    }
    if (trace_.size() >= max_trace_) {
      trace_.pop_front();
    }
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    trace_.push_back(
        {action,
         device_,
         reinterpret_cast<size_t>(address),
         size,
         stream,
         std::chrono::duration_cast<std::chrono::microseconds>(now).count()});
  }

  const c10::DeviceIndex device_;
  std::mutex mutex_;
  std::map<std::pair<int64_t, bool>, std::unique_ptr<Pool>> pools_;
  std::vector<Pool*> quick_;
  std::map<Segment*, Block*> segments_;  // to the first block
  std::vector<Pending> pending_;
  DeviceStats stats_;
  bool tracing_ = false;
  size_t max_trace_ = 0;
  std::deque<TraceEvent> trace_;
};

DeviceCache& cache(c10::DeviceIndex device) {
  static auto* caches = [] {
    auto* all = new std::array<std::unique_ptr<DeviceCache>, kMaxDevices>;
    for (int i = 0; i < kMaxDevices; ++i) {
      (*all)[i] =
          std::make_unique<DeviceCache>(static_cast<c10::DeviceIndex>(i));
    }
    return all;
  }();
  return *(*caches)[device];
}

void delete_block(void* context) {
  if (auto* block = static_cast<Block*>(context)) {
    cache(block->pool->device).free(block);
  }
}

class Allocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    return runtime::allocate(bytes, current_device());
  }

  c10::DeleterFnPtr raw_deleter() const override { return &delete_block; }

  void copy_data(void* destination,
                 const void* source,
                 std::size_t bytes) const override {
    copy_on_device(
        destination, device_of(destination), source, device_of(source), bytes);
  }

  bool initialized() override { return runtime::initialized(); }

  void emptyCache(c10::MempoolId_t) override {
    if (!runtime::initialized()) {
      return;
    }
    for (c10::DeviceIndex i = 0; i < device_count(); ++i) {
      cache(i).empty();
    }
  }

  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    if (data.get() == nullptr || data.get_deleter() != &delete_block) {
      return;
    }
    auto* block = static_cast<Block*>(data.get_context());
    cache(block->pool->device).record_stream(block, stream);
  }

  DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    return checked(device).stats();
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    checked(device).reset_accumulated();
  }
  void resetPeakStats(c10::DeviceIndex device) override {
    checked(device).reset_peaks();
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    check_device_index(device);
    return device_memory(device);
  }

 private:
  static DeviceCache& checked(c10::DeviceIndex device) {
    check_device_index(device);
    return cache(device);
  }
};

}  // namespace

c10::DeviceAllocator& allocator() {
  static auto* instance = new Allocator;
  return *instance;
}

c10::DataPtr allocate(size_t bytes, c10::DeviceIndex device) {
  const c10::Device where(kNeuron, device);
  if (bytes == 0) {
    return {nullptr, nullptr, &delete_block, where};
  }
  if (C10_UNLIKELY(!initialized())) {
    initialize();
  }
  Block* block = cache(device).allocate(bytes, current_stream(device).id());
  return {block->address, block, &delete_block, where};
}

Location locate(const void* address) {
  std::shared_lock lock(segment_map().mutex);
  const auto* byte = static_cast<const char*>(address);
  auto it = segment_map().by_base.upper_bound(byte);
  if (it != segment_map().by_base.begin()) {
    const auto& [base, entry] = *std::prev(it);
    if (byte < base + entry.segment->size) {
      return {entry.segment->tensor.get(),
              static_cast<size_t>(byte - base),
              entry.device};
    }
  }
  TORCH_CHECK(false, "address ", address, " is not in neuron device memory");
}

c10::DeviceIndex device_of(const void* address) {
  std::shared_lock lock(segment_map().mutex);
  const auto* byte = static_cast<const char*>(address);
  auto it = segment_map().by_base.upper_bound(byte);
  if (it == segment_map().by_base.begin()) {
    return -1;
  }
  const auto& [base, entry] = *std::prev(it);
  return byte < base + entry.segment->size ? entry.device : -1;
}

void record_history(bool enabled, size_t max_entries) {
  for (c10::DeviceIndex i = 0; i < device_count(); ++i) {
    cache(i).set_history(enabled, max_entries);
  }
}

std::vector<TraceEvent> history(c10::DeviceIndex device) {
  check_device_index(device);
  return cache(device).history();
}

std::vector<SegmentInfo> segments() {
  std::vector<SegmentInfo> result;
  for (c10::DeviceIndex i = 0; i < device_count(); ++i) {
    cache(i).describe(result);
  }
  return result;
}

REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &allocator())

}  // namespace neuronx::runtime
