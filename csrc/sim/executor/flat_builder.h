// SPDX-License-Identifier: Apache-2.0
// Operators that passes add to a flat program.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "sim/executor/flatten.h"

namespace neuronx::sim {

class FlatBuilder {
 public:
  explicit FlatBuilder(Flat& flat) : flat_(flat) {}

  int32_t fresh(DType dtype, ir::Shape shape);
  // Throws std::invalid_argument if the arguments do not fit the operator.
  FlatOp op(ir::Operation operation,
            std::vector<int32_t> operands,
            std::vector<int32_t> results,
            const AtenOp* aten);
  // An ATen operator with tensors as its first arguments.
  FlatOp aten(const std::string& name,
              std::vector<int32_t> operands,
              std::initializer_list<ir::Attribute> others,
              int32_t result);
  // A conversion to the dtype of `to`.
  FlatOp convert(int32_t from, int32_t to);

 private:
  Flat& flat_;
};

}  // namespace neuronx::sim
