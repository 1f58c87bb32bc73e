// SPDX-License-Identifier: Apache-2.0
// Waiting for other processes: with a deadline, cancellable, shown on a
// terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace neuronx::compiler {

// Ends every compilation that runs now: its compiler is killed and its caller
// gets Cancelled.
void cancel();

// Replaces how a waiting thread sleeps: it may throw if the user interrupts,
// and must not keep locks that other compilations need.
using Sleep = std::function<void(std::chrono::milliseconds)>;
void set_sleep(Sleep sleep);

class Wait {
 public:
  explicit Wait(std::chrono::seconds limit);
  // The limit has passed.
  bool over() const;
  double seconds() const;
  // Sleeps, longer each time, up to 50 ms. Throws Cancelled, or what Sleep
  // throws.
  void pause();

 private:
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start_ = Clock::now();
  const Clock::time_point deadline_;
  const uint64_t epoch_;
  std::chrono::milliseconds sleep_{1};
};

}  // namespace neuronx::compiler
