// SPDX-License-Identifier: Apache-2.0
// Operators that draw random numbers, and the functional form of each.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <string>
#include <string_view>
#include <vector>

#include "ir/program.h"

namespace neuronx::eager {

struct RandomOp {
  std::string_view name;      // "aten::uniform_"
  std::string_view lowering;  // "neuronx::uniform"
  // Schema positions that follow (operand, seed, offset). The operand is
  // argument 0, or a constant of the result's type if that is no tensor.
  std::vector<int> parameters;
  // 32-bit words per element of the operand or of the result, whichever has
  // more; one Philox block has four.
  int words = 1;
  // Raises for what the tensors hold; reads them. Gets the arguments.
  void (*check)(const c10::IValue* arguments) = nullptr;
  // Schema position of the rate of operators that draw only if it is not 0.
  // Their lowering gets the schema's arguments, then seed and offset.
  int rate = -1;
  // Words of a call by its operands, where they are not those of operand 0.
  int64_t (*count)(const std::vector<ir::TensorType>& operands) = nullptr;
};

// nullptr for an operator that draws nothing (or is not in the table).
const RandomOp* find_random_op(std::string_view name);

// Raises what the CPU raises for dtypes and numbers out of range. Does not
// look at the operands' sizes.
void check_numbers_as_cpu(const struct OpInfo& info,
                          const torch::jit::Stack& stack);

// Kernels that run on the CPU only to be asked something leave its random
// numbers as they were. Does nothing if not `needed`.
class KeepRandomState {
 public:
  explicit KeepRandomState(bool needed);
  ~KeepRandomState();

 private:
  at::Tensor state_;
};

// A CPU generator whose seed is drawn from `generator`, or from the default
// one of `device`: the host's numbers follow the device's seed.
at::Generator host_generator(const std::optional<at::Generator>& generator,
                             c10::DeviceIndex device);

}  // namespace neuronx::eager
