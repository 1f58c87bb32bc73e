// SPDX-License-Identifier: Apache-2.0
#include "eager/draw.h"

#include <algorithm>

#include "lowering/lowering.h"

namespace neuronx::eager {
namespace {

using ir::Attribute;
using ir::Operand;
using ir::Value;
using ir::Values;

int32_t append(Values& operands, Value value) {
  operands.push_back(value);
  return static_cast<int32_t>(operands.size() - 1);
}

uint64_t blocks(int64_t words) {
  return static_cast<uint64_t>((words + 3) / 4);
}

// The seed behind the operands and arguments that the operator has.
std::optional<Drawn> draw_behind(ir::Builder& builder,
                                 const RandomOp& op,
                                 Values operands,
                                 std::vector<Attribute> arguments,
                                 const std::vector<ir::TensorType>& types,
                                 Value seed,
                                 Value offset) {
  std::vector<ir::TensorType> operand_types;
  for (Value operand : operands) {
    operand_types.push_back(builder.type(operand));
  }
  for (Value value : {seed, offset}) {
    arguments.emplace_back(Operand{append(operands, value)});
  }
  auto results =
      lowering::call(builder, op.lowering, operands, arguments, types);
  if (!results) {
    return std::nullopt;
  }
  return Drawn{std::move(*results), blocks(op.count(operand_types))};
}

}  // namespace

std::optional<Drawn> draw(ir::Builder& builder,
                          const RandomOp& op,
                          bool takes_tensor,
                          const Values& operands,
                          const std::vector<Attribute>& arguments,
                          const std::vector<ir::TensorType>& types,
                          Value seed,
                          Value offset) {
  if (op.count != nullptr) {
    return draw_behind(builder, op, operands, arguments, types, seed, offset);
  }
  const bool tensor =
      takes_tensor && std::holds_alternative<Operand>(arguments[0]);
  Values given{tensor ? operands[std::get<Operand>(arguments[0]).index]
                      : builder.constant(types[0].dtype, 0, types[0].shape),
               seed,
               offset};
  std::vector<Attribute> order{Operand{0}, Operand{1}, Operand{2}};
  for (int position : op.parameters) {
    Attribute value = arguments.at(position);
    if (auto* operand = std::get_if<Operand>(&value)) {
      operand->index = append(given, operands[operand->index]);
    } else if (auto* number = std::get_if<ir::NumberTensor>(&value);
               number != nullptr && number->operand >= 0) {
      number->operand = append(given, operands[number->operand]);
    }
    order.emplace_back(std::move(value));
  }
  const int64_t elements =
      std::max(builder.type(given[0]).numel(), types[0].numel());
  auto results = lowering::call(builder, op.lowering, given, order, types);
  if (!results) {
    return std::nullopt;
  }
  return Drawn{std::move(*results), blocks(op.words * elements)};
}

}  // namespace neuronx::eager
