// SPDX-License-Identifier: Apache-2.0
// Large results of which ATen has no out form, written where they belong: a
// result of ATen's own would cost fresh memory and another pass.
#include <ATen/ops/index_select.h>

#include "sim/executor/native.h"

namespace neuronx::sim {
namespace {

at::Tensor tensor(const ir::Operation& op, const Tensors& operands, size_t i) {
  const auto* operand = std::get_if<ir::Operand>(&op.arguments.at(i));
  return operand ? operands.at(operand->index) : at::Tensor();
}

// weight, indices, ...
void embedding(const ir::Operation& op,
               const Tensors& operands,
               const Tensors& results) {
  const at::Tensor weight = tensor(op, operands, 0);
  at::Tensor rows = results[0].view({-1, weight.size(1)});
  at::index_select_out(rows, weight, 0, tensor(op, operands, 1).view(-1));
}

}  // namespace

Writer find_writer(const ir::Operation& op,
                   const std::vector<ir::TensorType>& operands) {
  if (const Writer bounded = find_bounded_writer(op.name))
    return bounded;
  for (const ir::TensorType& type : operands)
    if (type.numel() == 0)
      return nullptr;
  const bool rows = op.name == "aten.embedding" && operands.size() == 2 &&
                    operands[0].shape.size() == 2;
  return rows ? embedding : nullptr;
}

}  // namespace neuronx::sim
