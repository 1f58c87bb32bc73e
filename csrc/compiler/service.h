// SPDX-License-Identifier: Apache-2.0
// The compile service: Program to Executable, by content.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "compiler/executable.h"
#include "ir/program.h"

namespace neuronx::compiler {

// Compiles or finds the Program. `name` is the operator it came from. The
// last `scalar_count` parameters are runtime scalars. Throws CompileError.
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

}  // namespace neuronx::compiler
