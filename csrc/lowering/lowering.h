// SPDX-License-Identifier: Apache-2.0
// The lowering table: ATen operators, by functional overload, to Programs.
#pragma once

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "ir/builder.h"

namespace neuronx::lowering {

using ir::Value;
using Values = std::vector<Value>;

// One operator call while it is lowered. Indices are positions of the ATen
// schema's arguments (without `out`).
class Op {
 public:
  Op(ir::Builder& builder,
     std::string_view name,
     const Values& operands,
     const std::vector<ir::Attribute>& arguments,
     const std::vector<ir::TensorType>& results,
     std::vector<bool> strided = {});

  ir::Builder& b;

  std::string_view name() const { return name_; }
  int argument_count() const;
  // Not None.
  bool has(int i) const;
  // Tensor argument i. A NumberTensor becomes a rank-0 constant of its dtype.
  Value in(int i) const;
  // Tensor argument i converted to `dtype`; numbers are folded.
  Value in(int i, DType dtype) const;
  // Tensor list argument i; None entries are Value{}.
  Values list(int i) const;
  // Number argument i as a rank-0 value of `dtype`: constant or runtime.
  Value scalar(int i, DType dtype) const;

  // Static arguments. Throw NeedsConstant where the argument is a runtime
  // scalar; the caller then bakes its value in.
  double number(int i) const;
  int64_t integer(int i) const;
  bool flag(int i) const;
  std::vector<int64_t> ints(int i) const;
  std::string string(int i) const;
  DType dtype(int i) const;
  // The raw argument.
  const ir::Attribute& argument(int i) const;

  // dtype and shape of tensor argument i, or of result k as PyTorch's meta
  // function gives it.
  ir::TensorType type(int i) const;
  // Tensor argument i is not read through strides. Only for operators whose
  // results depend on it.
  bool contiguous(int i) const;
  const ir::TensorType& result(int k = 0) const;
  int result_count() const;

  // PyTorch's type promotion over the given arguments (tensors, 0-dim tensors,
  // numbers), as in torch.result_type.
  DType promoted(std::initializer_list<int> arguments) const;

 private:
  std::string name_;
  const Values& operands_;
  const std::vector<ir::Attribute>& arguments_;
  const std::vector<ir::TensorType>& results_;
  std::vector<bool> strided_;  // by operand; empty if none is
};

struct NeedsConstant : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A lowering refuses a form that it cannot express by throwing Unsupported
// (say why); the next of the resolution order is tried.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using Lowering = std::function<Values(Op&)>;

// Registers a lowering for "aten::addmm" (the default overload) or
// "aten::add.Tensor". Returns true, to initialise a namespace-scope constant.
bool lower(std::string_view name, Lowering lowering);

bool has_lowering(std::string_view name);
std::vector<std::string> lowered_names();

// Adds the composite for one call to `builder`, with its decomposition from
// the table. nullopt if the table has no entry; throws Unsupported or
// NeedsConstant as the lowering does. A result whose type differs from
// `results` is an internal error.
std::optional<Values> call(ir::Builder& builder,
                           std::string_view name,
                           const Values& operands,
                           const std::vector<ir::Attribute>& arguments,
                           const std::vector<ir::TensorType>& results);

}  // namespace neuronx::lowering
