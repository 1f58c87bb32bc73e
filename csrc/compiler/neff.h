// SPDX-License-Identifier: Apache-2.0
// The NEFF of a Program: from a cache, or by the compiler.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/neuronx_cc.h"
#include "ir/program.h"

namespace neuronx::compiler {

struct Neff {
  std::string bytes;
  std::string key;        // of the program and all that shapes its NEFF
  std::string version;    // of the compiler that made it
  bool compiled = false;  // and not found
  bool kept = false;      // in a cache, where it is found again
  double seconds = 0;     // that the compiler took
};

// What this machine runs; NEURON_PLATFORM_TARGET_OVERRIDE names another chip.
Target default_target();

// The NEFF of a Program in the form that the hardware takes (ir/hardware.h;
// TORCH_NEURONX_NATIVE_INT64 and TORCH_NEURONX_CUSTOM_CALLS choose among
// forms). `name` is the operator. `kernels` are digests of kernel files that
// the program calls.
//
// Looked for in TORCH_NEURONX_NEFF_LOCAL_CACHE_DIR, which gets a copy of what
// is found elsewhere, TORCH_NEURONX_NEFF_CACHE_DIR and the folders of
// TORCH_NEURONX_NEFF_CACHE_READONLY_DIRS, of this machine's compiler's
// version or, where there is no compiler or none may run, of any. Else
// compiled, once for all processes that share the cache, unless
// TORCH_NEURONX_CACHE_MISS=error. Throws CompileError, which names operator,
// operands and call site.
Neff neff(const std::string& name,
          const ir::Program& program,
          const Target& target,
          const std::vector<std::string>& kernels = {});

// "float32[2, 3], float32[5, 4] with strides [1, 5]"
std::string describe_operands(const ir::Program& program);

// False: TORCH_NEURONX_CACHE_MISS=error.
bool may_compile();
// Settings of the cache.
fs::path cache_directory();
fs::path local_cache_directory();  // or empty
std::vector<fs::path> readonly_cache_directories();
int64_t cache_limit();     // bytes, -1 for none
int64_t failure_memory();  // seconds that failures are remembered

}  // namespace neuronx::compiler
