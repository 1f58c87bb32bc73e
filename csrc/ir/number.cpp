// SPDX-License-Identifier: Apache-2.0
#include "ir/number.h"

namespace neuronx::ir {

std::optional<double> number(const Attribute& attribute) {
  if (const auto* v = std::get_if<double>(&attribute))
    return *v;
  if (const auto* v = std::get_if<int64_t>(&attribute))
    return static_cast<double>(*v);
  if (const auto* v = std::get_if<bool>(&attribute))
    return *v;
  if (const auto* v = std::get_if<NumberTensor>(&attribute);
      v && v->operand < 0)
    return std::visit([](auto x) { return static_cast<double>(x); }, v->value);
  return std::nullopt;
}

}  // namespace neuronx::ir
