// SPDX-License-Identifier: Apache-2.0
#include "nrt/runtime.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>

#include "nrt/status.h"

namespace neuronx::nrt {
namespace {

// The version that nrt_init is told; the runtime only logs it.
constexpr const char* kFrameworkVersion = "2.13";

std::atomic<const Runtime*> current{nullptr};
std::atomic<bool> running{false};
std::atomic<bool> forked{false};
std::atomic<uint64_t> generation_count{1};

// Leaked: handles are released while the process exits.
std::mutex& mutex() {
  static auto* instance = new std::mutex;
  return *instance;
}

// The device belongs to the parent: nothing of it may be used or released.
void on_fork() {
  if (running.exchange(false)) {
    forked = true;
    ++generation_count;
  }
}

std::string_view trainium(uint32_t family) {
  if (family >= NRT_INSTANCE_TRN3) {
    return "Trainium3";
  }
  if (family >= NRT_INSTANCE_TRN2 && family != 7) {
    return "Trainium2";
  }
  return family == NRT_INSTANCE_TRN1 || family == NRT_INSTANCE_TRN1N
             ? "Trainium1"
             : "Neuron device";
}

}  // namespace

const Runtime& runtime() {
  if (const Runtime* loaded = current.load(std::memory_order_acquire))
      [[likely]] {
    return *loaded;
  }
  std::lock_guard lock(mutex());
  if (current.load() == nullptr) {
    current.store(new Runtime(load(library_path())), std::memory_order_release);
  }
  return *current.load();
}

void initialize() {
  const Runtime& library = runtime();
  std::lock_guard lock(mutex());
  if (running) {
    return;
  }
  if (forked) {
    throw NotRunning(
        NRT_UNINITIALIZED,
        "Cannot re-initialize Neuron in forked subprocess. To use Neuron "
        "with multiprocessing, you must use the 'spawn' start method");
  }
  check(library.nrt_init(NRT_FRAMEWORK_TYPE_PYTORCH, kFrameworkVersion, ""),
        "initialize the Neuron runtime");
  static const int registered = pthread_atfork(nullptr, nullptr, &on_fork);
  (void)registered;
  running = true;
}

bool initialized() noexcept {
  return running;
}

void close() noexcept {
  std::lock_guard lock(mutex());
  if (running.exchange(false)) {
    ++generation_count;
    current.load()->nrt_close();
  }
}

uint64_t generation() noexcept {
  return generation_count.load(std::memory_order_acquire);
}

uint32_t device_count_without_init() noexcept {
  try {
    uint32_t count = 0;
    return runtime().nrt_get_visible_vnc_count(&count) == NRT_SUCCESS ? count
                                                                      : 0;
  } catch (...) {
    return 0;
  }
}

std::string why_no_device() noexcept {
  try {
    uint32_t count = 0;
    check(runtime().nrt_get_visible_vnc_count(&count),
          "count the Neuron cores");
    return count > 0 ? "" : "the Neuron runtime sees no core";
  } catch (const std::exception& error) {
    return error.what();
  }
}

Instance instance() {
  const Runtime& library = runtime();
  nrt_instance_info_t info{};
  if (library.nrt_get_instance_info != nullptr) {
    check(library.nrt_get_instance_info(&info, sizeof(info)),
          "read the instance type");
  }
  uint32_t physical = 0;
  uint32_t logical = 0;
  const bool counted =
      library.nrt_get_total_nc_count != nullptr &&
      library.nrt_get_total_vnc_count != nullptr &&
      library.nrt_get_total_nc_count(&physical) == NRT_SUCCESS &&
      library.nrt_get_total_vnc_count(&logical) == NRT_SUCCESS && logical > 0;
  const std::string architecture(
      info.arch_name, strnlen(info.arch_name, sizeof(info.arch_name)));
  return {.name = std::string(trainium(info.family)),
          .architecture = architecture,
          .logical_core_config =
              counted ? static_cast<int>(std::max(1u, physical / logical)) : 1,
          .simulated = library.simulated};
}

MemoryStats memory(int vnc) {
  const Runtime& library = runtime();
  if (library.nrt_get_vnc_memory_stats == nullptr) {
    return {0, 0};
  }
  nrt_vnc_memory_stats_t stats{};
  size_t written = 0;
  check(library.nrt_get_vnc_memory_stats(
            static_cast<uint32_t>(vnc), &stats, sizeof(stats), &written),
        "read the memory use of a Neuron core");
  return {stats.bytes_used, stats.bytes_limit};
}

std::string last_error() noexcept {
  try {
    const Runtime* library = current.load(std::memory_order_acquire);
    if (library == nullptr || library->nrt_sim_last_error == nullptr) {
      return "";
    }
    std::string text(library->nrt_sim_last_error(nullptr, 0), '\0');
    if (!text.empty()) {
      library->nrt_sim_last_error(text.data(), text.size() + 1);
    }
    return text;
  } catch (...) {
    return "";
  }
}

}  // namespace neuronx::nrt
