// SPDX-License-Identifier: Apache-2.0
// Programs as text.
#pragma once

#include <string>

#include "ir/program.h"

namespace neuronx::ir {

struct PrintOptions {
  // Print composites as stablehlo.composite with a private decomposition
  // function, instead of expanding them in place.
  bool composites = false;
  // Mark parameters that results overwrite with tf.aliasing_output.
  bool aliases = false;
};

// A StableHLO module whose function @main is the program.
std::string to_stablehlo(const Program& program, PrintOptions options = {});

// For people: one line per operation, composites by name with their arguments.
std::string to_string(const Program& program);

}  // namespace neuronx::ir
