// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace neuronx::aten {

// Composites of core that end in the kernels of this folder and take a device:
// they need no kernel of their own.
bool is_composite(std::string_view name);

}  // namespace neuronx::aten
