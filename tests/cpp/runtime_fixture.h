// SPDX-License-Identifier: Apache-2.0
// What the tests of the backend share: the simulator in strict mode, one
// device, and waits that end.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/allocator.h"
#include "runtime/device.h"
#include "runtime/queue.h"
#include "runtime/stream.h"

namespace neuronx::runtime {

// Before anything reads them; what the environment has set stays.
inline const bool strict_simulator = [] {
  setenv("TORCH_NEURONX_RUNTIME", "sim", 0);
  setenv("TORCH_NEURONX_SIM_STRICT", "1", 0);
  setenv("TORCH_NEURONX_SYNC_TIMEOUT", "60", 0);
  return true;
}();

// A task that holds its queue until it is opened. Opens when it goes, so that
// a failing test does not leave a queue waiting.
class Gate {
 public:
  explicit Gate(Queue& queue) {
    queue.push_task("gate", [state = state_] {
      std::unique_lock lock(state->mutex);
      state->entered = true;
      state->changed.notify_all();
      state->changed.wait_for(
          lock, std::chrono::seconds(50), [&] { return state->open; });
    });
  }
  Gate(const Gate&) = delete;
  ~Gate() { open(); }

  void open() {
    std::lock_guard lock(state_->mutex);
    state_->open = true;
    state_->changed.notify_all();
  }
  // Waits until the queue has come to the gate.
  void reached() {
    std::unique_lock lock(state_->mutex);
    ASSERT_TRUE(state_->changed.wait_for(
        lock, std::chrono::seconds(50), [&] { return state_->entered; }));
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool entered = false;
    bool open = false;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// Polls until `condition` holds; false after 50 s.
inline bool eventually(const std::function<bool()>& condition) {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(50);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

// Every test starts with an empty cache on device 0 and default streams.
class Backend : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    initialize();
    exchange_stream(default_stream(0));
    allocator().emptyCache();
    allocator().resetAccumulatedStats(0);
    allocator().resetPeakStats(0);
  }
  void TearDown() override {
    exchange_stream(default_stream(0));
    EXPECT_NO_THROW(synchronize_device(0));
  }
};

}  // namespace neuronx::runtime
