// SPDX-License-Identifier: Apache-2.0
// Body: a branch, or a loop's condition or step, planned once as a program is.
#pragma once

#include <memory>
#include <vector>

#include "ir/program.h"
#include "sim/executor.h"
#include "sim/executor/shell.h"

namespace neuronx::sim {

class Body {
 public:
  // A step's results overwrite its parameters, one by one.
  enum class Kind { Branch, Step };
  Body(const ir::Program& region, Kind kind, bool decomposed);

  // Operands of the region's own types: a lifted one gets larger ones.
  bool takes(const Tensors& operands) const;

  // Of a branch. A result that is an operand is that operand.
  Tensors run(const Tensors& operands);
  // Of a step: a copy of what run() will overwrite.
  Tensors state(const Tensors& operands) const;
  void advance(Tensors& state);

 private:
  const std::vector<ir::TensorType> types_;  // of the region's parameters
  // By result of the region: the parameter that it is, or -1.
  std::vector<int32_t> same_;
  std::unique_ptr<Executor> executor_;  // of the other results
  std::vector<void*> inputs_, outputs_;
};

}  // namespace neuronx::sim
