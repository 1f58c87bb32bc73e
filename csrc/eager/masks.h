// SPDX-License-Identifier: Apache-2.0
// x[mask]: masks among indices become the positions of their true elements.
#pragma once

#include <ATen/core/stack.h>

#include "eager/op_info.h"

namespace neuronx::eager {

// A call of index or index_put with a mask among its indices, other than the
// assignment of one number, which is a select.
bool is_masked_index(const OpInfo& info, const torch::jit::Stack& stack);

// Replaces the masks in the call's list of indices. Reads their counts.
void expand_masks(const OpInfo& info, torch::jit::Stack& stack);

}  // namespace neuronx::eager
