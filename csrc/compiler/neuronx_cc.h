// SPDX-License-Identifier: Apache-2.0
// neuronx-cc as a child process.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/error.h"
#include "compiler/files.h"

namespace neuronx::compiler {

struct Target {
  std::string chip;  // "trn2" or "trn3"
  int lnc = 2;       // physical cores per logical core, 1 or 2
};

struct Compiler {
  std::string program;  // its path
  // "2.28.7631.0+a1b2c3d4", fit for file names. Of a program that does not
  // tell its version, a digest.
  std::string version;
};

// TORCH_NEURONX_CC, else neuronx-cc on PATH; nullopt if there is none. Its
// version is asked once and noted in `notes`, by the file's path, size and
// time.
std::optional<Compiler> find_compiler(const fs::path& notes);
// "the compiler 'neuronx-cc' is not there" and what to do.
std::string missing_compiler();

// NEURON_CC_FLAGS as a shell would split it, without those that only the XLA
// line's framework knows.
std::vector<std::string> user_flags();

// Who sets the compiler's option himself decides.
struct NativeInt64 {
  bool enabled;
  bool set_by_user;
};
NativeInt64 native_int64();

// Makes a serialised HloModuleProto of StableHLO text; nullopt where jaxlib is
// missing. Throws when the text is no valid program. Not set without Python.
using HloConverter =
    std::function<std::optional<std::string>(const std::string&)>;
void set_hlo_converter(HloConverter converter);

// TORCH_NEURONX_COMPILE_TIMEOUT.
std::chrono::seconds compile_limit();

struct CompilerFailed : CompileError {
  CompilerFailed(const std::string& text, bool lasting, int64_t limit)
      : CompileError(text), lasting(lasting), limit(limit) {}
  bool lasting;   // the next attempt would fail too
  int64_t limit;  // seconds that it was given, when that was too little
};

struct Compilation {
  std::string neff;
  std::string input;  // what the compiler took: "hlo" or "stablehlo"
};

// Compiles StableHLO text. The documented input is an HLO proto; StableHLO is
// given where no proto can be made or the compiler refuses protos, which is
// noted per version. TORCH_NEURONX_CC_INPUT=hlo|stablehlo decides instead.
// Throws CompilerFailed, Cancelled.
Compilation run_compiler(const Compiler& compiler,
                         const std::string& stablehlo,
                         const Target& target);

}  // namespace neuronx::compiler
