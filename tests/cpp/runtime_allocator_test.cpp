// SPDX-License-Identifier: Apache-2.0
#include "runtime/allocator.h"

#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "compiler/service.h"
#include "ir/builder.h"
#include "runtime/storage.h"
#include "runtime_fixture.h"

namespace neuronx::runtime {
namespace {

using c10::CachingAllocator::StatType;

constexpr size_t KiB = 1024;
constexpr size_t MiB = 1024 * KiB;
constexpr size_t GiB = 1024 * MiB;

c10::CachingDeviceAllocator::DeviceStats stats() {
  return allocator().getDeviceStats(0);
}
constexpr size_t kAll = static_cast<size_t>(StatType::AGGREGATE);
int64_t allocated() {
  return stats().allocated_bytes[kAll].current;
}
int64_t active() {
  return stats().active_bytes[kAll].current;
}
int64_t reserved() {
  return stats().reserved_bytes[kAll].current;
}
int64_t segment_count() {
  return stats().segment[kAll].current;
}

c10::DataPtr take(size_t bytes) {
  return allocate(bytes, 0);
}
c10::DataPtr take_on(c10::Stream stream, size_t bytes) {
  const auto previous = exchange_stream(stream);
  auto data = allocate(bytes, 0);
  exchange_stream(previous);
  return data;
}

// The blocks of every segment follow each other without gap or overlap.
void check_tiling() {
  for (const auto& segment : segments()) {
    size_t sum = 0, taken = 0;
    for (const auto& block : segment.blocks) {
      EXPECT_EQ(0u, block.size % 512);
      sum += block.size;
      taken += block.allocated ? block.size : 0;
    }
    EXPECT_EQ(segment.total_size, sum);
    EXPECT_EQ(segment.allocated_size, taken);
  }
}

using AllocatorTest = Backend;

TEST_F(AllocatorTest, RoundsSizesUpAndReservesByClass) {
  const struct {
    size_t bytes, block, segment;
  } cases[] = {
      {1, 512, 2 * MiB},
      {512, 512, 2 * MiB},
      {513, 1024, 2 * MiB},
      {MiB - 1, MiB, 2 * MiB},
      {MiB, MiB, 2 * MiB},
      {MiB + 1, MiB + 512, 20 * MiB},
      {10 * MiB - 512, 10 * MiB - 512, 20 * MiB},
      {10 * MiB, 10 * MiB, 10 * MiB},
      // What is left of a large block below 1 MiB stays with it.
      {11 * MiB + 1, 12 * MiB, 12 * MiB},
      {11 * MiB, 11 * MiB, 12 * MiB},
      {64 * MiB, 64 * MiB, 64 * MiB},
  };
  for (const auto& [bytes, block, segment] : cases) {
    allocator().emptyCache();
    const auto data = take(bytes);
    EXPECT_EQ(static_cast<int64_t>(block), allocated()) << bytes;
    EXPECT_EQ(static_cast<int64_t>(segment), reserved()) << bytes;
    EXPECT_EQ(static_cast<int64_t>(bytes),
              stats().requested_bytes[kAll].current);
    EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(data.get()) % 512) << bytes;
    EXPECT_EQ(c10::Device(kNeuron, 0), data.device());
  }
}

TEST_F(AllocatorTest, GivesNothingForZeroBytes) {
  const auto data = take(0);
  EXPECT_EQ(nullptr, data.get());
  EXPECT_EQ(0, reserved());
}

TEST_F(AllocatorTest, ReusesTheBlockFreedLast) {
  auto a = take(3 * KiB);
  auto b = take(3 * KiB);
  const void* freed = b.get();
  b.clear();
  EXPECT_EQ(freed, take(3 * KiB).get());
}

TEST_F(AllocatorTest, SplitsLargeSegmentsAndMergesWhatIsFreed) {
  std::vector<c10::DataPtr> parts;
  for (int i = 0; i < 9; ++i) {
    parts.push_back(take(2 * MiB));
    EXPECT_EQ(static_cast<char*>(parts[0].get()) + i * 2 * MiB, parts[i].get());
  }
  EXPECT_EQ(1, segment_count());
  // In an order that merges with the previous, the next, both and none.
  const void* base = parts[0].get();
  for (int i : {0, 1, 5, 4, 3, 2, 8, 7, 6}) {
    parts[i].clear();
    check_tiling();
  }
  EXPECT_EQ(0, stats().inactive_split_bytes[kAll].current);
  const auto whole = take(20 * MiB);
  EXPECT_EQ(base, whole.get());
  EXPECT_EQ(1, segment_count());
}

TEST_F(AllocatorTest, TakesTheBestFit) {
  auto a = take(6 * MiB);
  auto wall1 = take(2 * MiB);
  auto b = take(3 * MiB);
  auto wall2 = take(2 * MiB);
  const void* best = b.get();
  a.clear();
  b.clear();
  EXPECT_EQ(best, take(3 * MiB).get());
}

TEST_F(AllocatorTest, MergesSmallBlocksBeforeItAsksForMore) {
  std::vector<c10::DataPtr> blocks;
  for (size_t i = 0; i < 2 * MiB / 512; ++i) {
    blocks.push_back(take(512));
  }
  EXPECT_EQ(1, segment_count());
  blocks.clear();
  const auto half = take(MiB);
  const auto other = take(MiB);
  EXPECT_EQ(1, segment_count());
}

TEST_F(AllocatorTest, KeepsAPoolPerStream) {
  const auto stream = new_stream(0, 0);
  for (const size_t bytes : {KiB, 4 * MiB}) {
    auto data = take_on(stream, bytes);
    const void* address = data.get();
    const auto before = reserved();
    data.clear();
    const auto elsewhere = take(bytes);
    EXPECT_NE(address, elsewhere.get());
    EXPECT_LT(before, reserved());
    EXPECT_EQ(address, take_on(stream, bytes).get());
  }
}

TEST_F(AllocatorTest, ReusesARecordedBlockOnlyWhenTheStreamHasPassed) {
  const auto stream = new_stream(0, 0);
  for (const size_t bytes : {4 * KiB, 4 * MiB}) {
    auto data = take(bytes);
    const void* address = data.get();
    const auto size = allocated();
    Gate gate(queue(stream));
    allocator().recordStream(data, stream);
    data.clear();
    EXPECT_EQ(0, allocated());
    EXPECT_EQ(size, active());
    EXPECT_NE(address, take(bytes).get());

    gate.open();
    synchronize_stream(stream);
    auto first = take(bytes);
    auto second = take(bytes);
    EXPECT_TRUE(first.get() == address || second.get() == address);
  }
}

TEST_F(AllocatorTest, RecordingTheOwnStreamChangesNothing) {
  auto data = take(KiB);
  const void* address = data.get();
  Gate gate(queue(default_stream(0)));
  allocator().recordStream(data, default_stream(0));
  data.clear();
  EXPECT_EQ(address, take(KiB).get());
}

TEST_F(AllocatorTest, CountsWhatItDoes) {
  auto a = take(2 * MiB);
  auto b = take(KiB);
  EXPECT_EQ(2, stats().allocation[kAll].current);
  EXPECT_EQ(2, stats().num_device_alloc);
  a.clear();
  b.clear();
  auto s = stats();
  const auto all = static_cast<int64_t>(2 * MiB + KiB);
  EXPECT_EQ(0, s.allocation[kAll].current);
  EXPECT_EQ(2, s.allocation[kAll].allocated);
  EXPECT_EQ(2, s.allocation[kAll].freed);
  EXPECT_EQ(0, s.allocated_bytes[kAll].current);
  EXPECT_EQ(all, s.allocated_bytes[kAll].peak);
  EXPECT_EQ(static_cast<int64_t>(22 * MiB), s.reserved_bytes[kAll].current);
  const auto small = static_cast<size_t>(StatType::SMALL_POOL);
  EXPECT_EQ(static_cast<int64_t>(KiB), s.allocated_bytes[small].peak);

  allocator().resetPeakStats(0);
  EXPECT_EQ(0, stats().allocated_bytes[kAll].peak);
  allocator().emptyCache();
  s = stats();
  EXPECT_EQ(0, s.reserved_bytes[kAll].current);
  EXPECT_EQ(0, s.segment[kAll].current);
  EXPECT_EQ(2, s.num_device_free);
  EXPECT_EQ(0, s.num_alloc_retries);
  EXPECT_EQ(0, s.num_ooms);
}

TEST_F(AllocatorTest, EmptyCacheKeepsSegmentsInUse) {
  auto a = take(2 * MiB);
  auto b = take(2 * MiB);
  b.clear();
  allocator().emptyCache();
  EXPECT_EQ(static_cast<int64_t>(20 * MiB), reserved());
  EXPECT_EQ(0, device_of(a.get()));
  const void* address = a.get();
  a.clear();
  allocator().emptyCache();
  EXPECT_EQ(0, reserved());
  EXPECT_EQ(-1, device_of(address));
}

TEST_F(AllocatorTest, LocatesEveryByteOfABlock) {
  const auto data = take(5 * MiB);
  const auto* bytes = static_cast<const char*>(data.get());
  const auto first = locate(bytes);
  const auto last = locate(bytes + 5 * MiB - 1);
  EXPECT_EQ(first.segment, last.segment);
  EXPECT_EQ(first.offset + 5 * MiB - 1, last.offset);
  int on_host = 0;
  EXPECT_THROW(locate(&on_host), c10::Error);
  EXPECT_EQ(-1, device_of(&on_host));
}

TEST_F(AllocatorTest, FlushesTheCacheWhenMemoryIsShortAndThenRaises) {
  auto a = take(16 * GiB);
  a.clear();
  a = take(20 * GiB);
  EXPECT_EQ(1, stats().num_alloc_retries);
  EXPECT_EQ(0, stats().num_ooms);
  try {
    take(8 * GiB);
    FAIL() << "8 GiB more than there are";
  } catch (const c10::OutOfMemoryError& error) {
    const std::string text = error.what_without_backtrace();
    for (const char* part : {"out of memory",
                             "Tried to allocate 8.00 GiB",
                             "capacity of 24.00 GiB of which 4.00 GiB is free",
                             "holds 20.00 GiB in tensors"}) {
      EXPECT_NE(std::string::npos, text.find(part)) << part << ": " << text;
    }
  }
  EXPECT_EQ(2, stats().num_alloc_retries);
  EXPECT_EQ(1, stats().num_ooms);
  EXPECT_NE(nullptr, take(2 * GiB).get());
}

TEST_F(AllocatorTest, RaisesForSizesThatNoDeviceHas) {
  constexpr size_t kMost = std::numeric_limits<size_t>::max();
  for (const size_t bytes : {kMost, kMost - 600, kMost / 2 + 1, kMost / 4}) {
    EXPECT_THROW(take(bytes), c10::OutOfMemoryError) << bytes;
  }
  EXPECT_EQ(0, allocated());
  EXPECT_EQ(4, stats().num_ooms);
}

TEST_F(AllocatorTest, WaitsForOtherStreamsBeforeItRaises) {
  const auto stream = new_stream(0, 0);
  take(20 * GiB);  // one segment, cached
  auto kept = take(12 * GiB);
  auto recorded = take(8 * GiB);
  const void* address = recorded.get();
  ASSERT_EQ(1, segment_count());
  Gate gate(queue(stream));
  allocator().recordStream(recorded, stream);
  recorded.clear();
  std::thread opener([&] {
    EXPECT_TRUE(eventually([] { return stats().num_alloc_retries == 1; }));
    gate.open();
  });
  c10::DataPtr data;
  EXPECT_NO_THROW(data = take(8 * GiB));
  EXPECT_EQ(address, data.get());
  gate.open();
  opener.join();
}

// Transformers warms allocators up with one allocation as large as the model.
TEST_F(AllocatorTest, AHugeAllocationTouchesNoMemory) {
  const auto resident = [] {
    size_t total = 0, pages = 0;
    std::ifstream("/proc/self/statm") >> total >> pages;
    return pages * 4096;
  };
  const size_t before = resident();
  auto data = take(22 * GiB);
  data.clear();
  allocator().emptyCache();
  EXPECT_LT(resident(), before + 64 * MiB);
}

TEST_F(AllocatorTest, KeepsAHistoryOfTheLastEvents) {
  record_history(true, 4);
  const auto stop = c10::DataPtr(
      nullptr, this, [](void*) { record_history(false, 0); }, c10::kCPU);
  auto data = take(KiB);
  const auto address = reinterpret_cast<size_t>(data.get());
  data.clear();
  const auto events = history(0);
  ASSERT_EQ(4u, events.size());
  const char* actions[] = {
      "segment_alloc", "alloc", "free_requested", "free_completed"};
  for (int i = 0; i < 4; ++i) {
    EXPECT_STREQ(actions[i], events[i].action);
    EXPECT_EQ(i == 0 ? 2 * MiB : KiB, events[i].size);
    EXPECT_EQ(address, events[i].address);
  }
  take(KiB);
  EXPECT_STREQ("free_requested", history(0)[2].action);
  EXPECT_EQ(4u, history(0).size());
  record_history(true, 0);
  take(KiB);
  EXPECT_TRUE(history(0).empty());
}

TEST_F(AllocatorTest, ClonesBytesInStreamOrder) {
  const std::vector<char> bytes(64 * KiB, 7);
  auto data = take(bytes.size());
  const auto stream = new_stream(0, 0);
  exchange_stream(stream);
  Gate gate(queue(stream));
  copy_to_device(data.get(), bytes.data(), bytes.size(), 0, false);
  const auto copy = allocator().clone(data.get(), bytes.size());
  gate.open();
  std::vector<char> read(bytes.size());
  copy_to_host(read.data(), copy.get(), read.size(), 0, false);
  EXPECT_EQ(bytes, read);
}

// Live blocks by address; adding one that overlaps another fails.
class Live {
 public:
  void add(const c10::DataPtr& data, size_t bytes) {
    const auto begin = reinterpret_cast<uintptr_t>(data.get());
    std::lock_guard lock(mutex_);
    const auto next = blocks_.lower_bound(begin);
    if (next != blocks_.end()) {
      EXPECT_LE(begin + bytes, next->first);
    }
    if (next != blocks_.begin()) {
      const auto& [address, size] = *std::prev(next);
      EXPECT_LE(address + size, begin);
    }
    blocks_[begin] = bytes;
    total_ += bytes;
  }
  void remove(const c10::DataPtr& data) {
    std::lock_guard lock(mutex_);
    const auto it = blocks_.find(reinterpret_cast<uintptr_t>(data.get()));
    total_ -= it->second;
    blocks_.erase(it);
  }
  size_t total() const { return total_; }

