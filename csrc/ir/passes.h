// SPDX-License-Identifier: Apache-2.0
// Passes over a Program and its bodies. Parameters and results stay as they
// are; values are renumbered in order of definition. Each returns how many
// operations it removed or changed.
#pragma once

#include <cstddef>
#include <functional>

#include "ir/program.h"

namespace neuronx::ir {

// Removes operations that no result depends on.
size_t dead_code_elimination(Program& program);

// Computes equal operations on equal operands once. All operations are pure:
// random numbers are functions of their seed and offset operands.
size_t common_subexpression_elimination(Program& program);

// Drops composites that give an operand back: views that change nothing,
// multiplication by one, two transpositions. Does not look into bodies.
size_t simplify(Program& program);

// Computes operations whose operands are small constants. Of StableHLO, not of
// composites, and not in bodies; so is the next.
size_t fold_constants(Program& program);

// Moves transpositions down through elementwise operations: two of them become
// one, or none, and dot products take their operands as they lie. Returns how
// many steps that took.
size_t sink_transposes(Program& program);

struct Pass {
  const char* name;
  size_t changes;
};
using AfterPass = std::function<void(const Pass&, const Program&)>;
// All of them, in order, on a program of many operators. `after` sees the
// program after each.
void optimize(Program& program, const AfterPass& after);

}  // namespace neuronx::ir
