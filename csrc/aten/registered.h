// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace neuronx::aten {

// Operators with a hand-written kernel in this folder: what is no Program.
bool is_registered(std::string_view name);

}  // namespace neuronx::aten
