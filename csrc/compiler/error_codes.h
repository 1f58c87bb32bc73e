// SPDX-License-Identifier: Apache-2.0
// The errors that neuronx-cc documents: what they mean and what to do.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace neuronx::compiler {

struct ErrorCode {
  std::string_view code;  // "EVRF013", which the compiler writes NCC_EVRF013
  std::string_view cause;
  std::string_view remedy;
};
std::span<const ErrorCode> error_codes();

// A line for each code in the compiler's output: "NCC_EVRF013: cause. What to
// do: remedy". Codes that are not documented are told as such. Empty when
// there is none.
std::string explain(std::string_view output);

// The failure is the machine's and not the program's (memory, disk, a kill):
// the same compilation may succeed later.
bool transient(std::string_view output);

}  // namespace neuronx::compiler
