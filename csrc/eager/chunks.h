// SPDX-License-Identifier: Apache-2.0
// Operators over lists of tensors, element by element: foreach and fused ones.
#pragma once

#include <ATen/core/stack.h>

#include "eager/op_info.h"

namespace neuronx::eager {

// Runs a call whose lists are longer than one program takes, or which mixes
// devices, by calls that are neither. Returns false, the stack untouched, if
// there is no need.
bool run_in_chunks(OpInfo& info, torch::jit::Stack* stack);

}  // namespace neuronx::eager
