// SPDX-License-Identifier: Apache-2.0
#include "graph/stages.h"

#include <algorithm>
#include <utility>

#include "compiler/service.h"

namespace neuronx::graph {
namespace {

// What the numbers of ir::Stage are.
class Numbers {
 public:
  Numbers(const Variant& variant,
          const ir::Program& first,
          int scalar_count,
          const std::vector<int32_t>& results)
      : variant_(variant), results_(results) {
    const auto overwriting =
        std::ranges::count_if(first.aliases, [](int32_t a) { return a >= 0; });
    first_scalar_ = static_cast<int32_t>(variant.tensors.size());
    first_output_ =
        first_scalar_ + scalar_count + static_cast<int32_t>(overwriting);
    first_handed_ = first_output_ + static_cast<int32_t>(results.size());
    end_scalar_ = first_scalar_ + scalar_count;
  }

  bool is_scalar(int32_t number) const {
    return number >= first_scalar_ && number < end_scalar_;
  }
  bool is_output(int32_t number) const {
    return number >= first_output_ && number < first_handed_;
  }
  int32_t scalar(int32_t number) const { return number - first_scalar_; }
  Stage::Address address(int32_t number) const {
    using Kind = Stage::Address::Kind;
    if (number < first_scalar_) {
      return {Kind::Argument, variant_.tensors[number]};
    }
    if (number < first_handed_) {
      return {Kind::Output, results_[number - first_output_]};
    }
    return {Kind::Handed, number - first_handed_};
  }

 private:
  const Variant& variant_;
  const std::vector<int32_t>& results_;
  int32_t first_scalar_, end_scalar_, first_output_, first_handed_;
};

Stage make_stage(const ir::Stage& from, const Numbers& numbers) {
  Stage stage;
  for (int32_t number : from.operands) {
    if (numbers.is_scalar(number)) {
      stage.scalars.push_back(numbers.scalar(number));
    } else {
      stage.addresses.push_back(numbers.address(number));
    }
  }
  for (size_t k = 0; k < from.results.size(); ++k) {
    if (from.program.aliases[k] >= 0) {
      continue;
    }
    stage.addresses.push_back(numbers.address(from.results[k]));
    if (stage.addresses.back().kind == Stage::Address::Kind::Handed) {
      const ir::TensorType& type = from.program.type(from.program.results[k]);
      stage.handed.push_back(static_cast<size_t>(type.bytes()));
    }
  }
  return stage;
}

}  // namespace

void set_stages(Variant& variant,
                const std::string& name,
                const std::vector<ir::Stage>& stages,
                int scalar_count,
                const std::vector<int32_t>& results) {
  using Kind = Stage::Address::Kind;
  const Numbers numbers(variant, stages.front().program, scalar_count, results);
  for (size_t s = 0; s < stages.size(); ++s) {
    const ir::Program& program = stages[s].program;
    if (program.results.empty()) {
      continue;
    }
    Stage stage = make_stage(stages[s], numbers);
    // A name each: one is no recompilation of another.
    const std::string label = stages.size() == 1
                                  ? name
                                  : name + " stage " + std::to_string(s + 1) +
                                        " of " + std::to_string(stages.size());
    stage.executable = compiler::compile(
        label, program, static_cast<int>(stage.scalars.size()));
    for (int32_t number : stages[s].results) {
      if (numbers.is_output(number)) {
        variant.outputs[numbers.address(number).index].stage =
            static_cast<int32_t>(s);
      }
    }
    variant.stages.push_back(std::move(stage));
  }
  // From the last stage back: who reads last lets go. What the last one reads
  // goes with the call.
  std::vector<Stage::Address> read;
  for (size_t s = variant.stages.size(); s-- > 0;) {
    Stage& stage = variant.stages[s];
    for (const Stage::Address& address : stage.addresses) {
      if (address.kind == Kind::Output ||
          std::ranges::find(read, address) != read.end()) {
        continue;
      }
      read.push_back(address);
      if (s + 1 < variant.stages.size()) {
        (address.kind == Kind::Argument ? stage.last_arguments
                                        : stage.last_handed)
            .push_back(address.index);
      }
    }
  }
  // Views stand behind the outputs that they show.
  for (Output& output : variant.outputs) {
    if (output.kind == Output::Kind::View) {
      output.stage = variant.outputs[output.index].stage;
    }
  }
}

}  // namespace neuronx::graph
