// SPDX-License-Identifier: Apache-2.0
#include "runtime/device.h"

#include <c10/util/Exception.h>
#include <pthread.h>

#include <atomic>
#include <mutex>

#include "nrt/runtime.h"
#include "nrt/status.h"
#include "runtime/errors.h"

namespace neuronx::runtime {
namespace {

std::atomic<bool> started{false};
std::atomic<bool> bad_fork{false};
thread_local c10::DeviceIndex current = 0;

void forked() {
  if (started.load()) {
    bad_fork.store(true);
  }
}

std::mutex& start_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

}  // namespace

c10::DeviceIndex device_count() noexcept {
  if (started.load(std::memory_order_acquire)) {
    static const auto count = static_cast<c10::DeviceIndex>(
        std::min<uint32_t>(nrt::device_count_without_init(), 127));
    return count;
  }
  return static_cast<c10::DeviceIndex>(
      std::min<uint32_t>(nrt::device_count_without_init(), 127));
}

void initialize() {
  if (started.load(std::memory_order_acquire)) {
    TORCH_CHECK(
        !bad_fork.load(std::memory_order_relaxed),
        "Cannot re-initialize Neuron in forked subprocess. To use Neuron with "
        "multiprocessing, you must use the 'spawn' start method");
    return;
  }
  std::lock_guard lock(start_mutex());
  if (started.load()) {
    return;
  }
  try {
    nrt::initialize();
  } catch (...) {
    rethrow_as_torch("initialize the Neuron runtime");
  }
  pthread_atfork(nullptr, nullptr, &forked);
  started.store(true, std::memory_order_release);
}

bool initialized() noexcept {
  return started.load(std::memory_order_acquire) && !bad_fork.load();
}

c10::DeviceIndex current_device() noexcept {
  return current;
}

void check_device_index(int64_t index) {
  const int64_t count = device_count();
  if (index >= 0 && index < count) {
    return;
  }
  TORCH_CHECK(
      count > 0, "no Neuron device is available: ", nrt::why_no_device());
  TORCH_CHECK(false,
              "Neuron error: invalid device ordinal ",
              index,
              "; this process sees ",
              count,
              " device(s), neuron:0 to neuron:",
              count - 1);
}

void set_device(c10::DeviceIndex index) {
  if (index != current) {
    check_device_index(index);
    current = index;
  }
}

void unchecked_set_device(c10::DeviceIndex index) noexcept {
  if (index >= 0 && index < kMaxDevices - 1) {
    current = index;
  }
}

DeviceProperties device_properties(c10::DeviceIndex index) {
  check_device_index(index);
  initialize();
  DeviceProperties result;
  const auto info = nrt::instance();
  result.architecture = info.architecture;
  result.name = info.name;
  result.physical_cores = info.logical_core_config;
  result.simulated = info.simulated;
  result.total_memory = device_memory(index).second;
  return result;
}

std::pair<size_t, size_t> device_memory(c10::DeviceIndex index) {
  initialize();
  const auto stats = nrt::memory(index);
  return {stats.limit - std::min(stats.used, stats.limit), stats.limit};
}

}  // namespace neuronx::runtime
