// SPDX-License-Identifier: Apache-2.0
#include "ir/print.h"

#include <fmt/format.h>

#include "ir/print_element.h"

namespace neuronx::ir {
namespace {

using Names = std::vector<std::string>;

// "stablehlo.add" as "add".
std::string short_name(const std::string& name) {
  return name.starts_with("stablehlo.") ? name.substr(10) : name;
}

// As Python writes it; operands by name.
std::string show(const Attribute& attribute, const Names& operands) {
  struct Show {
    const Names& operands;
    std::string operator()(std::monostate) const { return "None"; }
    std::string operator()(bool v) const { return v ? "True" : "False"; }
    std::string operator()(int64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return fmt::format("{}", v); }
    std::string operator()(const std::string& v) const { return v; }
    std::string operator()(const Shape& v) const {
      return fmt::format("[{}]", fmt::join(v, ", "));
    }
    std::string operator()(const std::vector<double>& v) const {
      return fmt::format("[{}]", fmt::join(v, ", "));
    }
    std::string operator()(DType v) const { return std::string(name(v)); }
    std::string operator()(Operand v) const { return operands[v.index]; }
    std::string operator()(const OperandList& v) const {
      Names names;
      for (int32_t index : v.indices)
        names.push_back(index < 0 ? "None" : operands[index]);
      return fmt::format("[{}]", fmt::join(names, ", "));
    }
    std::string operator()(const NumberTensor& v) const {
      if (v.operand >= 0)
        return operands[v.operand];
      return std::visit(*this, v.value);
    }
  };
  return std::visit(Show{operands}, attribute);
}

std::string constant(const TensorType& type, const std::string& bytes) {
  constexpr int64_t kShown = 8;
  if (is_splat(type, bytes))
    return mlir_element(type, bytes, 0);
  if (type.numel() > kShown)
    return fmt::format("<{} bytes>", bytes.size());
  Names elements;
  for (int64_t i = 0; i < type.numel(); ++i)
    elements.push_back(mlir_element(type, bytes, i));
  return fmt::format("[{}]", fmt::join(elements, ", "));
}

class Printer {
 public:
  std::string print(const Program& program) {
    block(program, program.name, 0);
    return std::move(out_);
  }

 private:
  void block(const Program& program, const std::string& head, size_t indent) {
    Names names(program.types.size());
    int next = 0;
    const auto define = [&](Value v) {
      names[v.id] = fmt::format("%{}", next++);
      return names[v.id];
    };
    Names parameters;
    for (Value v : program.parameters)
      parameters.push_back(
          fmt::format("{}: {}", define(v), to_string(program.type(v))));
    out_ += fmt::format("{}({}) {{\n", head, fmt::join(parameters, ", "));
    for (const Operation& op : program.operations) {
      Names results, types, operands;
      for (Value v : op.operands)
        operands.push_back(names[v.id]);
      for (Value v : op.results) {
        results.push_back(define(v));
        types.push_back(to_string(program.type(v)));
      }
      out_.append(indent + 2, ' ');
      if (!results.empty())
        out_ += fmt::format("{} = ", fmt::join(results, ", "));
      out_ += call(program, op, operands);
      if (!op.is_composite())
        bodies(op, indent + 2);
      out_ += fmt::format(" : {}\n", fmt::join(types, ", "));
    }
    Names results;
    for (size_t i = 0; i < program.results.size(); ++i) {
      results.push_back(names[program.results[i].id]);
      if (i < program.aliases.size() && program.aliases[i] >= 0)
        results.back() += fmt::format(
            " in {}", names[program.parameters[program.aliases[i]].id]);
    }
    out_.append(indent + 2, ' ');
    out_ += fmt::format("return {}\n", fmt::join(results, ", "));
    out_.append(indent, ' ');
    out_ += "}";
    if (indent == 0)
      out_ += "\n";
  }

  static std::string call(const Program& program,
                          const Operation& op,
                          const Names& operands) {
    if (op.name == "stablehlo.constant")
      return "constant " +
             constant(program.type(op.results[0]),
                      std::get<std::string>(*op.attribute("value")));
    Names inside;
    for (const Attribute& argument : op.arguments)
      inside.push_back(show(argument, operands));
    if (op.arguments.empty())
      inside = operands;
    std::string text =
        fmt::format("{}({})", short_name(op.name), fmt::join(inside, ", "));
    for (const auto& [key, value] : op.attributes)
      text += fmt::format(" {}={}", key, show(value, operands));
    return text;
  }

  // A body of one operation, as of most reductions, is named in brackets.
  void bodies(const Operation& op, size_t indent) {
    for (const auto& body : op.bodies) {
      if (body->operations.size() == 1) {
        const Operation& only = body->operations[0];
        const Attribute* direction = only.attribute("comparison_direction");
        out_ += fmt::format(
            " [{}]", direction ? show(*direction, {}) : short_name(only.name));
      } else {
        out_ += " ";
        block(*body, "", indent);
      }
    }
  }

  std::string out_;
};

}  // namespace

std::string to_string(const Program& program) {
  return Printer().print(program);
}

}  // namespace neuronx::ir
