// SPDX-License-Identifier: Apache-2.0
// Passes over a Program and its bodies. Parameters and results stay as they
// are; values are renumbered in order of definition. Each returns how many
// operations it removed.
#pragma once

#include <cstddef>

#include "ir/program.h"

namespace neuronx::ir {

// Removes operations that no result depends on.
size_t dead_code_elimination(Program& program);

// Computes equal operations on equal operands once. All operations are pure:
// random numbers are functions of their seed and offset operands.
size_t common_subexpression_elimination(Program& program);

}  // namespace neuronx::ir
