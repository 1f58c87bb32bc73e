// SPDX-License-Identifier: Apache-2.0
#include "sim/executor/fusion.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "ir/number.h"

namespace neuronx::sim {
namespace {

using pointwise::Reduction;

// How far behind its first operator a region may reach, and how large it may
// get: what it keeps for its results stays in the cache with it.
constexpr size_t kReach = 256;
constexpr size_t kInstructions = 512;
constexpr size_t kOperands = 24;
constexpr size_t kResults = 8;
// Rows that are reduced: shorter ones cost more than ATen's own, and of fewer
// ones each would have to be shared by cores.
constexpr int64_t kColumns = 32;
constexpr int64_t kRows = 8;
constexpr int64_t kOneCore = 16 * pointwise::kBlock;

// The number that fills the result of an operation, which is no operand of a
// region: aten.full, and constants of StableHLO.
std::optional<double> filled(const FlatOp& op, const Flat& flat) {
  const std::string& name = op.op->name;
  const DType dtype = flat.types[op.results[0]].dtype;
  if (name == "stablehlo.constant" && flat.types[op.results[0]].numel() == 1) {
    const auto& bytes = std::get<std::string>(*op.op->attribute("value"));
    const auto read = [&](auto value) {
      std::memcpy(&value, bytes.data(), sizeof(value));
      return static_cast<double>(value);
    };
    if (dtype == DType::Float32)
      return read(float());
    if (dtype == DType::UInt32)
      return read(uint32_t());
    return std::nullopt;
  }
  if ((name != "aten.full" && name != "aten.full.default") ||
      op.op->arguments.size() < 2)
    return std::nullopt;
  const ir::Attribute& value = op.op->arguments[1];
  if (dtype != DType::Float32 && dtype != DType::Bool)
    return std::nullopt;
  return ir::number(value);
}

struct RowReduction {
  Reduction kind;
  int64_t columns;
};

// A sum, mean, variance, maximum or minimum over the last dimensions.
std::optional<RowReduction> row_reduction(const FlatOp& op, const Flat& flat) {
  static const std::map<std::string, Reduction> kNames{
      {"aten.sum.dim_IntList", Reduction::Sum},
      {"aten.mean.dim", Reduction::Mean},
      {"aten.var.correction", Reduction::Variance},
      {"aten.amax", Reduction::Max},
      {"aten.amax.default", Reduction::Max},
      {"aten.amin", Reduction::Min},
      {"aten.amin.default", Reduction::Min}};
  const auto name = kNames.find(op.op->name);
  if (name == kNames.end() || !op.aten || op.operands.size() != 1 ||
      op.op->arguments.size() < 2)
    return std::nullopt;
  if (name->second == Reduction::Variance &&
      (op.op->arguments.size() < 3 ||
       ir::number(op.op->arguments[2]) != std::optional(0.0)))
    return std::nullopt;
  const auto* dims = std::get_if<std::vector<int64_t>>(&op.op->arguments[1]);
  const ir::TensorType& from = flat.types[op.operands[0]];
  const DType to = flat.types[op.results[0]].dtype;
  // A number has dimension 0 all the same.
  if (!dims || dims->empty() || from.shape.empty() ||
      !is_floating_point(from.dtype) ||
      (to != from.dtype && to != DType::Float32) ||
      from.dtype == DType::Float64)
    return std::nullopt;
  const auto rank = static_cast<int64_t>(from.shape.size());
  std::set<int64_t> reduced;
  for (int64_t d : *dims)
    reduced.insert(d < 0 ? d + rank : d);
  if (reduced.size() != dims->size() ||
      *reduced.begin() != rank - int64_t(reduced.size()))
    return std::nullopt;
  int64_t columns = 1;
  for (int64_t d : reduced)
    columns *= from.shape[d];
  if (!fuses_rows(from.numel(), columns))
    return std::nullopt;
  return RowReduction{name->second, columns};
}

// Moves pointwise operators and views to the first of the others that needs
// them: what belongs to one region is then together.
void sink(Flat& flat) {
  std::vector<int32_t> producer(flat.types.size(), -1);
  std::vector<bool> done(flat.ops.size(), false);
  std::vector<FlatOp> ops;
  const auto is_late = [](const FlatOp& op) {
    return op.aten ? op.aten->pointwise || op.aten->view ||
                         op.op->name == "aten._to_copy"
                   : pointwise::is_primitive(op.op->name) ||
                         op.op->name == "stablehlo.broadcast_in_dim" ||
                         op.op->name == "stablehlo.reshape";
  };
  std::vector<int32_t> stack, operands;
  const auto add = [&](int32_t i) {
    stack.assign(1, i);
    while (!stack.empty()) {
      const int32_t top = stack.back();
      const size_t before = stack.size();
      if (!done[top]) {
        // What rows come to first: a region of all numbers starts once it is
        // there.
        operands = flat.ops[top].operands;
        std::ranges::reverse(operands);
        std::ranges::stable_sort(operands, std::greater(), [&](int32_t v) {
          return flat.types[v].numel();
        });
        for (int32_t v : operands)
          if (producer[v] >= 0 && !done[producer[v]])
            stack.push_back(producer[v]);
        if (stack.size() != before)
          continue;
        done[top] = true;
        ops.push_back(flat.ops[top]);
      }
      stack.pop_back();
    }
  };
  for (size_t i = 0; i < flat.ops.size(); ++i)
    for (int32_t v : flat.ops[i].results)
      producer[v] = int32_t(i);
  for (size_t i = 0; i < flat.ops.size(); ++i)
    if (!is_late(flat.ops[i]))
      add(int32_t(i));
  // The ends of what is left pull in the rest.
  std::vector<bool> used(flat.types.size(), false);
  for (size_t i = 0; i < flat.ops.size(); ++i)
    if (!done[i])
      for (int32_t v : flat.ops[i].operands)
        used[v] = true;
  for (const bool last : {true, false})
    for (size_t i = 0; i < flat.ops.size(); ++i)
      if (!done[i] &&
          !(last && std::ranges::any_of(flat.ops[i].results,
                                        [&](int32_t v) { return used[v]; })))
        add(int32_t(i));
  flat.ops = std::move(ops);
}

class Fuser {
 public:
  explicit Fuser(Flat& flat)
      : flat_(flat),
        producer_(flat.types.size(), -1),
        users_(flat.types.size()),
        region_(flat.ops.size(), -1),
        again_(flat.ops.size(), false) {
    for (size_t i = 0; i < flat.ops.size(); ++i) {
      for (int32_t v : flat.ops[i].operands)
        users_[v].push_back(int32_t(i));
      for (int32_t v : flat.ops[i].results)
        producer_[v] = int32_t(i);
    }
    for (int32_t v : flat.results)
      users_[v].push_back(-1);
  }

