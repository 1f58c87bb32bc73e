// SPDX-License-Identifier: Apache-2.0
// Composites with an implementation of their own.
#pragma once

#include <string_view>
#include <vector>

#include "ir/program.h"
#include "sim/executor/shell.h"

namespace neuronx::sim {

using Native = Tensors (*)(const ir::Operation& op, const Tensors& operands);

// nullptr if there is none for this operation and its arguments.
Native find_native(const ir::Operation& op);

// Writes results that are contiguous and overlap no operand; the operands are
// contiguous too.
using Writer = void (*)(const ir::Operation& op,
                        const Tensors& operands,
                        const Tensors& results);

// nullptr if there is none for this operation, its arguments and operands.
Writer find_writer(const ir::Operation& op,
                   const std::vector<ir::TensorType>& operands);

// For the composites of lowering/bounded.cpp, else nullptr.
Native find_bounded(std::string_view name);
Writer find_bounded_writer(std::string_view name);
Tensors philox(const ir::Operation& op, const Tensors& operands);
// Throws std::out_of_range, see ir::Builder::check_index.
Tensors check_index(const ir::Operation& op, const Tensors& operands);
Tensors attention(const ir::Operation& op, const Tensors& operands);
Tensors attention_backward(const ir::Operation& op, const Tensors& operands);
// Whether the arguments allow it.
bool attention_fits(const ir::Operation& op);

// Words 0..n-1 of Philox 4x32-10, see ir::Builder::philox.
void philox(uint64_t seed, uint64_t offset, uint32_t* words, int64_t n);

}  // namespace neuronx::sim
