// SPDX-License-Identifier: Apache-2.0
#include "runtime/stream.h"

#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <mutex>

#include "runtime/device.h"
#include "runtime/queue.h"

namespace neuronx::runtime {
namespace {

// Stream ids: 0 default, 1.. normal priority, then high priority.
constexpr int kStreams = 1 + 2 * kStreamsPerPool;

struct DeviceStreams {
  std::mutex mutex;
  std::array<std::atomic<Queue*>, kStreams> queues{};
  std::array<std::atomic<uint32_t>, 2> next{};
};

DeviceStreams& streams(c10::DeviceIndex device) {
  static auto* all = new std::array<DeviceStreams, kMaxDevices>;
  return (*all)[device];
}

c10::Stream make_stream(c10::DeviceIndex device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kNeuron, device), id);
}

void check_stream(c10::Stream stream) {
  check_device_index(stream.device_index());
  TORCH_CHECK(stream.device_type() == kNeuron && stream.id() >= 0 &&
                  stream.id() < kStreams,
              stream,
              " is not a neuron stream");
}

c10::DeviceIndex resolve(c10::DeviceIndex device) {
  return device < 0 ? current_device() : device;
}

thread_local std::array<uint8_t, kMaxDevices> current_ids{};

}  // namespace

c10::Stream default_stream(c10::DeviceIndex device) {
  return make_stream(resolve(device), 0);
}

c10::Stream current_stream(c10::DeviceIndex device) {
  device = resolve(device);
  return make_stream(device, current_ids[device]);
}

c10::Stream exchange_stream(c10::Stream stream) {
  const auto device = stream.device_index();
  check_stream(stream);
  const auto previous = current_stream(device);
  current_ids[device] = static_cast<uint8_t>(stream.id());
  return previous;
}

c10::Stream new_stream(c10::DeviceIndex device, int priority) {
  device = resolve(device);
  check_device_index(device);
  const int high = priority < 0 ? 1 : 0;
  const uint32_t n = streams(device).next[high].fetch_add(1);
  return make_stream(device, 1 + high * kStreamsPerPool + n % kStreamsPerPool);
}

Queue* existing_queue(c10::Stream stream) noexcept {
  if (stream.id() < 0 || stream.id() >= kStreams || stream.device_index() < 0) {
    return nullptr;
  }
  return streams(stream.device_index())
      .queues[stream.id()]
      .load(std::memory_order_acquire);
}

Queue& queue(c10::Stream stream) {
  if (Queue* existing = existing_queue(stream)) {
    return *existing;
  }
  initialize();
  check_stream(stream);
  auto& device = streams(stream.device_index());
  std::lock_guard lock(device.mutex);
  auto& slot = device.queues[stream.id()];
  if (slot.load() == nullptr) {
    slot.store(new Queue(stream.device_index(), stream.id()));  // leaked
  }
  return *slot.load();
}

Queue& current_queue(c10::DeviceIndex device) {
  Queue* existing = streams(device).queues[current_ids[device]].load(
      std::memory_order_acquire);
  return existing != nullptr ? *existing : queue(current_stream(device));
}

bool query_stream(c10::Stream stream) {
  const Queue* existing = existing_queue(stream);
  return existing == nullptr || existing->idle();
}

void synchronize_stream(c10::Stream stream) {
  if (Queue* existing = existing_queue(stream)) {
    existing->synchronize();
  }
}

void synchronize_device(c10::DeviceIndex device) {
  drain_device(device);
  for (auto& slot : streams(device).queues) {
    if (Queue* existing = slot.load()) {
      existing->raise_error();
    }
  }
}

void drain_device(c10::DeviceIndex device) {
  for (auto& slot : streams(device).queues) {
    if (Queue* existing = slot.load()) {
      if (!existing->on_worker()) {
        existing->wait(existing->pushed());
      }
    }
  }
}

}  // namespace neuronx::runtime
