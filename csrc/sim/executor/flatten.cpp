// SPDX-License-Identifier: Apache-2.0
#include "sim/executor/flatten.h"

#include <algorithm>
#include <stdexcept>

#include "sim/executor/expand.h"

namespace neuronx::sim {
namespace {

bool is_planned(const std::string& name) {
  return name == "neuronx.as_strided" || name == "neuronx.as_strided_scatter" ||
         name == "neuronx.to_strided";
}

// Normalisations: the schema positions of the input, of what decides the dtype
// of the statistics on the CPU, and of statistics that were saved; without
// those, results 1 and 2 are the statistics.
struct Normalization {
  std::string_view name;
  size_t input;
  std::vector<size_t> weights, saved;
};
const std::vector<Normalization>& normalizations() {
  static const std::vector<Normalization> table = {
      {"aten.native_layer_norm", 0, {2, 3}, {}},
      {"aten.native_layer_norm_backward", 1, {5, 6}, {3, 4}},
      {"aten.native_group_norm", 0, {1, 2}, {}},
      {"aten.native_group_norm_backward", 1, {4}, {2, 3}},
      {"aten._native_batch_norm_legit_functional", 0, {1, 2, 3, 4}, {}},
      {"aten._native_batch_norm_legit.no_stats", 0, {1, 2}, {}},
      {"aten._native_batch_norm_legit_no_training", 0, {1, 2, 3, 4}, {}},
      {"aten.native_batch_norm_backward", 1, {2, 3, 4}, {5, 6}},
  };
  return table;
}

class Flattener {
 public:
  Flattener(Flat& flat, const Interpreter& interpreter)
      : flat_(flat), interpreter_(interpreter) {}

  // The flat values of the results.
  std::vector<int32_t> program(const ir::Program& program,
                               const std::vector<int32_t>& parameters) {
    std::vector<int32_t> values(program.types.size(), -1);
    const auto flat = [&](const std::vector<ir::Value>& list) {
      std::vector<int32_t> result;
      for (ir::Value v : list)
        result.push_back(values[v.id]);
      return result;
    };
    for (size_t i = 0; i < parameters.size(); ++i)
      values[program.parameters[i].id] = parameters[i];
    for (const ir::Operation& op : program.operations) {
      FlatOp entry;
      entry.op = &op;
      entry.operands = flat(op.operands);
      if (!interpreter_.decomposed() && expands(op)) {
        FlatOp whole = entry;
        for (ir::Value v : op.results)
          whole.results.push_back(values[v.id] = fresh(program.type(v)));
        if (expand(whole, flat_))
          continue;
      }
      if (!resolve(entry, program)) {
        const auto results = this->program(*op.bodies[0], entry.operands);
        for (size_t i = 0; i < results.size(); ++i)
          values[op.results[i].id] = results[i];
        continue;
      }
      for (ir::Value v : op.results) {
        values[v.id] = fresh(program.type(v));
        entry.results.push_back(values[v.id]);
      }
      flat_.ops.push_back(std::move(entry));
    }
    return flat(program.results);
  }

  int32_t fresh(ir::TensorType type) {
    flat_.types.push_back(std::move(type));
    return int32_t(flat_.types.size() - 1);
  }

 private:
  // ATen's CPU kernel lacks a dtype that the operator has on the device, such
  // as float32 statistics of bfloat16 with bfloat16 weights.
  bool cpu_lacks_dtype(const FlatOp& entry, const ir::Program& program) const {
    if (entry.op->name == "aten.histc")
      return !is_floating_point(flat_.types[entry.operands[0]].dtype);
    for (const Normalization& n : normalizations())
      if (n.name == entry.op->name)
        return cpu_lacks_statistics(n, entry, program);
    return false;
  }

  std::vector<DType> dtypes(const FlatOp& entry,
                            const std::vector<size_t>& arguments) const {
    std::vector<DType> found;
    for (size_t i : arguments)
      if (const auto* x = std::get_if<ir::Operand>(&entry.op->arguments[i]))
        found.push_back(flat_.types[entry.operands[x->index]].dtype);
    return found;
  }

  bool cpu_lacks_statistics(const Normalization& n,
                            const FlatOp& entry,
                            const ir::Program& program) const {
    const auto weights = dtypes(entry, n.weights);
    auto statistics = dtypes(entry, n.saved);
    if (n.saved.empty())
      for (size_t i : {1, 2})
        if (const auto& type = program.type(entry.op->results[i]); type.numel())
          statistics.push_back(type.dtype);
    const DType expected =
        weights.empty() ? dtypes(entry, {n.input})[0] : weights[0];
    const auto differs = [&](DType dtype) { return dtype != expected; };
    return std::ranges::any_of(weights, differs) ||
           std::ranges::any_of(statistics, differs);
  }

  // False if the operation has to be replaced by its body.
  bool resolve(FlatOp& entry, const ir::Program& program) {
    const ir::Operation& op = *entry.op;
    if (!op.is_composite()) {
      interpreter_.check(op);
      return true;
    }
    const bool has_body = !op.bodies.empty() && op.bodies[0];
    // Its body checks nothing: on hardware the use of the index does.
    if (op.name == "neuronx.check_index") {
      entry.native = check_index;
      return true;
    }
    // The operand of as_strided is a dense value of its own here, not memory
    // that it shares with others as ATen assumes.
    if (has_body &&
        (interpreter_.decomposed() || cpu_lacks_dtype(entry, program) ||
         op.name.starts_with("aten.as_strided")))
      return false;
    if (is_planned(op.name))
      return true;
    if ((entry.native = find_native(op)))
      return true;
    std::vector<ir::TensorType> types;
    for (int32_t v : entry.operands)
      types.push_back(flat_.types[v]);
    if ((entry.writer = find_writer(op, types)))
      return true;
    std::string reason = "ATen has no CPU operator of that name";
    if (const AtenOp* aten = find_aten_op(op.name)) {
      try {
        entry.call = std::make_shared<AtenCall>(*aten, op, types);
        entry.aten = aten;
        return true;
      } catch (const std::invalid_argument& error) {
        reason = error.what();
      }
    }
    if (has_body)
      return false;
    throw std::runtime_error("[" + op.name + "] cannot run: " + reason +
                             " and it has no body");
  }

  Flat& flat_;
  const Interpreter& interpreter_;
};

void remove_unused(Flat& flat) {
  std::vector<bool> used(flat.types.size());
  for (int32_t v : flat.results)
    used[v] = true;
  std::vector<FlatOp> kept;
  for (auto op = flat.ops.rbegin(); op != flat.ops.rend(); ++op) {
    if (std::none_of(op->results.begin(), op->results.end(), [&](int32_t v) {
          return used[v];
        }))
      continue;
    for (int32_t v : op->operands)
      used[v] = true;
    kept.push_back(std::move(*op));
  }
  std::reverse(kept.begin(), kept.end());
  flat.ops = std::move(kept);
}

}  // namespace

Flat flatten(const ir::Program& program, const Interpreter& interpreter) {
  Flat flat;
  Flattener flattener(flat, interpreter);
  for (ir::Value v : program.parameters)
    flat.parameters.push_back(flattener.fresh(program.type(v)));
  flat.results = flattener.program(program, flat.parameters);
  flat.aliases = program.aliases;
  flat.aliases.resize(flat.results.size(), -1);
  remove_unused(flat);
  return flat;
}

}  // namespace neuronx::sim
