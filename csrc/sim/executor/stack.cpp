// SPDX-License-Identifier: Apache-2.0
// Regions that follow each other row by row become one operation.
#include <algorithm>
#include <utility>
#include <vector>

#include "sim/executor/fusion.h"

namespace neuronx::sim {
namespace {

// How far behind its first region a stack looks.
constexpr size_t kReach = 256;

// Stacks regions: one that reduces rows, and those behind it that go on with
// the same rows.
class Stacker {
 public:
  explicit Stacker(Flat& flat)
      : flat_(flat),
        producer_(flat.types.size(), -1),
        taken_(flat.ops.size(), false) {
    for (size_t i = 0; i < flat.ops.size(); ++i) {
      place_.push_back(2 * int64_t(i));
      for (int32_t v : flat.ops[i].results)
        producer_[v] = int32_t(i);
    }
  }

  void run() {
    for (size_t i = 0; i < flat_.ops.size(); ++i) {
      const FlatOp& op = flat_.ops[i];
      if (taken_[i] || !op.fused || op.fused->columns < 2)
        continue;
      const size_t end = std::min(flat_.ops.size(), i + kReach);
      for (size_t j = i + 1; j < end; ++j)
        if (flat_.ops[j].fused && !taken_[j] && fits(i, j))
          add(i, j);
    }
    std::vector<size_t> order;
    for (size_t i = 0; i < flat_.ops.size(); ++i)
      if (!taken_[i])
        order.push_back(i);
    std::ranges::stable_sort(order, {}, [&](size_t i) { return place_[i]; });
    std::vector<FlatOp> ops;
    for (size_t i : order)
      ops.push_back(std::move(flat_.ops[i]));
    flat_.ops = std::move(ops);
  }

 private:
  // What the value is seen of, by views that keep its order.
  int32_t origin(int32_t v) const {
    while (producer_[v] >= 0 && keeps_order(flat_.ops[producer_[v]], flat_))
      v = flat_.ops[producer_[v]].operands[0];
    return v;
  }

  // Adds to `moved` what has to move before stack i to have the value there.
  // False if the value depends on the stack.
  bool available(int32_t v,
                 size_t i,
                 std::vector<size_t>& moved,
                 int depth = 0) const {
    const int32_t from = producer_[v];
    if (from < 0 || place_[from] < place_[i] ||
        std::ranges::count(moved, size_t(from)) > 0)
      return true;
    if (from == int32_t(i) || depth > 8)
      return false;
    for (int32_t operand : flat_.ops[from].operands)
      if (!available(operand, i, moved, depth + 1))
        return false;
    moved.push_back(from);
    return true;
  }

  // Row r of a region of `shape` needs no other row of the operand.
  static bool is_aligned(ir::Shape operand,
                         const ir::Shape& shape,
                         int64_t columns) {
    operand.insert(operand.begin(), shape.size() - operand.size(), 1);
    size_t d = shape.size();
    for (int64_t broadcast = 1; broadcast < columns; --d) {
      if (d == 0 || operand[d - 1] != 1)
        return operand == shape;
      broadcast *= shape[d - 1];
      if (broadcast > columns)
        return operand == shape;
    }
    return std::equal(operand.begin(), operand.begin() + d, shape.begin());
  }

  bool fits(size_t i, size_t j) {
    const pointwise::RegionStack& stack = *flat_.ops[i].fused;
    const FlatOp& op = flat_.ops[j];
    const pointwise::Region& region = op.fused->stages[0];
    const int64_t numel = region.code.numel;
    const int64_t rows = stack.rows, columns = stack.columns;
    const bool wide = numel == rows * columns;
    if ((!wide && numel != rows) ||
        (region.code.columns > 0 && !(wide && region.code.columns == columns)))
      return false;
    bool continues = false;
    std::vector<bool> internal(op.operands.size());
    std::vector<size_t> moved;
    for (size_t k = 0; k < op.operands.size(); ++k) {
      internal[k] = producer_[origin(op.operands[k])] == int32_t(i);
      continues |= internal[k];
      if (!internal[k] && !available(op.operands[k], i, moved))
        return false;
    }
    for (size_t k = 0; k < region.code.loads.size(); ++k) {
      const int32_t operand = region.code.loads[k].operand;
      if (internal[operand] &&
          !is_aligned(flat_.types[op.operands[operand]].shape,
                      region.shapes[k],
                      wide ? columns : 1))
        return false;
    }
    if (continues)
      for (size_t k : moved)
        place_[k] = place_[i] - 1;
    return continues;
  }

  void add(size_t i, size_t j) {
    FlatOp& into = flat_.ops[i];
    const FlatOp& op = flat_.ops[j];
    pointwise::RegionStack stack = *into.fused;
    pointwise::Region region = op.fused->stages[0];
    for (pointwise::Load& load : region.code.loads) {
      const int32_t v = op.operands[load.operand];
      const auto known = std::ranges::find(into.operands, v);
      load.operand = int32_t(known - into.operands.begin());
      if (known == into.operands.end())
        into.operands.push_back(v);
    }
    for (pointwise::Store& store : region.code.stores) {
      const int32_t v = op.results[store.result];
      store.result = int32_t(into.results.size());
      into.results.push_back(v);
      producer_[v] = int32_t(i);
    }
    stack.stages.push_back(std::move(region));
    into.fused =
        std::make_shared<const pointwise::RegionStack>(std::move(stack));
    taken_[j] = true;
  }

  Flat& flat_;
  std::vector<int32_t> producer_;
  std::vector<bool> taken_;
  // Order of the operations: those that moved are at odd places.
  std::vector<int64_t> place_;
};

}  // namespace

void stack(Flat& flat) {
  Stacker(flat).run();
}

}  // namespace neuronx::sim
