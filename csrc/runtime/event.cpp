// SPDX-License-Identifier: Apache-2.0
#include "runtime/event.h"

#include "runtime/device.h"
#include "runtime/queue.h"
#include "runtime/stream.h"
#include "runtime/timeout.h"

namespace neuronx::runtime {

Event::Event(c10::DeviceIndex device, bool timing)
    : device_(device),
      timing_(timing),
      state_(std::make_shared<State>()),
      stream_(default_stream(device)) {}

void Event::record(c10::Stream stream) {
  uint64_t version;
  {
    std::lock_guard lock(state_->mutex);
    version = ++state_->recorded;
  }
  stream_ = stream;
  queue(stream).push_task("record event", [state = state_, version] {
    std::lock_guard lock(state->mutex);
    if (version > state->completed) {
      state->completed = version;
      state->time = Clock::now();
    }
    state->changed.notify_all();
  });
}

void Event::wait(const std::shared_ptr<State>& state, uint64_t version) {
  std::unique_lock lock(state->mutex);
  const bool done = state->changed.wait_for(
      lock, sync_timeout(), [&] { return state->completed >= version; });
  TORCH_CHECK(done, "[event wait] ", sync_timeout_message());
}

void Event::block(c10::Stream stream) const {
  uint64_t version;
  {
    std::lock_guard lock(state_->mutex);
    version = state_->recorded;
    if (state_->completed >= version) {
      return;
    }
  }
  if (stream == stream_) {
    return;
  }
  queue(stream).push_task("wait for event",
                          [state = state_, version] { wait(state, version); });
}

bool Event::query() const {
  std::lock_guard lock(state_->mutex);
  return state_->completed >= state_->recorded;
}

void Event::synchronize() const {
  uint64_t version;
  {
    std::lock_guard lock(state_->mutex);
    version = state_->recorded;
  }
  if (version == 0) {
    return;
  }
  wait(state_, version);
  if (Queue* recorded_on = existing_queue(stream_)) {
    recorded_on->raise_error();
  }
}

bool Event::recorded() const {
  std::lock_guard lock(state_->mutex);
  return state_->recorded > 0;
}

double Event::elapsed_ms(const Event& start, const Event& end) {
  TORCH_CHECK(start.timing_ && end.timing_,
              "[elapsed_time] both events must be created with "
              "enable_timing=True");
  TORCH_CHECK(start.recorded() && end.recorded(),
              "[elapsed_time] both events must be recorded before "
              "calculating elapsed time");
  TORCH_CHECK(start.query() && end.query(),
              "[elapsed_time] both events must be completed before "
              "calculating elapsed time; call synchronize() first");
  Clock::time_point from, to;
  {
    std::lock_guard lock(start.state_->mutex);
    from = start.state_->time;
  }
  {
    std::lock_guard lock(end.state_->mutex);
    to = end.state_->time;
  }
  return std::chrono::duration<double, std::milli>(to - from).count();
}

}  // namespace neuronx::runtime
