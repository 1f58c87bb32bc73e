// SPDX-License-Identifier: Apache-2.0
// The bound on every wait for the device.
#pragma once

#include <chrono>
#include <string>

namespace neuronx::runtime {

// TORCH_NEURONX_SYNC_TIMEOUT, seconds; 1800 by default.
std::chrono::seconds sync_timeout();
std::string sync_timeout_message();

}  // namespace neuronx::runtime
