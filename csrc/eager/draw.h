// SPDX-License-Identifier: Apache-2.0
// Programs of operators that draw random numbers.
#pragma once

#include <optional>
#include <vector>

#include "eager/random.h"
#include "ir/builder.h"

namespace neuronx::eager {

struct Drawn {
  ir::Values results;
  uint64_t blocks = 0;  // of Philox numbers that it uses up
};

// Adds the operator's program to `builder`. `arguments` are the schema's, and
// refer to `operands`; `takes_tensor`: the first is a tensor that it reads.
// `seed` and `offset`: int64[]. nullopt if it has no lowering.
std::optional<Drawn> draw(ir::Builder& builder,
                          const RandomOp& op,
                          bool takes_tensor,
                          const ir::Values& operands,
                          const std::vector<ir::Attribute>& arguments,
                          const std::vector<ir::TensorType>& types,
                          ir::Value seed,
                          ir::Value offset);

}  // namespace neuronx::eager
