// SPDX-License-Identifier: Apache-2.0
// Composites as pointwise operators and row reductions, which fuse with each
// other and with what is around them.
#pragma once

#include "sim/executor/flatten.h"

namespace neuronx::sim {

// Whether expand may know the operation.
bool expands(const ir::Operation& op);
// Appends the operators that compute the results of `entry`, which has operands
// and results but nothing that runs it. False, with nothing done, for operands
// that do not fuse.
bool expand(const FlatOp& entry, Flat& flat);

}  // namespace neuronx::sim
