// SPDX-License-Identifier: Apache-2.0
// The compile service: Program to Executable, by content.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/error.h"
#include "compiler/executable.h"
#include "ir/program.h"

namespace neuronx::compiler {

// Compiles or finds the Program. `name` is the operator it came from. The
// last `scalar_count` parameters are runtime scalars. Throws CompileError.
//
// The simulator runs Programs as they are; with TORCH_NEURONX_SIM_COMPILER=1,
// and where TORCH_NEURONX_CACHE_MISS=error forbids to compile, each is looked
// for and compiled first all the same, as hardware would, with the same caches
// and errors.
std::shared_ptr<Executable> compile(const std::string& name,
                                    ir::Program program,
                                    int scalar_count);

struct CacheStats {
  uint64_t programs = 0;  // in memory
  uint64_t memory_hits = 0;
  uint64_t disk_hits = 0;
  uint64_t compiled = 0;
  double compile_seconds = 0;
};
CacheStats cache_stats();

// A program that was new to this process.
struct NewProgram {
  const std::string& name;
  const std::string& operands;
  const std::string& serialized;  // ir::deserialize reads it
  int scalar_count;
  // "simulator" (nothing to compile), "disk", "compiled" or "failed".
  std::string_view source;
  std::string key;    // in the disk cache, else empty
  std::string error;  // of a failure
  double seconds;     // from the Program to its Executable
};
// Called for each, by the thread that compiles, with no lock held. Replaces
// the earlier callback; empty: none.
void set_new_program_callback(std::function<void(const NewProgram&)> callback);

// The executables in memory, oldest first; of one operator if `name` is not
// empty.
std::vector<std::shared_ptr<Executable>> executables(
    const std::string& name = {});

}  // namespace neuronx::compiler
