// SPDX-License-Identifier: Apache-2.0
// How many compilers run at a time on this machine, in all processes of a
// user.
#pragma once

#include <optional>

#include "compiler/files.h"

namespace neuronx::compiler {

// TORCH_NEURONX_COMPILE_JOBS, else as many as there are cores for this process
// and 4 GiB of memory each, at least 1.
int compile_jobs();

// Permission to run a compiler, for the scope's life. Waits for a place and,
// unless TORCH_NEURONX_COMPILE_JOBS is set or no compiler runs, for 4 GiB of
// free memory. Throws Cancelled.
class Slot {
 public:
  Slot();

 private:
  std::optional<FileLock> lock_;
};

}  // namespace neuronx::compiler
