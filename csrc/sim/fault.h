// SPDX-License-Identifier: Apache-2.0
// Injected faults: "execute:17:1004" makes the 17th execution from now end
// with status 1004. Several are separated by commas. Kinds: allocate, load,
// execute, read, write, copy. From TORCH_NEURONX_SIM_FAULT at nrt_init and
// from nrt_sim_inject.
#pragma once

#include <atomic>
#include <string_view>

#include "nrt/abi.h"

namespace neuronx::sim {

enum class FaultKind { Allocate, Load, Execute, Read, Write, Copy };

extern std::atomic<bool> faults_armed;

// Adds faults; an empty text removes all. Throws std::invalid_argument.
void inject(std::string_view text);
NRT_STATUS next_fault(FaultKind kind) noexcept;

// The status that this call must fail with; NRT_SUCCESS for none.
inline NRT_STATUS fault(FaultKind kind) noexcept {
  return faults_armed.load(std::memory_order_relaxed) ? next_fault(kind)
                                                      : NRT_SUCCESS;
}

}  // namespace neuronx::sim
