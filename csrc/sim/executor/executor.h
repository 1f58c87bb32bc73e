// SPDX-License-Identifier: Apache-2.0
// Executors of Programs that are not bytes.
#pragma once

#include <memory>

#include "sim/executor.h"

namespace neuronx::sim {

// As Executor::load, for a valid program. `decomposed`: composites run by
// their bodies.
std::unique_ptr<Executor> from_program(ir::Program program, bool decomposed);

}  // namespace neuronx::sim
