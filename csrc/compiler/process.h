// SPDX-License-Identifier: Apache-2.0
// Another program, run to its end.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace neuronx::compiler {

struct Exit {
  int code = 0;
  int signal = 0;          // that killed it, or 0
  bool timed_out = false;  // and was killed
  std::string output;      // of stdout and stderr
  bool success() const { return code == 0 && signal == 0 && !timed_out; }
};

// Runs `arguments` (the first is the program's path) in `directory`, with its
// output in `directory`/compiler.log. The program and what it started are
// killed at the limit, on cancellation, and when the calling thread dies.
// Throws CompileError if it cannot be started, and Cancelled.
Exit run(const std::vector<std::string>& arguments,
         const std::filesystem::path& directory,
         std::chrono::seconds limit);

// The program of that name: a path, or looked for on PATH. Empty if there is
// none that can be executed.
std::string find_program(const std::string& name);

}  // namespace neuronx::compiler
