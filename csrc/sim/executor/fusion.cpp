// SPDX-License-Identifier: Apache-2.0
#include "sim/executor/fusion.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>

namespace neuronx::sim {
namespace {

// How far behind its first operator a region may reach, and how large it may
// get: what it keeps for its results stays in the cache with it.
constexpr size_t kReach = 256;
constexpr size_t kInstructions = 512;
constexpr size_t kOperands = 24;
constexpr size_t kResults = 8;

// A view with the elements of its operand in the same order.
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
                                            "aten.detach"};
  return op.operands.size() == 1 && op.results.size() == 1 &&
         kNames.contains(op.op->name) &&
         flat.types[op.operands[0]].dtype == flat.types[op.results[0]].dtype;
}

// The number of aten.full, which is no operand of a region.
std::optional<double> filled(const FlatOp& op, const Flat& flat) {
  const std::string& name = op.op->name;
  if ((name != "aten.full" && name != "aten.full.default") ||
      op.op->arguments.size() < 2)
    return std::nullopt;
  const DType dtype = flat.types[op.results[0]].dtype;
  const ir::Attribute& value = op.op->arguments[1];
  if (dtype != DType::Float32 && dtype != DType::Bool)
    return std::nullopt;
  if (const auto* v = std::get_if<double>(&value))
    return *v;
  if (const auto* v = std::get_if<int64_t>(&value))
    return double(*v);
  if (const auto* v = std::get_if<bool>(&value))
    return double(*v);
  return std::nullopt;
}

class Fuser {
 public:
  explicit Fuser(Flat& flat)
      : flat_(flat),
        producer_(flat.types.size(), -1),
        users_(flat.types.size()),
        region_(flat.ops.size(), -1) {
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
      if (region_[i] < 0)
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
  };

  const ir::TensorType& result(const FlatOp& op) const {
    return flat_.types[op.results[0]];
  }

  std::optional<FlatOp> grow(int32_t seed) {
    const FlatOp& first = flat_.ops[seed];
    if (!first.aten || first.results.size() != 1)
      return std::nullopt;
    Growth growth{
        pointwise::Builder(flat_), seed, result(first).numel(), {}, {}};
    if (growth.numel < 2 || !join(growth, seed))
      return std::nullopt;
    const size_t end = std::min(flat_.ops.size(), size_t(seed) + kReach);
    for (size_t j = size_t(seed) + 1; j < end; ++j)
      if (growth.builder.size() < kInstructions &&
          growth.builder.operands().size() < kOperands &&
          is_connected(growth, flat_.ops[j]))
        join(growth, int32_t(j));
    return finish(growth);
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
      if (from >= 0)
        if (const auto number = filled(flat_.ops[from], flat_)) {
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

  std::optional<FlatOp> finish(const Growth& growth) {
    if (growth.members.size() < 2)
      return std::nullopt;
    FlatOp op;
    op.op = flat_.ops[growth.seed].op;
    for (int32_t i : growth.members)
      if (escapes(growth, flat_.ops[i].results[0]))
        op.results.push_back(flat_.ops[i].results[0]);
    if (op.results.empty() || op.results.size() > kResults)
      return std::nullopt;
    auto builder = growth.builder;
    op.operands = builder.operands();
    op.fused =
        std::make_shared<const pointwise::Region>(builder.finish(op.results));
    for (int32_t i : growth.members)
      region_[i] = growth.seed;
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
};

}  // namespace

void fuse(Flat& flat) {
  if (flat.ops.size() > 1)
    Fuser(flat).run();
}

void FusedStep::operator()() {
  from.clear();
  to.clear();
  for (const at::Tensor& operand : operands)
    from.push_back(operand.const_data_ptr());
  for (const at::Tensor& result : results)
    to.push_back(result.mutable_data_ptr());
  pointwise::run(code, from.data(), to.data());
}

}  // namespace neuronx::sim
