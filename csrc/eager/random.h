// SPDX-License-Identifier: Apache-2.0
// Operators that draw random numbers, and the functional form of each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace neuronx::eager {

struct RandomOp {
  std::string_view name;      // "aten::uniform_"
  std::string_view lowering;  // "neuronx::uniform"
  // Schema positions that follow (operand, seed, offset).
  std::vector<int> parameters;
  // 32-bit words per element of the operand; one Philox block has four.
  int words = 1;
};

// nullptr for an operator that draws nothing (or is not in the table).
const RandomOp* find_random_op(std::string_view name);

}  // namespace neuronx::eager
