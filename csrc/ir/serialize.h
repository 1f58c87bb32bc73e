// SPDX-License-Identifier: Apache-2.0
// Programs as bytes: for the simulator's executables, caches and keys.
#pragma once

#include <cstddef>
#include <string>

#include "ir/program.h"

namespace neuronx::ir {

// Deterministic: equal programs give equal bytes, however their values are
// numbered and their bodies shared. Little endian, versioned, with checksum.
std::string serialize(const Program& program);

// A verified program, its values numbered in order of definition. Throws
// std::invalid_argument for anything that `serialize` did not write.
Program deserialize(const void* bytes, size_t size);

// Content key: SHA-256 in hexadecimal digits of everything but the names of
// the program and its bodies.
std::string digest(const Program& program);

// Bytes that are equal for two operations of `program` that compute the same
// from the same values.
std::string fingerprint(const Program& program, const Operation& op);

}  // namespace neuronx::ir
