// SPDX-License-Identifier: Apache-2.0
// The programs of a graph's variant.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "ir/stages.h"

namespace neuronx::graph {

// Compiles `stages` and sets those of `variant`, whose `tensors` are the whole
// program's tensor parameters; `scalar_count` scalars follow these. `results`
// are the outputs that its results which overwrite no parameter fill; those
// that do come first. Throws compiler::CompileError.
void set_stages(Variant& variant,
                const std::string& name,
                const std::vector<ir::Stage>& stages,
                int scalar_count,
                const std::vector<int32_t>& results);

}  // namespace neuronx::graph
