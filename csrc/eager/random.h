// SPDX-License-Identifier: Apache-2.0
// Operators that draw random numbers, and the functional form of each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/program.h"

namespace neuronx::eager {

struct RandomOp {
  std::string_view name;      // "aten::uniform_"
  std::string_view lowering;  // "neuronx::uniform"
  // Schema positions that follow (operand, seed, offset).
  std::vector<int> parameters;
  // 32-bit words per element of the operand; one Philox block has four.
  int words = 1;
  // Schema position of the rate of operators that draw only if it is not 0.
  // Their lowering gets the schema's arguments, then seed and offset.
  int rate = -1;
  // Words of a call by its operands, where they are not those of operand 0.
  int64_t (*count)(const std::vector<ir::TensorType>& operands) = nullptr;
};

// nullptr for an operator that draws nothing (or is not in the table).
const RandomOp* find_random_op(std::string_view name);

}  // namespace neuronx::eager
