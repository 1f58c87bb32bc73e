// SPDX-License-Identifier: Apache-2.0
// Queue: launches in order on one worker thread. Pushing costs the caller a
// spin lock and no allocation; a full queue blocks the caller.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <c10/core/Device.h>

namespace neuronx::compiler {
class Executable;
}

namespace neuronx::runtime {

class Bindings;

// One entry of the queue: an executable with its addresses, or a task.
struct Launch {
  static constexpr int kInlineAddresses = 12;
  static constexpr int kScalars = 6;

  compiler::Executable* executable = nullptr;
  uint16_t address_count = 0;
  uint16_t scalar_count = 0;
  // Device addresses: inputs, then results that alias no input.
  void* addresses[kInlineAddresses];
  std::unique_ptr<void*[]> more;  // all of them, when there are more
  uint64_t scalars[kScalars];     // raw bits of the runtime scalars
  std::unique_ptr<uint64_t[]> more_scalars;
  std::function<void()> task;  // when executable is null
  const char* task_name = nullptr;
  std::unique_ptr<std::string> site;  // see call_site.h

  void** operands() { return more ? more.get() : addresses; }
  uint64_t* values() { return more_scalars ? more_scalars.get() : scalars; }
};

class Queue {
 public:
  // Position in the queue: the number of entries pushed so far.
  using Ticket = uint64_t;

  Queue(c10::DeviceIndex device, int64_t stream_id);

  // Fills one entry in place under the queue's lock; `fill` must not block. If
  // it throws, nothing is queued.
  template <typename Fill>
  Ticket push(Fill&& fill) {
    lock();
    Launch& slot = acquire_slot();
    try {
      fill(slot);
    } catch (...) {
      producer_.clear(std::memory_order_release);
      throw;
    }
    return publish_and_unlock();
  }
  Ticket push_task(const char* name,
                   std::function<void()> task,
                   std::unique_ptr<std::string> site = nullptr);
  // Where the caller was called from, for `Launch::site`; null unless kept.
  std::unique_ptr<std::string> site() const {
    return sites_kept_ ? ask_site() : nullptr;
  }

  // Number of entries pushed / finished.
  Ticket pushed() const { return head_.load(std::memory_order_acquire); }
  Ticket finished() const { return tail_.load(std::memory_order_acquire); }
  bool idle() const { return finished() == pushed(); }

  // Waits until the entry has run. Throws after TORCH_NEURONX_SYNC_TIMEOUT
  // seconds. Does not raise the queue's error.
  void wait(Ticket ticket);
  // Waits for all that is queued, then raises and clears the first failure.
  void synchronize();
  // Raises and clears the first failure, if any.
  void raise_error();

  // Waits for all that is queued, then drops the tensor slices of [begin, end)
  // that bindings still hold.
  void forget(const void* begin, const void* end);

  c10::DeviceIndex device() const { return device_; }
  int64_t stream_id() const { return stream_id_; }
  // On its own worker thread?
  bool on_worker() const noexcept;

  // Entries that the queue holds before it blocks.
  static constexpr uint64_t kCapacity = 2048;

 private:
  void lock();
  Launch& acquire_slot();
  Ticket publish_and_unlock();
  void work();
  void run(Launch& launch);
  void record_error(const Launch& launch) noexcept;
  static std::unique_ptr<std::string> ask_site();

  const c10::DeviceIndex device_;
  const int64_t stream_id_;
  const bool sites_kept_;
  std::unique_ptr<Launch[]> ring_;
  std::unique_ptr<Bindings> bindings_;

  alignas(64) std::atomic_flag producer_ = ATOMIC_FLAG_INIT;
  alignas(64) std::atomic<Ticket> head_{0};
  alignas(64) std::atomic<Ticket> tail_{0};
  alignas(64) std::atomic<bool> asleep_{false};
  std::atomic<int> waiters_{0};
  std::atomic<bool> failed_{false};

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  std::exception_ptr error_;
  std::atomic<std::thread::id> worker_{};
};

}  // namespace neuronx::runtime
