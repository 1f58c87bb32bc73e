// SPDX-License-Identifier: Apache-2.0
// Event: a point in a stream that hosts and other streams wait for.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

namespace neuronx::runtime {

class Event {
 public:
  explicit Event(c10::DeviceIndex device, bool timing);

  // Marks the point behind all that `stream` holds now. Earlier recordings
  // are superseded.
  void record(c10::Stream stream);
  // Makes `stream` wait for the last recording; none: no wait.
  void block(c10::Stream stream) const;
  bool query() const;
  void synchronize() const;
  bool recorded() const;

  c10::DeviceIndex device() const { return device_; }
  // Milliseconds of the device's time line between two completed recordings.
  // Throws if one is not recorded or has no timing.
  static double elapsed_ms(const Event& start, const Event& end);

 private:
  using Clock = std::chrono::steady_clock;
  // Shared with the queues' tasks, so an Event may die while one is pending.
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    uint64_t recorded = 0;
    uint64_t completed = 0;
    Clock::time_point time{};
  };
  static void wait(const std::shared_ptr<State>& state, uint64_t version);

  const c10::DeviceIndex device_;
  const bool timing_;
  std::shared_ptr<State> state_;
  c10::Stream stream_;
};

}  // namespace neuronx::runtime
