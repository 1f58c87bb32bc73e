// SPDX-License-Identifier: Apache-2.0
// Rewriting a Program, operation by operation.
#pragma once

#include <functional>
#include <optional>

#include "ir/builder.h"

namespace neuronx::ir {

// The results in the new program of `op`, whose operands there are `operands`;
// nothing: the operation is copied.
using Emit = std::function<std::optional<Values>(
    Builder& b, const Operation& op, const Values& operands)>;

// The program as `emit` writes it. Bodies stay as they are.
Program rebuild(const Program& program, const Emit& emit);

// Appends a copy of `op` on other operands; `types` as in Builder::append.
Values copy(Builder& b,
            const Operation& op,
            const Values& operands,
            std::vector<TensorType> types);

}  // namespace neuronx::ir
