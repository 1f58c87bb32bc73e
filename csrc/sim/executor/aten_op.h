// SPDX-License-Identifier: Apache-2.0
// The ATen operator behind a composite's name and its other call forms.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>
#include <vector>

namespace neuronx::sim {

struct AtenOp {
  explicit AtenOp(c10::OperatorHandle handle) : functional(handle) {}

  c10::OperatorHandle functional;
  // Writes into given results; `kept` are the positions of the functional
  // schema's arguments that it takes, in order, before the results.
  std::optional<c10::OperatorHandle> out;
  std::vector<size_t> kept;
  // Writes into argument 0, or into the lists at `written`, which are then the
  // results in order: foreach and fused operators.
  std::optional<c10::OperatorHandle> in_place;
  std::vector<size_t> written;
  bool pointwise = false;
  // Its results are views of argument 0.
  bool view = false;
  // Positions of the tensor results among all results.
  std::vector<size_t> tensor_returns;
};

// The operator of "aten.add.Tensor", "aten.mm" or "aten.mm.default". nullptr
// if there is none, if the CPU has no kernel, or if a composite must not call
// it: operators that draw random numbers or write their arguments.
const AtenOp* find_aten_op(const std::string& name);

}  // namespace neuronx::sim
