// SPDX-License-Identifier: Apache-2.0
// Regions of pointwise operators and reductions that run in one pass over
// cache-sized blocks (pointwise/code.h) instead of one pass over memory each.
#pragma once

#include "sim/executor/flatten.h"
#include "sim/executor/pointwise/build.h"
#include "sim/executor/shell.h"

namespace neuronx::sim {

// Replaces operators of one number of elements that depend on nothing between
// them by one, which takes the place of the first, with sums and the like over
// their last dimensions; and such regions that follow each other row by row by
// one (pointwise::Stack).
void fuse(Flat& flat);

// The second half of fuse: stacks the regions.
void stack(Flat& flat);

// A view with the elements of its operand in the same order.
bool keeps_order(const FlatOp& op, const Flat& flat);

// Whether a reduction of rows of so many of the numbers joins regions.
bool fuses_rows(int64_t numel, int64_t columns);

struct FusedStep {
  pointwise::Stack stack;
  Tensors operands, results;
  std::vector<const void*> from;
  std::vector<void*> to;

  void operator()();
};

}  // namespace neuronx::sim
