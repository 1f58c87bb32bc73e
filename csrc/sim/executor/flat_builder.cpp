// SPDX-License-Identifier: Apache-2.0
#include "sim/executor/flat_builder.h"

#include <utility>

namespace neuronx::sim {

int32_t FlatBuilder::fresh(DType dtype, ir::Shape shape) {
  flat_.types.push_back({dtype, std::move(shape)});
  return static_cast<int32_t>(flat_.types.size() - 1);
}

FlatOp FlatBuilder::op(ir::Operation operation,
                       std::vector<int32_t> operands,
                       std::vector<int32_t> results,
                       const AtenOp* aten) {
  operation.bodies.clear();
  flat_.own.push_back(std::move(operation));
  FlatOp op;
  op.op = &flat_.own.back();
  op.operands = std::move(operands);
  op.results = std::move(results);
  op.aten = aten;
  if (aten) {
    std::vector<ir::TensorType> types;
    for (int32_t v : op.operands)
      types.push_back(flat_.types[v]);
    op.call = std::make_shared<AtenCall>(*aten, *op.op, types);
  }
  return op;
}

FlatOp FlatBuilder::aten(const std::string& name,
                         std::vector<int32_t> operands,
                         std::initializer_list<ir::Attribute> others,
                         int32_t result) {
  ir::Operation operation{.name = name};
  for (size_t i = 0; i < operands.size(); ++i)
    operation.arguments.push_back(ir::Operand{static_cast<int32_t>(i)});
  operation.arguments.insert(operation.arguments.end(), others);
  return op(
      std::move(operation), std::move(operands), {result}, find_aten_op(name));
}

FlatOp FlatBuilder::convert(int32_t from, int32_t to) {
  return aten("aten._to_copy", {from}, {flat_.types[to].dtype}, to);
}

}  // namespace neuronx::sim