 private:
  std::mutex mutex_;
  std::map<uintptr_t, size_t> blocks_;
  size_t total_ = 0;
};

size_t random_size(std::mt19937& random) {
  const int log = std::uniform_int_distribution(0, 25)(random);
  return std::uniform_int_distribution<size_t>(size_t{1} << log,
                                               size_t{2} << log)(random);
}

TEST_F(AllocatorTest, LiveBlocksNeverOverlap) {
  for (const unsigned seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const c10::Stream streams[] = {
        default_stream(0), new_stream(0, 0), new_stream(0, -1)};
    Live live;
    std::vector<c10::DataPtr> held;
    for (int step = 0; step < 3000; ++step) {
      const int what = std::uniform_int_distribution(0, 99)(random);
      if (what < 52 && live.total() < 4 * GiB) {
        const size_t bytes = random_size(random);
        held.push_back(take_on(streams[what % 3], bytes));
        live.add(held.back(), bytes);
      } else if (what < 98 && !held.empty()) {
        std::swap(held[random() % held.size()], held.back());
        if (what % 4 == 0) {
          allocator().recordStream(held.back(), streams[what % 3]);
        }
        live.remove(held.back());
        held.pop_back();
      } else if (what == 99) {
        allocator().emptyCache();
        check_tiling();
      }
      EXPECT_EQ(static_cast<int64_t>(live.total()),
                stats().requested_bytes[kAll].current);
    }
    held.clear();
    EXPECT_EQ(0, allocated());
    allocator().emptyCache();
    EXPECT_EQ(0, active());
    EXPECT_EQ(0, reserved());
    EXPECT_EQ(0, stats().inactive_split[kAll].current);
    EXPECT_TRUE(segments().empty());
  }
}

TEST_F(AllocatorTest, ThreadsGetBlocksOfTheirOwn) {
  Live live;
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    threads.emplace_back([&live, seed] {
      std::mt19937 random(seed);
      if (seed % 2 == 0) {
        exchange_stream(new_stream(0, 0));
      }
      std::vector<c10::DataPtr> held;
      for (int step = 0; step < 2000; ++step) {
        if (held.size() < 8) {
          const size_t bytes = random_size(random) / 8 + 1;
          held.push_back(take(bytes));
          live.add(held.back(), bytes);
        } else {
          std::swap(held[random() % held.size()], held.back());
          live.remove(held.back());
          held.pop_back();
        }
        if (step % 500 == 0) {
          allocator().emptyCache();
        }
      }
      for (const auto& data : held) {
        live.remove(data);
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(0, allocated());
  check_tiling();
}

// Strict mode aborts when memory goes that a queued launch still uses.
TEST_F(AllocatorTest, EmptyCacheWaitsForLaunchesOfOtherThreads) {
  ir::Builder b("double");
  const auto x = b.parameter({DType::Float32, {1024}});
  const auto executable =
      compiler::compile("test::double", b.finish({b.add(x, x)}), 0);
  std::atomic<bool> done = false;
  std::thread launcher([&] {
    const auto stream = new_stream(0, 0);
    exchange_stream(stream);
    const std::vector<float> ones(1024, 1);
    for (int i = 0; i < 300; ++i) {
      auto in = take(4096);
      auto out = take(4096);
      copy_to_device(in.get(), ones.data(), 4096, 0, false);
      queue(stream).push([&](Launch& slot) {
        slot.executable = executable.get();
        slot.addresses[0] = in.get();
        slot.addresses[1] = out.get();
      });
      in.clear();  // free for the stream, while the launch waits
      if (i % 10 == 0) {
        std::vector<float> read(1024);
        copy_to_host(read.data(), out.get(), 4096, 0, false);
        EXPECT_EQ(std::vector<float>(1024, 2), read);
      }
    }
    EXPECT_NO_THROW(synchronize_stream(stream));
    done = true;
  });
  while (!done) {
    allocator().emptyCache();
  }
  launcher.join();
}

}  // namespace
}  // namespace neuronx::runtime
