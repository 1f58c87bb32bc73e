// SPDX-License-Identifier: Apache-2.0
#include "sim/executor/aten_call.h"

namespace neuronx::sim {
namespace {

constexpr c10::DispatchKeySet kCpu(c10::DispatchKey::CPU);

}  // namespace

AtenCall::AtenCall(const AtenOp& op,
                   const ir::Operation& operation,
                   const std::vector<ir::TensorType>& operands)
    : op_(op), arguments_(op.functional.schema(), operation, operands) {}

std::vector<int32_t> AtenCall::written() const {
  std::vector<int32_t> all;
  for (size_t i : op_.written)
    for (int32_t operand : arguments_.list_operands(i))
      all.push_back(operand);
  return all;
}

void AtenCall::bind(Form form, const Tensors& operands, const Tensors& outs) {
  form_ = form;
  outs_ = outs;
  handle_ = form == Form::Functional ? &op_.functional
            : form == Form::Out      ? &*op_.out
                                     : &*op_.in_place;
  arguments_.bind(operands);
  bound_.clear();
  if (form == Form::Out) {
    for (size_t i : op_.kept)
      bound_.push_back(arguments_.values()[i]);
    bound_.insert(bound_.end(), outs.begin(), outs.end());
  } else {
    bound_ = arguments_.values();
  }
  stack_.reserve(bound_.size() + op_.functional.schema().returns().size());
}

void AtenCall::call() {
  if (arguments_.has_scalars()) {
    arguments_.read_scalars();
    if (form_ == Form::Out)
      for (size_t i = 0; i < op_.kept.size(); ++i)
        bound_[i] = arguments_.values()[op_.kept[i]];
    else
      bound_ = arguments_.values();
  }
  stack_.assign(bound_.begin(), bound_.end());
  handle_->redispatchBoxed(kCpu, &stack_);
}

void AtenCall::write() {
  call();
  stack_.clear();
}

Tensors AtenCall::results() {
  call();
  Tensors results;
  for (size_t i : op_.tensor_returns) {
    const c10::IValue& value = stack_.at(i);
    if (value.isTensor())
      results.push_back(value.toTensor());
    else if (value.isTensorList())
      for (const at::Tensor& tensor : value.toTensorList())
        results.push_back(tensor);
    else
      results.emplace_back();
  }
  stack_.clear();
  return results;
}

}  // namespace neuronx::sim
