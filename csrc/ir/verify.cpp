// SPDX-License-Identifier: Apache-2.0
#include "ir/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <stdexcept>
#include <unordered_set>

#include "ir/infer.h"

namespace neuronx::ir {
namespace {

// Deeper nesting than any real program has; bounds the recursion of passes.
constexpr int kMaxDepth = 64;

[[noreturn]] void fail(const Program& program, const std::string& message) {
  throw std::invalid_argument(fmt::format("[{}] {}", program.name, message));
}

void check_name(const Program& program, const std::string& name) {
  const auto printable = [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '_' || c == ':';
  };
  if (name.empty() || !std::all_of(name.begin(), name.end(), printable))
    fail(program, "an operation has an invalid name");
}

// Operands that the arguments name exist.
void check_arguments(const Program& program, const Operation& op) {
  const auto check = [&](int32_t index, int32_t least) {
    if (index < least || index >= int32_t(op.operands.size()))
      fail(program,
           fmt::format("{}: an argument names operand {} of {}",
                       op.name,
                       index,
                       op.operands.size()));
  };
  for (const Attribute& argument : op.arguments) {
    if (const auto* operand = std::get_if<Operand>(&argument))
      check(operand->index, 0);
    if (const auto* list = std::get_if<OperandList>(&argument))
      for (int32_t index : list->indices)
        check(index, -1);
    if (const auto* number = std::get_if<NumberTensor>(&argument))
      check(number->operand, -1);
  }
}

class Verifier {
 public:
  void program(const Program& program, int depth) {
    if (depth > kMaxDepth)
      fail(program, fmt::format("bodies are nested over {} deep", kMaxDepth));
    // Bodies are shared; each is verified once.
    if (!seen_.insert(&program).second)
      return;
    std::vector<bool> defined(program.types.size());
    const auto define = [&](Value v) {
      if (v.id < 0 || size_t(v.id) >= defined.size() || defined[v.id])
        fail(program,
             fmt::format("value {} is defined twice or has no type", v.id));
      defined[v.id] = true;
    };
    const auto use = [&](Value v) {
      if (v.id < 0 || size_t(v.id) >= defined.size() || !defined[v.id])
        fail(program,
             fmt::format("value {} is used before its definition", v.id));
    };
    for (Value v : program.parameters) {
      define(v);
      check_type(program.type(v), program.name);
    }
    for (const Operation& op : program.operations) {
      check_name(program, op.name);
      std::for_each(op.operands.begin(), op.operands.end(), use);
      for (const auto& body : op.bodies)
        if (body)
          this->program(*body, depth + 1);
      std::for_each(op.results.begin(), op.results.end(), define);
      check_results(program, op);
      check_arguments(program, op);
    }
    std::for_each(program.results.begin(), program.results.end(), use);
    check_aliases(program);
  }

 private:
  static void check_results(const Program& program, const Operation& op) {
    Types operands, results;
    for (Value v : op.operands)
      operands.push_back(program.type(v));
    for (Value v : op.results)
      results.push_back(program.type(v));
    const Types inferred = infer(op, operands, results);
    if (inferred != results)
      fail(program,
           fmt::format("{} returns ({}), its type is ({})",
                       op.name,
                       to_string(inferred),
                       to_string(results)));
  }

  static void check_aliases(const Program& program) {
    if (program.aliases.empty())
      return;
    if (program.aliases.size() != program.results.size())
      fail(program,
           fmt::format("expected {} aliases, got {}",
                       program.results.size(),
                       program.aliases.size()));
    std::vector<bool> taken(program.parameters.size());
    for (size_t i = 0; i < program.aliases.size(); ++i) {
      const int32_t p = program.aliases[i];
      if (p == -1)
        continue;
      if (p < 0 || size_t(p) >= taken.size() || taken[p])
        fail(program,
             fmt::format("result {} aliases parameter {}, which does not "
                         "exist or is aliased already",
                         i,
                         p));
      taken[p] = true;
      const TensorType& result = program.type(program.results[i]);
      const TensorType& parameter = program.type(program.parameters[p]);
      if (result != parameter)
        fail(program,
             fmt::format("result {} of type {} aliases parameter {} of type {}",
                         i,
                         to_string(result),
                         p,
                         to_string(parameter)));
    }
  }

  std::unordered_set<const Program*> seen_;
};

}  // namespace

void verify(const Program& program) {
  Verifier().program(program, 0);
}

}  // namespace neuronx::ir