  void run() {
    std::vector<FlatOp> fused(flat_.ops.size());
    for (size_t i = 0; i < flat_.ops.size(); ++i)
      if (region_[i] < 0 && !again_[i])
        if (auto op = grow(int32_t(i)))
          fused[i] = std::move(*op);
    std::vector<FlatOp> ops;
    for (size_t i = 0; i < flat_.ops.size(); ++i) {
      if (fused[i].fused)
        ops.push_back(std::move(fused[i]));
      if (region_[i] < 0)
        ops.push_back(std::move(flat_.ops[i]));
    }
    flat_.ops = std::move(ops);
  }

 private:
  struct Growth {
    pointwise::Builder builder;
    int32_t seed;
    int64_t numel;
    std::vector<int32_t> members, views;
    int64_t columns = 0;                           // of its reductions
    std::map<int32_t, Reduction> reductions = {};  // by member
  };

  const ir::TensorType& result(const FlatOp& op) const {
    return flat_.types[op.results[0]];
  }

  std::optional<FlatOp> grow(int32_t seed) {
    const FlatOp& first = flat_.ops[seed];
    if ((!first.aten && !pointwise::is_primitive(first.op->name)) ||
        first.results.size() != 1)
      return std::nullopt;
    const bool reduces = row_reduction(first, flat_).has_value();
    Growth growth{
        pointwise::Builder(flat_),
        seed,
        (reduces ? flat_.types[first.operands[0]] : result(first)).numel(),
        {},
        {}};
    if (growth.numel < 2 ||
        (reduces && !growth.builder.take(first.operands[0])))
      return std::nullopt;
    if (!(reduces ? reduce(growth, seed) : join(growth, seed)))
      return std::nullopt;
    const size_t end = std::min(flat_.ops.size(), size_t(seed) + kReach);
    for (size_t j = size_t(seed) + 1; j < end; ++j)
      if (growth.builder.size() < kInstructions &&
          growth.builder.operands().size() < kOperands &&
          is_connected(growth, flat_.ops[j]) && !reduce(growth, int32_t(j)))
        join(growth, int32_t(j));
    return finish(growth);
  }

