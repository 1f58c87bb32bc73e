// SPDX-License-Identifier: Apache-2.0
// Failures of calls, and what strict mode does not survive.
#pragma once

#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "nrt/abi.h"

namespace neuronx::sim {

// Keeps the text for nrt_sim_last_error and returns the status.
NRT_STATUS fail(NRT_STATUS status, std::string text) noexcept;
const std::string& last_error() noexcept;

// What hardware would corrupt silently or crash on: aborts the process.
[[noreturn]] void abort_strict(std::string_view text) noexcept;

// TORCH_NEURONX_SIM_STRICT, read at nrt_init.
bool strict() noexcept;
void set_strict(bool strict) noexcept;

// A misuse: aborts in strict mode, else fails with the status.
NRT_STATUS misuse(NRT_STATUS status, std::string text) noexcept;

// Runs `body`; exceptions become statuses. No exception crosses the ABI.
template <typename Body>
NRT_STATUS guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return fail(NRT_RESOURCE, "the host is out of memory");
  } catch (const std::invalid_argument& error) {
    return fail(NRT_INVALID, error.what());
  } catch (const std::exception& error) {
    return fail(NRT_FAILURE, error.what());
  }
}

}  // namespace neuronx::sim
