// SPDX-License-Identifier: Apache-2.0
// Lifecycle: nrt_init, nrt_close and the core counts.
#include "sim/core.h"

#include <fmt/format.h>

#include <utility>

#include "common/env.h"
#include "common/log.h"
#include "sim/error.h"
#include "sim/exports.h"
#include "sim/fault.h"
#include "sim/model.h"

namespace neuronx::sim {

std::atomic<Phase> phase{Phase::Uninitialized};

namespace {

std::mutex lifecycle;
Simulator* current = nullptr;

// Closed simulators stay: handles that outlive nrt_close point to their cores.
std::vector<std::unique_ptr<Simulator>>& simulators() {
  static auto* instance = new std::vector<std::unique_ptr<Simulator>>;
  return *instance;
}

// Upper 16 bits of sequence numbers: core in the upper byte, then four bits
// for unit and queue.
uint64_t sequence_prefix(int core, int position) {
  return (uint64_t(core) << 56) | (uint64_t(position) << 52);
}

int queue_position(nrta_xu_t unit, int number) {
  int position = number;
  for (int before = 0; before < unit; ++before) {
    position += kQueuesOfUnit[before];
  }
  return position;
}

NRT_STATUS start() {
  auto made = std::make_unique<Simulator>();
  try {
    made->machine = read_machine();
    set_strict(env::flag("TORCH_NEURONX_SIM_STRICT", false));
    if (const auto faults = env::text("TORCH_NEURONX_SIM_FAULT")) {
      inject(*faults);
    }
  } catch (const std::invalid_argument& error) {
    log::error(fmt::format("nrt_init: {}", error.what()));
    return fail(NRT_INVALID, error.what());
  }
  for (int host_index : made->machine.visible) {
    made->cores.push_back(
        std::make_unique<Core>(static_cast<int>(made->cores.size()),
                               host_index,
                               made->machine.core_memory()));
  }
  current = made.get();
  simulators().push_back(std::move(made));
  phase.store(Phase::Running, std::memory_order_release);
  return NRT_SUCCESS;
}

template <typename Count>
NRT_STATUS count(uint32_t* result, Count&& of) noexcept {
  if (result == nullptr) {
    return fail(NRT_INVALID, "the pointer for the count is null");
  }
  return guarded([&] {
    const Machine machine =
        phase.load() == Phase::Running ? simulator().machine : read_machine();
    *result = static_cast<uint32_t>(of(machine));
    return NRT_SUCCESS;
  });
}

}  // namespace

Core::Core(int index, int host_index, size_t limit)
    : index(index), host_index(host_index), limit(limit) {
  for (int unit = 0; unit < NRTA_XU_NUM; ++unit) {
    for (int number = 0; number < kQueuesOfUnit[unit]; ++number) {
      queues.push_back(std::make_unique<Queue>(
          sequence_prefix(index, static_cast<int>(queues.size()))));
    }
  }
}

Queue& Core::queue(nrta_xu_t unit, int number) {
  return *queues[queue_position(unit, number)];
}

Simulator& simulator() noexcept {
  return *current;
}

NRT_STATUS not_running(const char* call) noexcept {
  if (phase.load() == Phase::Closed) {
    return misuse(NRT_CLOSED, std::string(call) + " called after nrt_close");
  }
  return fail(NRT_UNINITIALIZED, std::string(call) + " called before nrt_init");
}

Core* find_core(int64_t vnc, const char* call) noexcept {
  auto& cores = simulator().cores;
  if (vnc < 0 || vnc >= static_cast<int64_t>(cores.size())) {
    fail(NRT_INVALID,
         fmt::format("{}: there is no core {}, {} are visible",
                     call,
                     vnc,
                     cores.size()));
    return nullptr;
  }
  return cores[vnc].get();
}

}  // namespace neuronx::sim

namespace neuronx {

using namespace sim;

NRT_STATUS nrt_init(nrt_framework_type_t framework,
                    const char* fw,
                    const char* fal) {
  std::lock_guard lock(lifecycle);
  if (framework <= NRT_FRAMEWORK_TYPE_INVALID || framework > 5) {
    return fail(NRT_INVALID, "nrt_init: unknown framework type");
  }
  if (fw == nullptr || fal == nullptr) {
    return fail(NRT_INVALID, "nrt_init: a version is null");
  }
  if (phase.load() == Phase::Running) {
    return NRT_SUCCESS;
  }
  return guarded([] { return start(); });
}

void nrt_close() {
  std::lock_guard lock(lifecycle);
  if (phase.load() != Phase::Running) {
    return;
  }
  // Accepted requests still run, so the phase changes after them.
  for (auto& core : current->cores) {
    for (auto& queue : core->queues) {
      queue->stop();
    }
  }
  phase = Phase::Closed;
  for (auto& core : current->cores) {
    unload_all(*core);
    release_all(*core);
  }
  inject("");
}

NRT_STATUS nrt_get_total_nc_count(uint32_t* result) {
  return count(result, [](const Machine& m) { return m.physical_cores(); });
}

NRT_STATUS nrt_get_visible_nc_count(uint32_t* result) {
  return count(result, [](const Machine& m) {
    return m.visible.size() * m.logical_core_config;
  });
}

NRT_STATUS nrt_get_total_vnc_count(uint32_t* result) {
  return count(result, [](const Machine& m) { return m.logical_cores(); });
}

NRT_STATUS nrt_get_visible_vnc_count(uint32_t* result) {
  return count(result, [](const Machine& m) { return m.visible.size(); });
}

}  // namespace neuronx
