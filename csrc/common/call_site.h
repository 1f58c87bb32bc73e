// SPDX-License-Identifier: Apache-2.0
// The line of the user's Python that is running, for messages. To ask costs
// microseconds and takes the GIL: the caller must hold no lock.
#pragma once

#include <functional>
#include <string>

namespace neuronx {

// "train.py:12"; empty if unknown.
std::string call_site();

// What answers; the bindings know Python.
void set_call_site(std::function<std::string()> callback);

}  // namespace neuronx
