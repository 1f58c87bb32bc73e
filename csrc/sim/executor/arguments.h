// SPDX-License-Identifier: Apache-2.0
// The arguments of a composite as those of an ATen schema.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <vector>

#include "ir/program.h"
#include "sim/executor/shell.h"

namespace neuronx::sim {

// Boxed arguments with holes where operands go.
class Arguments {
 public:
  // Throws std::invalid_argument if `op` does not fit the schema. The types
  // are those of the operands.
  Arguments(const c10::FunctionSchema& schema,
            const ir::Operation& op,
            const std::vector<ir::TensorType>& operands);

  // Operand tensors, held until the next call.
  void bind(const Tensors& operands);
  // Reads the runtime scalars from the bound operands.
  void read_scalars();

  const std::vector<c10::IValue>& values() const { return values_; }
  std::vector<c10::IValue> take() && { return std::move(values_); }
  bool has_scalars() const { return !scalars_.empty(); }
  // The operand that is argument i, or -1.
  int32_t operand(size_t i) const;
  // The operands that are the elements of list argument i.
  std::vector<int32_t> list_operands(size_t i) const;

 private:
  // Where operand number `operand` goes; `element` of a list, else -1.
  struct Hole {
    size_t position;
    int64_t element;
    int32_t operand;
  };
  // A rank-0 operand read at each call; `number` is the tensor that gets it.
  struct Scalar {
    size_t position;
    int64_t element;
    int32_t operand;
    bool floating;
    at::Tensor number;
    at::Tensor source;
  };
  c10::IValue convert(const ir::Attribute& value,
                      const c10::Type& type,
                      size_t position,
                      const std::vector<ir::TensorType>& operands);
  c10::IValue list(const ir::Attribute& value,
                   const c10::Type& element,
                   size_t position,
                   const std::vector<ir::TensorType>& operands);
  c10::IValue number_tensor(ir::NumberTensor number,
                            size_t position,
                            const std::vector<ir::TensorType>& operands);

  std::vector<c10::IValue> values_;
  std::vector<Hole> holes_;
  std::vector<Scalar> scalars_;
};

}  // namespace neuronx::sim
