// SPDX-License-Identifier: Apache-2.0
// neuronx-cc as a child process, behind a disk cache of NEFFs.
#pragma once

#include <stdexcept>
#include <string>

#include "ir/program.h"

namespace neuronx::compiler {

// The compiler is missing, failed or timed out. The text has the compiler's
// own error lines and says what to do.
struct CompileError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The NEFF of a Program, in the form that the hardware takes (see
// ir/hardware.h; TORCH_NEURONX_NATIVE_INT64 and TORCH_NEURONX_CUSTOM_CALLS
// choose among forms), from the cache in TORCH_NEURONX_NEFF_CACHE_DIR or
// the compiler. `from_disk` tells which.
std::string neff(const std::string& name,
                 const ir::Program& program,
                 bool* from_disk);

// Runs the compiler (TORCH_NEURONX_CC, else neuronx-cc on PATH) on StableHLO
// text and returns the NEFF's bytes. `target`: "trn2" or "trn3"; `lnc`: 1, 2.
std::string run_compiler(const std::string& stablehlo,
                         const std::string& target,
                         int lnc);

}  // namespace neuronx::compiler
