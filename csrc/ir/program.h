// SPDX-License-Identifier: Apache-2.0
// Program: a small SSA graph with static shapes, the one form of everything
// that runs on the device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ir/attribute.h"

namespace neuronx::ir {

using Shape = std::vector<int64_t>;

struct TensorType {
  DType dtype;
  Shape shape;
  int64_t numel() const;
  int64_t bytes() const;
  bool operator==(const TensorType&) const = default;
};

// "float32[2, 3]"
std::string to_string(const TensorType& type);

// An SSA value of one Program: an index into its `types`.
struct Value {
  int32_t id = -1;
  explicit operator bool() const { return id >= 0; }
  bool operator==(const Value&) const = default;
};

struct Program;

// `name` is one of
//   "stablehlo.add"       an operation of the StableHLO set (or "chlo.erf"),
//                         parameters in `attributes` under StableHLO's names;
//                         regions (reduce, sort, scatter...) in `bodies`;
//                         see infer.h for what differs from StableHLO
//   "aten.softmax.int"    a composite: an ATen overload. `arguments` are the
//                         schema's arguments in order without `out`;
//                         bodies[0] is its decomposition, a Program whose
//                         parameters are the operands in order
//   "neuronx.as_strided"  a composite of ours, parameters in `attributes`,
//                         bodies[0] as above. See builder.h.
struct Operation {
  std::string name;
  std::vector<Value> operands = {};
  std::vector<Value> results = {};
  std::vector<std::pair<std::string, Attribute>> attributes = {};
  std::vector<Attribute> arguments = {};
  std::vector<std::shared_ptr<const Program>> bodies = {};

  // The named attribute, or nullptr.
  const Attribute* attribute(const std::string& key) const;
  bool is_composite() const;
};

struct Program {
  std::string name = "main";
  std::vector<TensorType> types;  // by Value::id
  std::vector<Value> parameters;
  std::vector<Operation> operations;  // in topological order
  std::vector<Value> results;
  // For each result the parameter whose buffer it overwrites, or -1.
  std::vector<int32_t> aliases;

  const TensorType& type(Value value) const { return types[value.id]; }
};

}  // namespace neuronx::ir
