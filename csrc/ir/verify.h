// SPDX-License-Identifier: Apache-2.0
// Verifier: what the builder guarantees, for programs from elsewhere.
#pragma once

#include "ir/program.h"

namespace neuronx::ir {

// Throws std::invalid_argument, naming the operation, unless every value is
// defined once and before its use, every result type is the inferred one,
// aliased results and parameters agree, and all bodies are valid.
void verify(const Program& program);

}  // namespace neuronx::ir
