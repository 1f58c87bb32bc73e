// SPDX-License-Identifier: Apache-2.0
// Operations that only look differently at their operand's memory.
#pragma once

#include <optional>
#include <vector>

#include "sim/executor/flatten.h"

namespace neuronx::sim {

// Where the results of `op` are when operand 0 is at `operand`; nullopt if
// the operation has to compute or copy. `types` as in Flat.
std::optional<std::vector<Location>> view(
    const FlatOp& op,
    const Location& operand,
    const std::vector<ir::TensorType>& types);

}  // namespace neuronx::sim
