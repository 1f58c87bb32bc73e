// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

namespace neuronx::compiler {

// The compiler is missing, failed or timed out. The text has the compiler's
// own error lines and says what to do.
struct CompileError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// cancel() or an interrupt ended a compilation. Never remembered as a failure.
struct Cancelled : CompileError {
  using CompileError::CompileError;
};

}  // namespace neuronx::compiler