  // Adds operator i if it reduces rows of what the region computes.
  bool reduce(Growth& growth, int32_t i) {
    const FlatOp& op = flat_.ops[i];
    const auto found = row_reduction(op, flat_);
    if (!found || region_[i] >= 0 || !growth.builder.has(op.operands[0]) ||
        flat_.types[op.operands[0]].numel() != growth.numel ||
        (growth.columns > 0 && growth.columns != found->columns))
      return false;
    growth.columns = found->columns;
    growth.reductions[i] = found->kind;
    growth.members.push_back(i);
    return true;
  }

  // It reads what the region computes or what the region reads.
  bool is_connected(const Growth& growth, const FlatOp& op) const {
    const auto& operands = growth.builder.operands();
    return std::any_of(op.operands.begin(), op.operands.end(), [&](int32_t v) {
      return growth.builder.has(v) ||
             std::find(operands.begin(), operands.end(), v) != operands.end();
    });
  }

  bool is_member(const Growth& growth, int32_t i) const {
    return std::find(growth.members.begin(), growth.members.end(), i) !=
           growth.members.end();
  }

  // As `filled`, also through broadcasts.
  std::optional<double> filled_everywhere(int32_t i) const {
    while (flat_.ops[i].op->name == "stablehlo.broadcast_in_dim") {
      i = producer_[flat_.ops[i].operands[0]];
      if (i < 0)
        return std::nullopt;
    }
    return filled(flat_.ops[i], flat_);
  }

  // Adds operator i, and before it those that it needs from behind the seed.
  bool join(Growth& growth, int32_t i, int depth = 0) {
    const FlatOp& op = flat_.ops[i];
    if (region_[i] >= 0 || is_member(growth, i) || op.results.size() != 1 ||
        result(op).numel() != growth.numel || depth > 16)
      return false;
    for (int32_t v : op.operands) {
      if (growth.builder.has(v))
        continue;
      const int32_t from = producer_[v];
      // What the region reduces to is there after it only.
      if (growth.reductions.contains(from))
        return false;
      if (from >= 0)
        if (const auto number = filled_everywhere(from)) {
          if (std::isnan(*number))
            return false;
          growth.builder.constant(v, *number);
          continue;
        }
      // A region runs where its first operator was.
      const int32_t place =
          from >= 0 && region_[from] >= 0 ? region_[from] : from;
      if (place > growth.seed && !join(growth, from, depth + 1))
        return false;
      if (place >= 0 && place < growth.seed && again_[from])
        join(growth, from, depth + 1);
    }
    if (keeps_order(op, flat_)) {
      if (!growth.builder.has(op.operands[0]))
        return false;
      growth.builder.alias(op.results[0], op.operands[0]);
      growth.views.push_back(i);
      return true;
    }
    if (!growth.builder.add(op))
      return false;
    growth.members.push_back(i);
    return true;
  }

  // Something outside the region needs the value.
  bool escapes(const Growth& growth, int32_t value) const {
    return std::any_of(
        users_[value].begin(), users_[value].end(), [&](int32_t user) {
          if (user < 0)
            return true;
          if (std::find(growth.views.begin(), growth.views.end(), user) !=
              growth.views.end())
            return escapes(growth, flat_.ops[user].results[0]);
          return !is_member(growth, user);
        });
  }

