// SPDX-License-Identifier: Apache-2.0
#include "runtime/queue.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <pthread.h>

#include <thread>

#include "common/env.h"
#include "common/log.h"
#include "compiler/executable.h"
#include "nrt/status.h"
#include "runtime/bindings.h"
#include "runtime/call_site.h"
#include "runtime/errors.h"
#include "runtime/timeout.h"

namespace neuronx::runtime {
namespace {

// How long an idle worker spins before it sleeps: longer than the gap between
// two eager calls, so that a burst wakes it once.
constexpr auto kSpin = std::chrono::microseconds(40);

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

template <typename Predicate>
bool spin(Predicate&& done) {
  const auto until = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) {
        return true;
      }
      pause();
    }
  } while (std::chrono::steady_clock::now() < until);
  return false;
}

bool launch_blocking() {
  static const bool blocking = env::flag("NEURON_LAUNCH_BLOCKING", false);
  return blocking;
}

}  // namespace

std::chrono::seconds sync_timeout() {
  static const std::chrono::seconds timeout(
      env::integer("TORCH_NEURONX_SYNC_TIMEOUT", 1800, 1, 1 << 30));
  return timeout;
}

std::string sync_timeout_message() {
  return fmt::format(
      "the device did not finish within {} s; raise "
      "TORCH_NEURONX_SYNC_TIMEOUT if the work is expected to take longer",
      sync_timeout().count());
}

Queue::Queue(c10::DeviceIndex device, int64_t stream_id)
    : device_(device),
      stream_id_(stream_id),
      sites_kept_(call_sites_kept()),
      ring_(new Launch[kCapacity]),
      bindings_(std::make_unique<Bindings>(device)) {
  std::thread worker([this] {
    worker_.store(std::this_thread::get_id());
    const auto name = fmt::format("neuron:{}/{}", device_, stream_id_);
    pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
    work();
  });
  worker.detach();  // the queue is leaked, so is its worker
}

bool Queue::on_worker() const noexcept {
  return worker_.load() == std::this_thread::get_id();
}

// Whoever holds the lock may wait for room, or may have lost its core.
void Queue::lock() {
  for (int i = 0; producer_.test_and_set(std::memory_order_acquire); ++i) {
    if (i < 64) {
      pause();
    } else {
      std::this_thread::yield();
    }
  }
}

Launch& Queue::acquire_slot() {
  const Ticket head = head_.load(std::memory_order_relaxed);
  if (head - tail_.load(std::memory_order_acquire) >= kCapacity) {
    const auto room = [&] {
      return head - tail_.load(std::memory_order_acquire) < kCapacity;
    };
    const auto deadline = std::chrono::steady_clock::now() + sync_timeout();
    while (!spin(room)) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      if (std::chrono::steady_clock::now() > deadline) {
        producer_.clear(std::memory_order_release);
        TORCH_CHECK(false, "[launch] ", sync_timeout_message());
      }
    }
  }
  return ring_[head % kCapacity];
}

Queue::Ticket Queue::publish_and_unlock() {
  const Ticket ticket = head_.load(std::memory_order_relaxed) + 1;
  head_.store(ticket, std::memory_order_seq_cst);
  producer_.clear(std::memory_order_release);
  if (asleep_.load(std::memory_order_seq_cst)) {
    std::lock_guard lock(mutex_);
    wake_.notify_one();
  }
  if (launch_blocking() && !on_worker()) {
    wait(ticket);
    raise_error();
  }
  return ticket;
}

Queue::Ticket Queue::push_task(const char* name,
                               std::function<void()> task,
                               std::unique_ptr<std::string> site) {
  return push([&](Launch& slot) {
    slot.executable = nullptr;
    slot.task_name = name;
    slot.task = std::move(task);
    slot.site = std::move(site);
  });
}

std::unique_ptr<std::string> Queue::ask_site() {
  return std::make_unique<std::string>(queued_by());
}

void Queue::work() {
  for (;;) {
    const Ticket next = tail_.load(std::memory_order_relaxed);
    const auto ready = [&] {
      return head_.load(std::memory_order_acquire) != next;
    };
    if (!ready() && !spin(ready)) {
      std::unique_lock lock(mutex_);
      asleep_.store(true, std::memory_order_seq_cst);
      // Either this load sees the new head or its pusher sees the sleeper.
      wake_.wait(lock,
                 [&] { return head_.load(std::memory_order_seq_cst) != next; });
      asleep_.store(false, std::memory_order_seq_cst);
    }
    Launch& launch = ring_[next % kCapacity];
    try {
      run(launch);
    } catch (...) {
      record_error(launch);
    }
    // A task may own storage: it goes before its entry counts as finished.
    launch.task = nullptr;
    launch.more.reset();
    launch.more_scalars.reset();
    launch.site.reset();
    tail_.store(next + 1, std::memory_order_seq_cst);
    if (waiters_.load(std::memory_order_seq_cst) > 0) {
      std::lock_guard lock(mutex_);
      done_.notify_all();
    }
  }
}

void Queue::run(Launch& launch) {
  if (launch.executable != nullptr) {
    bindings_->execute(launch);
  } else {
    launch.task();
  }
}

void Queue::record_error(const Launch& launch) noexcept {
  auto error = std::current_exception();
  try {
    error = describe_error(launch);
  } catch (...) {
    // Keep the undescribed one.
  }
  std::lock_guard lock(mutex_);
  if (!error_) {
    error_ = error;
    failed_.store(true, std::memory_order_release);
  }
}

void Queue::wait(Ticket ticket) {
  const auto done = [&] {
    return tail_.load(std::memory_order_seq_cst) >= ticket;
  };
  if (done() || spin(done)) {
    return;
  }
  TORCH_INTERNAL_ASSERT(!on_worker(), "a queue cannot wait for itself");
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  bool finished;
  {
    std::unique_lock lock(mutex_);
    finished = done_.wait_for(lock, sync_timeout(), done);
  }
  waiters_.fetch_sub(1, std::memory_order_seq_cst);
  TORCH_CHECK(finished, "[synchronize] ", sync_timeout_message());
}

void Queue::raise_error() {
  if (!failed_.load(std::memory_order_acquire)) {
    return;
  }
  std::exception_ptr error;
  {
    std::lock_guard lock(mutex_);
    error = std::exchange(error_, nullptr);
    failed_.store(false, std::memory_order_release);
  }
  if (error) {
    std::rethrow_exception(error);
  }
}

void Queue::synchronize() {
  wait(pushed());
  raise_error();
}

void Queue::forget(const void* begin, const void* end) {
  if (on_worker()) {
    bindings_->forget(begin, end);
    return;
  }
  wait(push_task("release memory",
                 [this, begin, end] { bindings_->forget(begin, end); }));
}

}  // namespace neuronx::runtime
