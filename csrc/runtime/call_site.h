// SPDX-License-Identifier: Apache-2.0
// The line of Python that queued a piece of work, for the messages of failures
// that come later. Kept under TORCH_NEURONX_DEBUG=1 only: to ask costs
// microseconds and takes the GIL.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace neuronx::runtime {

// TORCH_NEURONX_DEBUG is set.
bool call_sites_kept();

// "train.py:12", or why there is none. The caller must hold no lock.
std::string call_site();

// What answers; the bindings know Python.
void set_call_site_callback(std::function<std::string()> callback);

}  // namespace neuronx::runtime
