// SPDX-License-Identifier: Apache-2.0
// Numbers among the arguments of a composite.
#pragma once

#include <optional>

#include "ir/attribute.h"

namespace neuronx::ir {

// The number that an argument is known to be, in the place of a Number or of
// a tensor; nothing for operands, runtime scalars and all else.
std::optional<double> number(const Attribute& attribute);

}  // namespace neuronx::ir
