// SPDX-License-Identifier: Apache-2.0
// Elementwise StableHLO as instructions: what random operators and some
// decompositions are made of.
#include <map>
#include <string>

#include "sim/executor/pointwise/build.h"

namespace neuronx::sim::pointwise {
namespace {

using enum Opcode;

// What every kernel rounds alike: random numbers are the same in any fusion.
// (MKL's square root is not the processor's.)
const std::map<std::string, Opcode>& unary() {
  static const auto* table = new std::map<std::string, Opcode>{
      {"stablehlo.negate", Neg},
      {"stablehlo.abs", Abs},
      {"stablehlo.floor", Floor},
      {"stablehlo.ceil", Ceil},
      {"stablehlo.round_nearest_even", Round}};
  return *table;
}

const std::map<std::string, Opcode>& binary() {
  static const auto* table =
      new std::map<std::string, Opcode>{{"stablehlo.add", Add},
                                        {"stablehlo.subtract", Sub},
                                        {"stablehlo.multiply", Mul},
                                        {"stablehlo.divide", Div},
                                        {"stablehlo.maximum", Maximum},
                                        {"stablehlo.minimum", Minimum}};
  return *table;
}

std::optional<Opcode> comparison(const FlatOp& op) {
  static const std::map<std::string, Opcode> kTable{
      {"EQ", Eq}, {"NE", Ne}, {"LT", Lt}, {"LE", Le}, {"GT", Gt}, {"GE", Ge}};
  const ir::Attribute* direction = op.op->attribute("comparison_direction");
  if (op.op->name != "stablehlo.compare" || !direction)
    return std::nullopt;
  const auto found = kTable.find(std::get<std::string>(*direction));
  return found == kTable.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

bool is_primitive(const std::string& name) {
  return unary().contains(name) || binary().contains(name) ||
         name == "stablehlo.compare" || name == "stablehlo.select" ||
         name == "stablehlo.convert" || name == "stablehlo.and" ||
         name == "stablehlo.or" || name == "stablehlo.not" ||
         name == "stablehlo.shift_right_logical";
}

std::optional<Builder::Register> Builder::primitive(const FlatOp& op) {
  const std::string& name = op.op->name;
  const ir::TensorType& result = type(op.results[0]);
  const auto dtype = [&](size_t i) { return type(op.operands[i]).dtype; };
  const auto in = [&](size_t i) { return read(op.operands[i], result.shape); };
  const auto all = [&](auto&& accepts) {
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (!accepts(dtype(i)))
        return false;
    return true;
  };
  if (const auto opcode = unary().find(name); opcode != unary().end())
    return all(is_narrow) ? std::optional(emit(opcode->second, in(0)))
                          : std::nullopt;
  if (const auto opcode = binary().find(name); opcode != binary().end())
    return all(is_narrow) ? std::optional(emit(opcode->second, in(0), in(1)))
                          : std::nullopt;
  if (const auto opcode = comparison(op))
    return all(is_narrow) ? std::optional(emit(*opcode, in(0), in(1)))
                          : std::nullopt;
  if (name == "stablehlo.select" && is_narrow(result.dtype))
    return emit(Where, in(0), in(1), in(2));
  if (result.dtype == DType::Bool) {
    if (name == "stablehlo.not")
      return emit(Not, in(0));
    if (name == "stablehlo.and" || name == "stablehlo.or")
      return emit(name == "stablehlo.and" ? And : Or, in(0), in(1));
  }
  // The upper bits of a word, as random numbers are made of: 24 are exact.
  if (name == "stablehlo.shift_right_logical" && dtype(0) == DType::UInt32 &&
      !values_.contains(op.operands[0])) {
    const auto by = number_of(op.operands[1]);
    if (!by || *by < 8 || *by > 31)
      return std::nullopt;
    return read(op.operands[0], result.shape, static_cast<int8_t>(*by));
  }
  if (name == "stablehlo.convert") {
    const bool known = values_.contains(op.operands[0]);
    if (result.dtype == DType::Bool)
      return is_exact(dtype(0)) ? std::optional(emit(ToBool, in(0)))
                                : std::nullopt;
    if (is_narrow(result.dtype) && (known || is_exact(dtype(0))))
      return in(0);
    // Of the upper bits of a word.
    if (known && dtype(0) == DType::UInt32 && result.dtype == DType::Int32)
      return in(0);
  }
  return std::nullopt;
}

}  // namespace neuronx::sim::pointwise
