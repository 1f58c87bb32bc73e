// SPDX-License-Identifier: Apache-2.0
// Comparisons, logic, and what chooses by comparing.
#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

using ir::Builder;
using ir::Compare;

std::pair<Value, Value> operands(Op& op, DType dtype) {
  const Value a = op.scalar(0, dtype);
  return broadcast_pair(op.b, a, op.scalar(1, dtype));
}

// The operand that is a number, if only one is; NaN if both are.
Value ignoring_nan(Builder& b, Value a, Value c, const char* hlo) {
  const Value chosen = b.binary(hlo, a, c);
  return b.select(is_nan(b, a), c, b.select(is_nan(b, c), a, chosen));
}

Value heaviside(Builder& b, Value x, Value at_zero) {
  // 0 for NaN, as ATen's CPU kernel has it.
  const Value step = b.select(
      compare(b, Compare::GT, x, 0), fill_like(b, x, 1), fill_like(b, x, 0));
  return b.select(compare(b, Compare::EQ, x, 0), at_zero, step);
}

const bool registered = [] {
  for (const auto& [name, direction] : {std::pair{"eq", Compare::EQ},
                                        {"ne", Compare::NE},
                                        {"lt", Compare::LT},
                                        {"le", Compare::LE},
                                        {"gt", Compare::GT},
                                        {"ge", Compare::GE}}) {
    for (const char* overload : {".Tensor", ".Scalar"}) {
      lower(std::string("aten::") + name + overload,
            [direction](Op& op) -> Values {
              const auto [a, c] = operands(op, op.promoted({0, 1}));
              return {op.b.compare(direction, a, c)};
            });
    }
  }
  for (const auto& [name, hlo] : {std::pair{"logical_and", "and"},
                                  {"logical_or", "or"},
                                  {"logical_xor", "xor"}}) {
    lower(std::string("aten::") + name,
          [hlo = std::string(hlo)](Op& op) -> Values {
            const Value first = truth(op.b, op.in(0));
            const auto [a, c] =
                broadcast_pair(op.b, first, truth(op.b, op.in(1)));
            return {op.b.binary(hlo, a, c)};
          });
  }
  // NaN in either operand wins, in StableHLO as in ATen.
  for (const char* hlo : {"maximum", "minimum"}) {
    lower(std::string("aten::") + hlo,
          [hlo = std::string(hlo)](Op& op) -> Values {
            const auto [a, c] = operands(op, op.promoted({0, 1}));
            return {op.b.binary(hlo, a, c)};
          });
  }
  for (const auto& [name, hlo] :
       {std::pair{"fmax", "maximum"}, {"fmin", "minimum"}}) {
    lower(std::string("aten::") + name, [hlo](Op& op) -> Values {
      const auto [a, c] = operands(op, op.promoted({0, 1}));
      return {ignoring_nan(op.b, a, c, hlo)};
    });
  }
  lower("aten::heaviside", [](Op& op) -> Values {
    const auto [x, values] = operands(op, op.promoted({0, 1}));
    return {heaviside(op.b, x, values)};
  });
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
