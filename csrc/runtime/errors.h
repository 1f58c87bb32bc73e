// SPDX-License-Identifier: Apache-2.0
// Failures of asynchronous work as the exceptions PyTorch users know.
#pragma once

#include <exception>
#include <string>

namespace neuronx::runtime {

struct Launch;

// The exception being handled, as the c10 error type of its kind
// (IndexError, OutOfMemoryError, NotImplementedError, Error...), its text
// naming the operator, its operands and, where kept, who queued it.
std::exception_ptr describe_error(const Launch& launch);

// Runs `call` and translates what it throws, prefixed by "[what] ".
[[noreturn]] void rethrow_as_torch(const std::string& what);

}  // namespace neuronx::runtime
