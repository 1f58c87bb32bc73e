// SPDX-License-Identifier: Apache-2.0
// PyTorch's own decompositions as Programs, traced by a registered callback.
#pragma once

#include <ATen/core/stack.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "eager/op_info.h"
#include "ir/builder.h"

namespace neuronx::eager {

// Builds the decomposition of `functional` in `body`, whose parameters are
// `operands` (tensors in order of appearance). `arguments`: the functional
// overload's, with meta tensors for operands. nullopt when there is none.
using DecomposeCallback =
    std::function<std::optional<ir::Values>(ir::Builder& body,
                                            const std::string& functional,
                                            const torch::jit::Stack& arguments,
                                            const ir::Values& operands)>;

void set_decompose_callback(DecomposeCallback callback);
// Whether there is a callback: without Python there is none.
bool can_decompose() noexcept;

// Appends the composite of one call by its decomposition. Takes the callback
// for the duration only; no lock is held.
std::optional<ir::Values> decompose(ir::Builder& builder,
                                    const OpInfo& info,
                                    const torch::jit::Stack& stack,
                                    const ir::Values& operands,
                                    const std::vector<ir::Attribute>& arguments,
                                    const std::vector<ir::TensorType>& results);

}  // namespace neuronx::eager
