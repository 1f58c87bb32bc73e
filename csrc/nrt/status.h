// SPDX-License-Identifier: Apache-2.0
// Status codes of the runtime as names, sentences and C++ exceptions.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "nrt/abi.h"

namespace neuronx::nrt {

class NrtError : public std::runtime_error {
 public:
  NrtError(NRT_STATUS code, const std::string& message)
      : std::runtime_error(message), code(code) {}
  const NRT_STATUS code;
};

struct InvalidArgument : NrtError {
  using NrtError::NrtError;
};
struct OutOfMemory : NrtError {
  using NrtError::NrtError;
};
struct Timeout : NrtError {
  using NrtError::NrtError;
};
// The device or its links failed; the process must restart, or the host.
struct HardwareError : NrtError {
  using NrtError::NrtError;
};
struct QueueFull : NrtError {
  using NrtError::NrtError;
};
// Before nrt_init, after nrt_close, or no usable library.
struct NotRunning : NrtError {
  using NrtError::NrtError;
};
struct LoadError : NrtError {
  using NrtError::NrtError;
};
struct ExecutionError : NrtError {
  using NrtError::NrtError;
};
struct NumericalError : ExecutionError {
  using ExecutionError::ExecutionError;
};
struct IndexOutOfRange : ExecutionError {
  using ExecutionError::ExecutionError;
};

// "NRT_RESOURCE"; "unknown status 77" for a code that has no name.
std::string name(NRT_STATUS status);
// What happened and what to do, one or two sentences.
std::string_view explain(NRT_STATUS status);

// Throws the exception of the status:
// "[what] explanation (NRT_RESOURCE, status 4): the runtime's own words".
[[noreturn]] void raise(NRT_STATUS status, std::string_view what);

inline void check(NRT_STATUS status, std::string_view what) {
  if (status != NRT_SUCCESS) [[unlikely]] {
    raise(status, what);
  }
}

}  // namespace neuronx::nrt
