// SPDX-License-Identifier: Apache-2.0
// Stages: a Program as several that run one after another, so that memory of
// operands which are no longer needed serves later results. A program holds
// all its operands and results from beginning to end; the backward graph of a
// deep model, which reads each saved activation once and writes each gradient
// once, would hold all of both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ir/program.h"

namespace neuronx::ir {

// `operands` and `results` are the stage's parameters and results as numbers
// of the whole program's parameters, then of its results, then of what stages
// hand on.
struct Stage {
  Program program;
  std::vector<int32_t> operands, results;
};

struct StageLimits {
  size_t stages = 8;
  // What the peak must fall by: bytes, and as a part of it.
  int64_t saving_bytes = int64_t{1} << 20;
  double saving_part = 1.0 / 128;
};

// Where to cut: indices of the operations that begin a stage, ascending, for
// the lowest peak of operands, results and what is handed on; of equal peaks
// the fewest. `dying[i]`: nothing else holds parameter i's memory. Empty if it
// saves too little, and for programs that overwrite parameters.
std::vector<size_t> choose_stages(const Program& program,
                                  const std::vector<bool>& dying,
                                  const StageLimits& limits = {});

// The stages that begin at operation 0 and at `cuts`. What depends on
// constants alone is computed in each stage that needs it. Without cuts, one
// stage: the program.
std::vector<Stage> split(const Program& program,
                         const std::vector<size_t>& cuts);

// Bytes of parameters, results and handed-on values at most held at once.
int64_t peak_bytes(const Program& program,
                   const std::vector<bool>& dying,
                   const std::vector<size_t>& cuts);

}  // namespace neuronx::ir
