// SPDX-License-Identifier: Apache-2.0
// StableHLO text in MLIR's generic form, which is the same for every
// operation: results = "name"(operands) <{properties}> ({regions}) : types.
#include <fmt/format.h>

#include <unordered_map>

#include "ir/print.h"
#include "ir/print_element.h"
#include "ir/serialize.h"

namespace neuronx::ir {
namespace {

using Names = std::vector<std::string>;

std::string types(const Program& program, const std::vector<Value>& values) {
  std::string text;
  for (Value v : values)
    text += (text.empty() ? "" : ", ") + mlir_type(program.type(v));
  return "(" + text + ")";
}

const Shape& ints(const Operation& op, const char* key) {
  return std::get<Shape>(*op.attribute(key));
}

int64_t integer(const Operation& op, const char* key) {
  return std::get<int64_t>(*op.attribute(key));
}

std::string array(const Shape& values) {
  if (values.empty())
    return "array<i64>";
  return fmt::format("array<i64: {}>", fmt::join(values, ", "));
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (unsigned char c : text) {
    if (c < 32 || c > 126 || c == '"' || c == '\\')
      result += fmt::format("\\{:02X}", c);
    else
      result += char(c);
  }
  return result + "\"";
}

// low and high of each dimension, as a tensor<Nx2xi64>.
std::string padding(const Operation& op) {
  const Shape& values = ints(op, "padding");
  std::string rows;
  for (size_t i = 0; i < values.size(); i += 2)
    rows += fmt::format("{}[{}, {}]", i ? ", " : "", values[i], values[i + 1]);
  return fmt::format("padding = dense<{}> : tensor<{}x2xi64>",
                     rows.empty() ? rows : "[" + rows + "]",
                     values.size() / 2);
}

// "key = [1, 2], ", or nothing for an empty list, which is the default.
std::string field(const Operation& op, const char* key) {
  const Shape& values = ints(op, key);
  if (values.empty())
    return "";
  return fmt::format("{} = [{}], ", key, fmt::join(values, ", "));
}

std::string dot_properties(const Operation& op) {
  return fmt::format(
      "dot_dimension_numbers = #stablehlo.dot<{}{}"
      "lhs_contracting_dimensions = [{}], rhs_contracting_dimensions = [{}]>",
      field(op, "lhs_batching_dimensions"),
      field(op, "rhs_batching_dimensions"),
      fmt::join(ints(op, "lhs_contracting_dimensions"), ", "),
      fmt::join(ints(op, "rhs_contracting_dimensions"), ", "));
}

// "[b, f, 0, 1]": which dimension is where.
std::string layout(const Operation& op,
                   const std::pair<const char*, const char*> first,
                   const std::pair<const char*, const char*> second,
                   const char* spatial) {
  const Shape& dimensions = ints(op, spatial);
  Names labels(dimensions.size() + 2);
  labels[integer(op, first.first)] = first.second;
  labels[integer(op, second.first)] = second.second;
  for (size_t i = 0; i < dimensions.size(); ++i)
    labels[dimensions[i]] = std::to_string(i);
  return fmt::format("[{}]", fmt::join(labels, ", "));
}

std::string convolution_properties(const Operation& op) {
  std::string text =
      fmt::format("dimension_numbers = #stablehlo.conv<{}x{}->{}>",
                  layout(op,
                         {"input_batch_dimension", "b"},
                         {"input_feature_dimension", "f"},
                         "input_spatial_dimensions"),
                  layout(op,
                         {"kernel_input_feature_dimension", "i"},
                         {"kernel_output_feature_dimension", "o"},
                         "kernel_spatial_dimensions"),
                  layout(op,
                         {"output_batch_dimension", "b"},
                         {"output_feature_dimension", "f"},
                         "output_spatial_dimensions"));
  for (const char* key : {"window_strides", "lhs_dilation", "rhs_dilation"})
    text += fmt::format(", {} = {}", key, array(ints(op, key)));
  for (const char* key : {"feature_group_count", "batch_group_count"})
    text += fmt::format(", {} = {} : i64", key, integer(op, key));
  return text + ", " + padding(op);
}

std::string gather_properties(const Operation& op) {
  return fmt::format(
      "dimension_numbers = #stablehlo.gather<{}{}{}index_vector_dim = {}>, "
      "slice_sizes = {}, indices_are_sorted = {}",
      field(op, "offset_dims"),
      field(op, "collapsed_slice_dims"),
      field(op, "start_index_map"),
      integer(op, "index_vector_dim"),
      array(ints(op, "slice_sizes")),
      std::get<bool>(*op.attribute("indices_are_sorted")));
}

std::string scatter_properties(const Operation& op) {
  return fmt::format(
      "scatter_dimension_numbers = #stablehlo.scatter<{}{}{}"
      "index_vector_dim = {}>, indices_are_sorted = {}, unique_indices = {}",
      field(op, "update_window_dims"),
      field(op, "inserted_window_dims"),
      field(op, "scatter_dims_to_operand_dims"),
      integer(op, "index_vector_dim"),
      std::get<bool>(*op.attribute("indices_are_sorted")),
      std::get<bool>(*op.attribute("unique_indices")));
}

// An attribute of which MLIR knows nothing but its type.
std::string plain(const Attribute& attribute) {
  struct {
    std::string operator()(std::monostate) const { return "unit"; }
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(int64_t v) const {
      return fmt::format("{} : i64", v);
    }
    std::string operator()(double v) const { return mlir_double(v) + " : f64"; }
    std::string operator()(const std::string& v) const { return quoted(v); }
    std::string operator()(const Shape& v) const { return array(v); }
    std::string operator()(const std::vector<double>& v) const {
      Names numbers;
      for (double number : v)
        numbers.push_back((*this)(number));
      return fmt::format("[{}]", fmt::join(numbers, ", "));
    }
    std::string operator()(DType v) const {
      return quoted(std::string(name(v)));
    }
    std::string operator()(Operand v) const {
      return quoted(fmt::format("operand {}", v.index));
    }
    std::string operator()(const OperandList& v) const {
      return quoted(fmt::format("operands {}", fmt::join(v.indices, ", ")));
    }
    std::string operator()(const NumberTensor& v) const {
      if (v.operand >= 0)
        return (*this)(Operand{v.operand});
      return std::visit(*this, v.value);
    }
  } print;
  return std::visit(print, attribute);
}

std::string properties(const Program& program, const Operation& op) {
  if (op.name == "stablehlo.constant") {
    const TensorType& type = program.type(op.results[0]);
    return fmt::format(
        "value = {} : {}",
        mlir_dense(type, std::get<std::string>(*op.attribute("value"))),
        mlir_type(type));
  }
  if (op.name == "stablehlo.dot_general")
    return dot_properties(op);
  if (op.name == "stablehlo.convolution")
    return convolution_properties(op);
  if (op.name == "stablehlo.gather")
    return gather_properties(op);
  if (op.name == "stablehlo.scatter")
    return scatter_properties(op);
  std::string text;
  for (const auto& [key, value] : op.attributes) {
    text += text.empty() ? "" : ", ";
    if (key == "padding")
      text += padding(op);
    else if (key == "comparison_direction")
      text += fmt::format("{} = #stablehlo<comparison_direction {}>",
                          key,
                          std::get<std::string>(value));
    else if (key == "exponent_bits" || key == "mantissa_bits" ||
             key == "api_version")
      text += fmt::format("{} = {} : i32", key, std::get<int64_t>(value));
    else
      text += fmt::format("{} = {}", key, plain(value));
  }
  return text;
}

class Printer {
 public:
  explicit Printer(PrintOptions options) : options_(options) {}

