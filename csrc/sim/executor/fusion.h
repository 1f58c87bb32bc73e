// SPDX-License-Identifier: Apache-2.0
// Regions of pointwise operators that run in one pass over cache-sized blocks
// (pointwise/code.h) instead of one pass over memory each.
#pragma once

#include "sim/executor/flatten.h"
#include "sim/executor/pointwise/build.h"
#include "sim/executor/shell.h"

namespace neuronx::sim {

// Replaces operators of one number of elements that depend on nothing between
// them by one, which takes the place of the first.
void fuse(Flat& flat);

struct FusedStep {
  pointwise::Code code;
  Tensors operands, results;
  std::vector<const void*> from;
  std::vector<void*> to;

  void operator()();
};

}  // namespace neuronx::sim
