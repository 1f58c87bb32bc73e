// SPDX-License-Identifier: Apache-2.0
// What an operation carries besides its operands.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/dtype.h"

namespace neuronx::ir {

// An ATen argument that is the operation's operand number `index`. In the
// place of a Number it is a runtime scalar: a rank-0 operand, float32 for a
// floating-point Number and int64 for an integer or bool.
struct Operand {
  int32_t index;
  bool operator==(const Operand&) const = default;
};

// An ATen tensor list; -1 stands for None.
struct OperandList {
  std::vector<int32_t> indices;
  bool operator==(const OperandList&) const = default;
};

// A 0-dim CPU tensor in the place of a tensor argument, as in `x * 2`.
// `value` is its content, unless `operand` names the runtime scalar (see
// Operand) that holds it. A wrapped number does not promote, as in PyTorch.
struct NumberTensor {
  DType dtype;
  bool wrapped;
  std::variant<bool, int64_t, double> value;
  int32_t operand = -1;
  bool operator==(const NumberTensor&) const = default;
};

// monostate is None. Lists of bool are lists of int64_t (0 and 1).
using Attribute = std::variant<std::monostate,
                               bool,
                               int64_t,
                               double,
                               std::string,
                               std::vector<int64_t>,
                               std::vector<double>,
                               DType,
                               Operand,
                               OperandList,
                               NumberTensor>;

}  // namespace neuronx::ir