  std::string module(const Program& program) {
    out_ = "module {\n";
    function("func.func public @main", program, options_.aliases);
    // Functions may call for more functions.
    for (size_t i = 0; i < functions_.size(); ++i)
      function("func.func private " + functions_[i].first,
               *functions_[i].second,
               false);
    return out_ + "}\n";
  }

 private:
  std::string fresh() { return fmt::format("%{}", next_++); }

  void function(const std::string& head, const Program& program, bool aliases) {
    Names names;
    std::string parameters;
    for (size_t i = 0; i < program.parameters.size(); ++i) {
      names.push_back(fmt::format("%arg{}", i));
      parameters += fmt::format("{}{}: {}",
                                i ? ", " : "",
                                names.back(),
                                mlir_type(program.type(program.parameters[i])));
      for (size_t k = 0; aliases && k < program.aliases.size(); ++k)
        if (program.aliases[k] == int32_t(i))
          parameters += fmt::format(" {{tf.aliasing_output = {} : i32}}", k);
    }
    out_ += fmt::format("  {}({}) -> {} {{\n",
                        head,
                        parameters,
                        types(program, program.results));
    indent_ = 4;
    finish("func.return", program, operations(program, names));
    out_ += "  }\n";
  }

  void finish(const char* name, const Program& program, const Names& results) {
    line(fmt::format("\"{}\"({}) : {} -> ()",
                     name,
                     fmt::join(results, ", "),
                     types(program, program.results)));
  }

