// SPDX-License-Identifier: Apache-2.0
#include "compiler/signature.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <variant>

#include "common/hash.h"
#include "common/number.h"
#include "ir/serialize.h"

namespace neuronx::compiler {
namespace {

using ir::Attribute;

constexpr size_t kMostOperations = 64;
constexpr std::string_view kView = "neuronx.as_strided";

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

std::string to_text(const Attribute& attribute) {
  return std::visit(
      Overloaded{
          [](std::monostate) { return std::string("None"); },
          [](bool value) { return std::string(value ? "True" : "False"); },
          [](int64_t value) { return fmt::format("{}", value); },
          [](double value) { return fmt::format("{}", value); },
          // Constants are bytes: long, and no text.
          [](const std::string& value) {
            const bool printable =
                value.size() <= 64 &&
                std::ranges::all_of(
                    value, [](unsigned char c) { return c >= 32 && c < 127; });
            return printable ? value
                             : fmt::format("{} bytes, {}",
                                           value.size(),
                                           sha256_hex(value).substr(0, 8));
          },
          [](const std::vector<int64_t>& values) {
            return fmt::format("[{}]", fmt::join(values, ", "));
          },
          [](const std::vector<double>& values) {
            return fmt::format("[{}]", fmt::join(values, ", "));
          },
          [](DType value) { return std::string(name(value)); },
          [](ir::Operand value) { return fmt::format("%{}", value.index); },
          [](const ir::OperandList& value) {
            return fmt::format("%[{}]", fmt::join(value.indices, ", "));
          },
          [](const ir::NumberTensor& value) {
            if (value.operand >= 0) {
              return fmt::format("{} %{}", name(value.dtype), value.operand);
            }
            return fmt::format(
                "{} {}",
                name(value.dtype),
                std::visit(
                    [](auto number) { return fmt::format("{}", number); },
                    value.value));
          }},
      attribute);
}

bool is_scalar(const Attribute& attribute) {
  return std::holds_alternative<double>(attribute) ||
         std::holds_alternative<ir::NumberTensor>(attribute);
}

// Of a constant that holds one number, the number.
std::string constant_text(const ir::Program& program,
                          const ir::Operation& op,
                          const Attribute& value) {
  const auto& type = program.type(op.results.at(0));
  const auto* bytes = std::get_if<std::string>(&value);
  if (bytes == nullptr || bytes->size() != itemsize(type.dtype) ||
      is_complex(type.dtype)) {
    return to_text(value);
  }
  return is_floating_point(type.dtype)
             ? fmt::format("{}", decode_double(type.dtype, bytes->data()))
             : fmt::format("{}", decode_int(type.dtype, bytes->data()));
}

}  // namespace

std::unordered_map<int32_t, View> parameter_views(const ir::Program& program) {
  std::unordered_map<int32_t, View> views;
  for (const auto& op : program.operations) {
    const bool written = op.name == "neuronx.as_strided_scatter";
    if (written || op.name == kView) {
      views.try_emplace(
          op.operands.at(0).id,
          View{program.type(written ? op.operands.at(1) : op.results.at(0))
                   .shape,
               std::get<ir::Shape>(*op.attribute("stride"))});
    }
  }
  return views;
}

std::vector<Field> signature(const ir::Program& program, int scalar_count) {
  std::vector<Field> fields;
  const auto views = parameter_views(program);
  const size_t tensors = program.parameters.size() - scalar_count;
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    const ir::Value parameter = program.parameters[i];
    const auto& type = program.type(parameter);
    const std::string where =
        i < tensors ? fmt::format("input {}", i)
                    : fmt::format("runtime scalar {}", i - tensors);
    fields.push_back({"dtype", where, std::string(name(type.dtype))});
    if (const auto view = views.find(parameter.id); view != views.end()) {
      fields.push_back({"shape", where, to_text(view->second.size)});
      fields.push_back({"stride", where, to_text(view->second.stride)});
    } else {
      fields.push_back({"shape", where, to_text(type.shape)});
      fields.push_back({"stride", where, "contiguous"});
    }
  }
  std::map<std::string, int> seen;
  std::string rest;
  size_t count = 0;
  for (const auto& op : program.operations) {
    if (op.name == kView) {
      continue;
    }
    if (++count > kMostOperations) {
      rest += ir::fingerprint(program, op);
      continue;
    }
    const int occurrence = seen[op.name]++;
    const std::string where =
        occurrence == 0 ? op.name : fmt::format("{} #{}", op.name, occurrence);
    fields.push_back({"operation", where, "present"});
    for (const auto& [key, value] : op.attributes) {
      const bool constant = op.name == "stablehlo.constant";
      fields.push_back(
          {constant || is_scalar(value) ? "scalar" : "flag",
           fmt::format("{} {}", where, key),
           constant ? constant_text(program, op, value) : to_text(value)});
    }
    for (size_t i = 0; i < op.arguments.size(); ++i) {
      fields.push_back({is_scalar(op.arguments[i]) ? "scalar" : "flag",
                        fmt::format("{} argument {}", where, i),
                        to_text(op.arguments[i])});
    }
  }
  if (!rest.empty()) {
    fields.push_back(
        {"operation", "further operations", sha256_hex(rest).substr(0, 16)});
  }
  for (size_t i = 0; i < program.results.size(); ++i) {
    const auto& type = program.type(program.results[i]);
    fields.push_back({"result", fmt::format("result {}", i), to_string(type)});
  }
  return fields;
}

}  // namespace neuronx::compiler
