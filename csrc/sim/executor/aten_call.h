// SPDX-License-Identifier: Apache-2.0
// One call of an ATen operator, prepared once and repeated.
#pragma once

#include <ATen/core/stack.h>

#include "sim/executor/arguments.h"
#include "sim/executor/aten_op.h"

namespace neuronx::sim {

enum class Form { Functional, Out, InPlace };

class AtenCall {
 public:
  // Throws std::invalid_argument if the operation's arguments do not fit.
  AtenCall(const AtenOp& op,
           const ir::Operation& operation,
           const std::vector<ir::TensorType>& operands);

  // The operand in the place of argument 0, or -1.
  int32_t self() const { return arguments_.operand(0); }
  // Of each result, the operand that the in-place form puts it into. Empty
  // unless it writes lists.
  std::vector<int32_t> written() const;

  // Operands of the following calls; `outs` are the results of an Out form.
  void bind(Form form, const Tensors& operands, const Tensors& outs = {});
  // Writes the bound results. For the Out and InPlace forms.
  void write();
  // The tensor results in order, lists flattened. For the functional form.
  Tensors results();

 private:
  void call();

  const AtenOp& op_;
  Arguments arguments_;
  const c10::OperatorHandle* handle_ = nullptr;
  Form form_ = Form::Functional;
  Tensors outs_;
  torch::jit::Stack bound_, stack_;
};

}  // namespace neuronx::sim
