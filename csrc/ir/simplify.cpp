// SPDX-License-Identifier: Apache-2.0
// Composites that give their operand back: programs have no memory, so views
// that change neither type nor order are nothing.
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "ir/number.h"
#include "ir/passes.h"

namespace neuronx::ir {
namespace {

using Names = std::set<std::string_view>;

std::string_view base_name(const Operation& op) {
  std::string_view name = op.name;
  if (name.ends_with(".default")) {
    name.remove_suffix(8);
  }
  return name;
}

const Operand* operand(const Operation& op, size_t i) {
  return i < op.arguments.size() ? std::get_if<Operand>(&op.arguments[i])
                                 : nullptr;
}

// A number that is known, in the place of a number or a tensor.
std::optional<double> number(const Operation& op, size_t i) {
  if (i >= op.arguments.size()) {
    return std::nullopt;
  }
  return number(op.arguments[i]);
}

// Nothing but a view of argument 0 if that has the result's type. Copies stay:
// the simulator looks at views of memory, and a copy makes it dense.
bool is_view(const Operation& op) {
  static const Names names{"aten.alias",
                           "aten.detach",
                           "aten.view",
                           "aten._unsafe_view",
                           "aten.reshape",
                           "aten.expand",
                           "aten.expand_as",
                           "aten.slice.Tensor",
                           "aten.narrow",
                           "aten.squeeze",
                           "aten.squeeze.dim",
                           "aten.squeeze.dims",
                           "aten.view.dtype"};
  return names.contains(base_name(op));
}

// x * 1, x / 1 and x - 0 are x, whatever x is; x + 0 is not, for x = -0.
bool is_neutral(const Operation& op) {
  const std::string_view name = base_name(op);
  const auto other = number(op, 1);
  if (!other) {
    return false;
  }
  if (name == "aten.mul.Tensor" || name == "aten.mul.Scalar" ||
      name == "aten.div.Tensor" || name == "aten.div.Scalar") {
    return *other == 1;
  }
  return (name == "aten.sub.Tensor" || name == "aten.sub.Scalar") &&
         *other == 0 && number(op, 2).value_or(1) == 1;
}

// The operand that the operation's one result is, or -1.
int32_t same_as(const Program& program, const Operation& op) {
  if (op.results.size() != 1 || !op.is_composite()) {
    return -1;
  }
  const Operand* x = operand(op, 0);
  if (x == nullptr ||
      program.type(op.operands[x->index]) != program.type(op.results[0])) {
    return -1;
  }
  return is_view(op) || is_neutral(op) ? x->index : -1;
}

bool swaps_back(const Operation& inner, const Operation& outer) {
  const std::string_view name = base_name(outer);
  if (name != base_name(inner)) {
    return false;
  }
  if (name == "aten.t") {
    return true;
  }
  if (name == "aten.transpose.int") {
    const auto& [a, b] = std::pair(inner.arguments[1], inner.arguments[2]);
    const auto& [c, d] = std::pair(outer.arguments[1], outer.arguments[2]);
    return (a == c && b == d) || (a == d && b == c);
  }
  return false;
}

}  // namespace

size_t simplify(Program& program) {
  std::vector<Value> renamed(program.types.size());
  std::vector<int32_t> producer(program.types.size(), -1);
  for (size_t i = 0; i < renamed.size(); ++i) {
    renamed[i] = {static_cast<int32_t>(i)};
  }
  size_t removed = 0;
  for (size_t i = 0; i < program.operations.size(); ++i) {
    Operation& op = program.operations[i];
    for (Value& v : op.operands) {
      v = renamed[v.id];
    }
    if (const int32_t same = same_as(program, op); same >= 0) {
      renamed[op.results[0].id] = op.operands[same];
      ++removed;
      continue;
    }
    if (op.operands.size() == 1 && op.results.size() == 1) {
      const int32_t from = producer[op.operands[0].id];
      if (from >= 0 && swaps_back(program.operations[from], op)) {
        renamed[op.results[0].id] = program.operations[from].operands[0];
        ++removed;
        continue;
      }
    }
    for (Value v : op.results) {
      producer[v.id] = static_cast<int32_t>(i);
    }
  }
  for (Value& v : program.results) {
    v = renamed[v.id];
  }
  dead_code_elimination(program);
  return removed;
}

}  // namespace neuronx::ir