  void line(const std::string& text) {
    out_.append(indent_, ' ');
    out_ += text;
    out_ += '\n';
  }

  // Prints the operations; returns the names of the results.
  Names operations(const Program& program, const Names& parameters) {
    Names names(program.types.size());
    for (size_t i = 0; i < parameters.size(); ++i)
      names[program.parameters[i].id] = parameters[i];
    for (const Operation& op : program.operations) {
      Names operands;
      for (Value v : op.operands)
        operands.push_back(names[v.id]);
      const Names results = operation(program, op, operands);
      for (size_t i = 0; i < results.size(); ++i)
        names[op.results[i].id] = results[i];
    }
    Names results;
    for (Value v : program.results)
      results.push_back(names[v.id]);
    return results;
  }

  Names operation(const Program& program,
                  const Operation& op,
                  const Names& operands) {
    if (op.is_composite() && !options_.composites)
      return operations(*op.bodies[0], operands);
    const size_t count = op.results.size();
    const std::string result = fresh();
    Names results;
    for (size_t i = 0; i < count; ++i)
      results.push_back(count == 1 ? result : fmt::format("{}#{}", result, i));
    // The branches of a case use values of the surrounding code directly.
    const bool is_case = op.name == "stablehlo.case";
    const size_t printed = is_case ? 1 : operands.size();
    std::string text;
    if (count)
      text =
          count == 1 ? result + " = " : fmt::format("{}:{} = ", result, count);
    text += fmt::format(
        "\"{}\"({})",
        op.is_composite() ? "stablehlo.composite" : op.name,
        fmt::join(operands.begin(), operands.begin() + printed, ", "));
    const std::string values =
        op.is_composite() ? composite(op) : properties(program, op);
    if (!values.empty())
      text += " <{" + values + "}>";
    if (!op.is_composite() && !op.bodies.empty()) {
      line(text + " ({");
      regions(op,
              is_case ? Names(operands.begin() + 1, operands.end()) : Names());
      text = "})";
    }
    line(fmt::format(
        "{} : {} -> {}",
        text,
        types(program, {op.operands.begin(), op.operands.begin() + printed}),
        types(program, op.results)));
    return results;
  }

  void regions(const Operation& op, const Names& captured) {
    for (size_t i = 0; i < op.bodies.size(); ++i) {
      const Program& body = *op.bodies[i];
      if (i)
        line("}, {");
      Names parameters = captured;
      std::string block;
      if (op.name != "stablehlo.case")
        for (Value v : body.parameters) {
          parameters.push_back(fresh());
          block += fmt::format("{}{}: {}",
                               block.empty() ? "" : ", ",
                               parameters.back(),
                               mlir_type(body.type(v)));
        }
      if (!block.empty())
        line("^bb0(" + block + "):");
      indent_ += 2;
      finish("stablehlo.return", body, operations(body, parameters));
      indent_ -= 2;
    }
  }

  std::string composite(const Operation& op) {
    std::string attributes;
    const auto add = [&](const std::string& key, const Attribute& value) {
      attributes += fmt::format(
          "{}{} = {}", attributes.empty() ? "" : ", ", key, plain(value));
    };
    for (const auto& [key, value] : op.attributes)
      add(key, value);
    for (size_t i = 0; i < op.arguments.size(); ++i)
      add(fmt::format("arg{}", i), op.arguments[i]);
    auto [entry, added] = symbols_.try_emplace(digest(*op.bodies[0]));
    if (added) {
      entry->second = fmt::format("@{}_{}", op.name, functions_.size());
      for (char& c : entry->second)
        c = c == ':' ? '.' : c;
      functions_.emplace_back(entry->second, op.bodies[0].get());
    }
    return fmt::format(
        "name = {}, composite_attributes = {{{}}}, decomposition = {}",
        quoted(op.name),
        attributes,
        entry->second);
  }

  PrintOptions options_;
  std::string out_;
  size_t indent_ = 0;
  int next_ = 0;
  // Symbol by content: equal decompositions are printed once.
  std::unordered_map<std::string, std::string> symbols_;
  std::vector<std::pair<std::string, const Program*>> functions_;
};

}  // namespace

std::string to_stablehlo(const Program& program, PrintOptions options) {
  return Printer(options).module(program);
}

}  // namespace neuronx::ir
