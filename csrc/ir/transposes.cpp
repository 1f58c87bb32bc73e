// SPDX-License-Identifier: Apache-2.0
// Transpositions move down, through elementwise operations, until they meet
// another, a dot product, which takes its operands in any order, or a result.
#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>

#include "common/permutation.h"
#include "ir/infer.h"
#include "ir/passes.h"
#include "ir/print_element.h"
#include "ir/rebuild.h"

namespace neuronx::ir {
namespace {

bool is_elementwise(const Operation& op) {
  static const auto* names = [] {
    auto* set = new std::set<std::string_view>;
    for (const auto& rule : elementwise_rules())
      set->insert(rule.name);
    return set;
  }();
  return names->contains(op.name);
}

const Shape& ints(const Operation& op, const char* key) {
  return std::get<Shape>(*op.attribute(key));
}

class Sinker {
 public:
  explicit Sinker(const Program& program)
      : program_(program), uses_(program.types.size()) {
    for (const Operation& op : program.operations)
      for (Value v : op.operands)
        ++uses_[v.id];
    for (Value v : program.results)
      ++uses_[v.id];
  }

  Program run() {
    return rebuild(
        program_,
        [&](Builder& b,
            const Operation& op,
            const Values& operands) -> std::optional<Values> {
          if (op.name == "stablehlo.transpose")
            return Values{transpose(b, operands[0], ints(op, "permutation"))};
          if (op.name == "stablehlo.dot_general")
            return dot(b, op, operands);
          if (is_elementwise(op))
            return elementwise(b, op, operands);
          if (op.name == "stablehlo.constant" ||
              op.name == "stablehlo.broadcast_in_dim")
            return splat(b, op, operands);
          return std::nullopt;
        });
  }

  size_t moved() const { return moved_; }

 private:
  struct Transposed {
    Value source;
    Shape permutation;
  };

  struct Splat {
    Value scalar = {};                   // that is broadcast, or
    const std::string* bytes = nullptr;  // of a constant
  };

  const Transposed* find(Value v) const {
    const auto it = transposed_.find(v.id);
    return it == transposed_.end() ? nullptr : &it->second;
  }

  Value transpose(Builder& b, Value x, Shape permutation) {
    if (const Transposed* inner = find(x)) {
      permutation = permuted(inner->permutation, permutation);
      x = inner->source;
      ++moved_;
    }
    const Value result = b.transpose(x, permutation);
    if (result != x)
      transposed_[result.id] = {x, std::move(permutation)};
    return result;
  }

  // All operands in the same other order, and one at least that nothing else
  // reads: else there would be more transpositions than before.
  std::optional<Values> elementwise(Builder& b,
                                    const Operation& op,
                                    const Values& operands) {
    const TensorType& type = program_.type(op.results[0]);
    const Shape* permutation = nullptr;
    bool last_use = false;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (const Transposed* x = find(operands[i])) {
        if (permutation && *permutation != x->permutation)
          return std::nullopt;
        permutation = &x->permutation;
        last_use |= uses_[op.operands[i].id] == 1;
      } else if (!splats_.contains(operands[i].id) &&
                 b.rank(operands[i]) != 0) {
        return std::nullopt;
      }
    }
    if (!permutation || !last_use)
      return std::nullopt;
    const Shape order = *permutation;
    const Shape back = inverse(order);
    Values sources;
    for (Value v : operands) {
      if (const Transposed* x = find(v))
        sources.push_back(x->source);
      else if (b.rank(v) == 0)
        sources.push_back(v);
      else
        sources.push_back(reordered(b, v, back));
    }
    const Value result =
        copy(b, op, sources, {{type.dtype, permuted(type.shape, back)}})[0];
    ++moved_;
    return Values{transpose(b, result, order)};
  }

  // The result's dimensions are the batch's, then those of each side that are
  // not contracted, in their order: which must stay as it is.
  std::optional<Values> dot(Builder& b,
                            const Operation& op,
                            const Values& operands) {
    DotDimensions dimensions{ints(op, "lhs_batching_dimensions"),
                             ints(op, "rhs_batching_dimensions"),
                             ints(op, "lhs_contracting_dimensions"),
                             ints(op, "rhs_contracting_dimensions")};
    Values sources = operands;
    const auto fold = [&](size_t i, Shape& batch, Shape& contract) {
      const Transposed* x = find(operands[i]);
      if (!x)
        return false;
      Shape free;
      for (int64_t d = 0; d < b.rank(operands[i]); ++d)
        if (std::ranges::find(batch, d) == batch.end() &&
            std::ranges::find(contract, d) == contract.end())
          free.push_back(x->permutation[d]);
      if (!std::ranges::is_sorted(free))
        return false;
      batch = permuted(x->permutation, batch);
      contract = permuted(x->permutation, contract);
      sources[i] = x->source;
      ++moved_;
      return true;
    };
    const bool left = fold(0, dimensions.lhs_batch, dimensions.lhs_contract);
    const bool right = fold(1, dimensions.rhs_batch, dimensions.rhs_contract);
    if (!left && !right)
      return std::nullopt;
    return Values{b.dot_general(sources[0],
                                sources[1],
                                dimensions,
                                program_.type(op.results[0]).dtype)};
  }

  // Values whose elements are all the same look alike in any order.
  std::optional<Values> splat(Builder& b,
                              const Operation& op,
                              const Values& operands) {
    const TensorType& type = program_.type(op.results[0]);
    Splat splat;
    if (op.name == "stablehlo.constant") {
      splat.bytes = &std::get<std::string>(*op.attribute("value"));
      if (!is_splat(type, *splat.bytes))
        return std::nullopt;
    } else if (b.rank(operands[0]) == 0) {
      splat.scalar = operands[0];
    } else {
      return std::nullopt;
    }
    const Value result = copy(b, op, operands, {type})[0];
    splats_[result.id] = splat;
    return Values{result};
  }

  Value reordered(Builder& b, Value v, const Shape& order) const {
    const Splat& splat = splats_.at(v.id);
    TensorType type = b.type(v);
    type.shape = permuted(type.shape, order);
    return splat.bytes ? b.constant(std::move(type), *splat.bytes)
                       : b.broadcast_in_dim(splat.scalar, type.shape, {});
  }

  const Program& program_;
  std::vector<size_t> uses_;  // of the old program's values
  std::unordered_map<int32_t, Transposed> transposed_;  // of the new one's
  std::unordered_map<int32_t, Splat> splats_;
  size_t moved_ = 0;
};

}  // namespace

size_t sink_transposes(Program& program) {
  Sinker sinker(program);
  Program result = sinker.run();
  if (sinker.moved() > 0) {
    program = std::move(result);
    dead_code_elimination(program);
  }
  return sinker.moved();
}

}  // namespace neuronx::ir