  // Behind a reduction a value of one operand costs less again than to store
  // and read: the operand is in the cache. Others compute it for themselves.
  bool recomputed(const Growth& growth, int32_t i) const {
    const FlatOp& op = flat_.ops[i];
    if (growth.columns == 0 || !op.aten || !op.aten->pointwise)
      return false;
    int large = 0;
    for (int32_t v : op.operands) {
      const int32_t from = producer_[v];
      if (from >= 0 && (is_member(growth, from) ||
                        std::ranges::count(growth.views, from) > 0))
        return false;
      large += flat_.types[v].numel() == growth.numel;
    }
    return large <= 1;
  }

  std::optional<FlatOp> finish(const Growth& growth) {
    // Alone, ATen's own is as good where it writes into its result.
    const AtenOp* alone = flat_.ops[growth.seed].aten;
    if (growth.members.size() < 2 && growth.reductions.empty() &&
        (!alone || alone->out))
      return std::nullopt;
    FlatOp op;
    op.op = flat_.ops[growth.seed].op;
    std::vector<pointwise::Output> outputs;
    for (int32_t i : growth.members) {
      const int32_t value = flat_.ops[i].results[0];
      const auto reduced = growth.reductions.find(i);
      if (reduced != growth.reductions.end())
        outputs.push_back({flat_.ops[i].operands[0],
                           flat_.types[value].dtype,
                           reduced->second});
      else if (escapes(growth, value) && !recomputed(growth, i)) {
        if (!pointwise::is_register_dtype(flat_.types[value].dtype))
          return std::nullopt;
        outputs.push_back({value, flat_.types[value].dtype});
      } else {
        continue;
      }
      op.results.push_back(value);
    }
    if (op.results.empty() || op.results.size() > kResults)
      return std::nullopt;
    auto builder = growth.builder;
    op.operands = builder.operands();
    const int64_t columns = std::max<int64_t>(1, growth.columns);
    pointwise::RegionStack stack{growth.numel / columns, columns, {}};
    stack.stages.push_back(
        builder.finish(outputs, growth.numel, growth.columns));
    op.fused = std::make_shared<const pointwise::RegionStack>(std::move(stack));
    for (int32_t i : growth.members) {
      const int32_t value = flat_.ops[i].results[0];
      again_[i] =
          escapes(growth, value) && std::ranges::count(op.results, value) == 0;
      if (again_[i])
        std::erase_if(users_[value],
                      [&](int32_t user) { return is_member(growth, user); });
      else
        region_[i] = growth.seed;
    }
    // Views of what the region keeps to itself go with it.
    for (int32_t i : growth.views)
      if (!escapes(growth, flat_.ops[i].results[0]))
        region_[i] = growth.seed;
    return op;
  }

  Flat& flat_;
  std::vector<int32_t> producer_;
  std::vector<std::vector<int32_t>> users_;
  std::vector<int32_t> region_;  // the first operator's, -1 for none
  std::vector<bool> again_;      // a region has it, others need it too
};

}  // namespace

bool keeps_order(const FlatOp& op, const Flat& flat) {
  static const std::set<std::string> kNames{"aten.view",
                                            "aten.view.default",
                                            "aten._unsafe_view",
                                            "aten._unsafe_view.default",
                                            "aten.reshape",
                                            "aten.reshape.default",
                                            "aten.unsqueeze",
                                            "aten.unsqueeze.default",
                                            "aten.squeeze",
                                            "aten.squeeze.dim",
                                            "aten.squeeze.dims",
                                            "aten.alias",
                                            "aten.detach",
                                            "stablehlo.reshape"};
  return op.operands.size() == 1 && op.results.size() == 1 &&
         kNames.contains(op.op->name) &&
         flat.types[op.operands[0]].dtype == flat.types[op.results[0]].dtype;
}

bool fuses_rows(int64_t numel, int64_t columns) {
  return columns >= kColumns && numel > 0 &&
         (numel / columns >= kRows || numel <= kOneCore);
}

void fuse(Flat& flat) {
  sink(flat);
  Fuser(flat).run();
  stack(flat);
}

void FusedStep::operator()() {
  from.clear();
  to.clear();
  for (const at::Tensor& operand : operands)
    from.push_back(operand.const_data_ptr());
  for (const at::Tensor& result : results)
    to.push_back(result.mutable_data_ptr());
  pointwise::run(stack, from.data(), to.data());
}

}  // namespace neuronx::sim
