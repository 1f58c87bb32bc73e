// SPDX-License-Identifier: Apache-2.0
// Core: a visible logical NeuronCore; Simulator: what nrt_init starts.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "nrt/abi.h"
#include "sim/machine.h"
#include "sim/memory.h"
#include "sim/queue.h"

namespace neuronx::sim {

struct Core {
  Core(int index, int host_index, size_t limit);

  const int index;       // among the visible ones: "vnc"
  const int host_index;  // among all of the host
  const size_t limit;    // bytes

  // One program executes at a time.
  std::mutex execution;
  // NRT_EXEC_UNIT_UNRECOVERABLE is terminal.
  std::atomic<bool> dead{false};

  std::atomic<size_t> used{0};
  std::mutex storages_mutex;
  Storage* storages = nullptr;

  std::mutex models_mutex;
  std::unordered_set<nrt_model_t*> models;

  Queue& queue(nrta_xu_t unit, int number);
  std::vector<std::unique_ptr<Queue>> queues;
};

struct Simulator {
  Machine machine;
  std::vector<std::unique_ptr<Core>> cores;
};

enum class Phase { Uninitialized, Running, Closed };
extern std::atomic<Phase> phase;

// The running simulator; only while phase is Running.
Simulator& simulator() noexcept;

// Why a call cannot be served now. In strict mode use after close aborts.
NRT_STATUS not_running(const char* call) noexcept;

inline NRT_STATUS running(const char* call) noexcept {
  return phase.load(std::memory_order_acquire) == Phase::Running
             ? NRT_SUCCESS
             : not_running(call);
}

// The core of index `vnc`, or null with the failure recorded.
Core* find_core(int64_t vnc, const char* call) noexcept;

}  // namespace neuronx::sim
