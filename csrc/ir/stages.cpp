// SPDX-License-Identifier: Apache-2.0
#include "ir/stages.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "ir/rebuild.h"

namespace neuronx::ir {
namespace {

// Positions to cut at that are looked at.
constexpr size_t kCandidates = 64;

// When each value is made and read, by operation. Parameters are made before
// the first; results of the program count as read only by operations.
struct Lives {
  explicit Lives(const Program& program)
      : made(program.types.size(), -1),
        read(program.types.size(), -1),
        constant(program.types.size()),
        result(program.types.size(), -1) {
    for (size_t i = 0; i < program.operations.size(); ++i) {
      const Operation& op = program.operations[i];
      bool constants = true;
      for (Value v : op.operands) {
        read[v.id] = int64_t(i);
        constants &= constant[v.id];
      }
      for (Value v : op.results) {
        made[v.id] = int64_t(i);
        constant[v.id] = constants;
      }
    }
    for (size_t k = program.results.size(); k-- > 0;)
      result[program.results[k].id] = int32_t(k);
  }

  std::vector<int64_t> made, read;
  std::vector<bool> constant;
  // The first result of the program that it is, or -1.
  std::vector<int32_t> result;
};

// Memory by position 0..n in the program's operations.
struct Memory {
  Memory(const Program& program, const std::vector<bool>& dying)
      : dead(program.operations.size() + 1),
        written(program.operations.size() + 1),
        handed(program.operations.size() + 1) {
    const Lives lives(program);
    for (size_t p = 0; p < program.parameters.size(); ++p) {
      const Value v = program.parameters[p];
      const int64_t bytes = program.type(v).bytes();
      all += bytes;
      if (dying[p])
        dead[lives.read[v.id] + 1] += bytes;
    }
    for (Value v : program.results)
      written[std::max<int64_t>(lives.made[v.id], 0)] +=
          program.type(v).bytes();
    for (size_t id = 0; id < program.types.size(); ++id)
      if (lives.made[id] >= 0 && lives.read[id] > lives.made[id] &&
          lives.result[id] < 0 && !lives.constant[id]) {
        const int64_t bytes = program.types[id].bytes();
        handed[lives.made[id] + 1] += bytes;
        handed[lives.read[id] + 1] -= bytes;
      }
    for (size_t i = 1; i < dead.size(); ++i) {
      dead[i] += dead[i - 1];
      handed[i] += handed[i - 1];
    }
    for (size_t i = 1; i < written.size(); ++i)
      written[i] += written[i - 1];
  }

  // Of a stage of operations [from, to). What is handed both in and on counts
  // twice.
  int64_t stage(size_t from, size_t to) const {
    return all - dead[from] + (to ? written[to - 1] : 0) + handed[from] +
           handed[to];
  }

  int64_t all = 0;
  // Parameters that no operation from a position on reads; results that the
  // operations up to and with one have made; values made before one and read
  // from it on.
  std::vector<int64_t> dead, written, handed;
};

// Where little is handed on, spread over the program.
std::vector<size_t> candidates(const Memory& memory, size_t operations) {
  std::vector<size_t> positions{0};
  const size_t blocks = std::min(kCandidates, operations);
  for (size_t b = 0; b < blocks; ++b) {
    const size_t begin = std::max<size_t>(1, operations * b / blocks);
    const size_t end = std::max(begin + 1, operations * (b + 1) / blocks);
    if (end > operations)
      break;
    const auto first = memory.handed.begin();
    positions.push_back(std::min_element(first + begin, first + end) - first);
  }
  positions.push_back(operations);
  return positions;
}

class Splitter {
 public:
  explicit Splitter(const Program& program)
      : program_(program), lives_(program), number_(program.types.size(), -1) {
    const auto parameters = int32_t(program.parameters.size());
    for (int32_t p = 0; p < parameters; ++p)
      number_[program.parameters[p].id] = p;
    for (size_t id = 0; id < number_.size(); ++id)
      if (lives_.result[id] >= 0 && number_[id] < 0)
        number_[id] = parameters + lives_.result[id];
    next_ = parameters + int32_t(program.results.size());
  }

  Stage whole() const {
    Stage stage{program_, {}, {}};
    stage.operands.resize(program_.parameters.size());
    std::iota(stage.operands.begin(), stage.operands.end(), 0);
    stage.results.resize(program_.results.size());
    std::iota(stage.results.begin(),
              stage.results.end(),
              int32_t(program_.parameters.size()));
    return stage;
  }

  // Of operations [from, to). Stages are asked for in order.
  Stage stage(size_t from, size_t to) {
    const auto [needed, again] = what_to_compute(from, to);
    Stage stage;
    Builder b(program_.name);
    Values values(program_.types.size());
    const auto take = [&](int32_t id) {
      values[id] = b.parameter(program_.types[id]);
      stage.operands.push_back(number_[id]);
    };
    for (size_t id = 0; id < needed.size(); ++id)
      if (needed[id] && lives_.made[id] >= 0 && !again[lives_.made[id]])
        take(int32_t(id));
    // Behind what is handed on: the whole program's last are scalars.
    for (Value v : program_.parameters)
      if (needed[v.id] || (from == 0 && lives_.result[v.id] >= 0))
        take(v.id);
    for (size_t i = 0; i < to; ++i)
      if (again[i])
        compute(b, program_.operations[i], values);
    Values results;
    for (const auto& [id, number] : gives(from, to)) {
      results.push_back(values[id]);
      stage.results.push_back(number);
    }
    stage.program = b.finish(results);
    return stage;
  }

 private:
  // The values that operations [from, to) read, and the operations, which are
  // those and earlier ones that give them constants.
  std::pair<std::vector<bool>, std::vector<bool>> what_to_compute(
      size_t from, size_t to) const {
    std::vector<bool> needed(program_.types.size()), again(to);
    for (size_t i = to; i-- > 0;) {
      const Operation& op = program_.operations[i];
      again[i] = i >= from || std::ranges::any_of(op.results, [&](Value v) {
                   return needed[v.id] && lives_.constant[v.id] &&
                          lives_.result[v.id] < 0;
                 });
      if (again[i])
        for (Value v : op.operands)
          needed[v.id] = true;
    }
    return {std::move(needed), std::move(again)};
  }

  void compute(Builder& b, const Operation& op, Values& values) const {
    Values operands;
    std::vector<TensorType> types;
    for (Value v : op.operands)
      operands.push_back(values[v.id]);
    for (Value v : op.results)
      types.push_back(program_.type(v));
    const Values results = copy(b, op, operands, std::move(types));
    for (size_t k = 0; k < results.size(); ++k)
      values[op.results[k].id] = results[k];
  }

  // The values that operations [from, to) make for others: results of the
  // program, parameters among these with the first stage, and what later
  // operations read.
  std::vector<std::pair<int32_t, int32_t>> gives(size_t from, size_t to) {
    std::vector<std::pair<int32_t, int32_t>> given;
    const auto parameters = int32_t(program_.parameters.size());
    for (size_t k = 0; k < program_.results.size(); ++k) {
      const int32_t id = program_.results[k].id;
      const auto made = size_t(std::max<int64_t>(lives_.made[id], 0));
      if (from <= made && made < to)
        given.emplace_back(id, parameters + int32_t(k));
    }
    for (size_t i = from; i < to; ++i)
      for (Value v : program_.operations[i].results)
        if (lives_.read[v.id] >= int64_t(to) && lives_.result[v.id] < 0 &&
            !lives_.constant[v.id]) {
          number_[v.id] = next_++;
          given.emplace_back(v.id, number_[v.id]);
        }
    return given;
  }

  const Program& program_;
  const Lives lives_;
  std::vector<int32_t> number_;  // as in Stage, by value
  int32_t next_;                 // of what is handed on
};

}  // namespace

int64_t peak_bytes(const Program& program,
                   const std::vector<bool>& dying,
                   const std::vector<size_t>& cuts) {
  const Memory memory(program, dying);
  int64_t peak = 0;
  size_t from = 0;
  for (size_t i = 0; i <= cuts.size(); ++i) {
    const size_t to = i < cuts.size() ? cuts[i] : program.operations.size();
    peak = std::max(peak, memory.stage(from, to));
    from = to;
  }
  return peak;
}

std::vector<size_t> choose_stages(const Program& program,
                                  const std::vector<bool>& dying,
                                  const StageLimits& limits) {
  const size_t operations = program.operations.size();
  if (operations < 2 ||
      std::ranges::any_of(program.aliases, [](int32_t a) { return a >= 0; }))
    return {};
  const Memory memory(program, dying);
  const int64_t whole = memory.stage(0, operations);
  const int64_t least = std::max<int64_t>(
      limits.saving_bytes, int64_t(limits.saving_part * double(whole)));
  if (std::min(memory.dead[operations], memory.written[operations]) < least)
    return {};
  const std::vector<size_t> at = candidates(memory, operations);
  const size_t last = at.size() - 1;
  // peak[s][j]: the lowest of s + 1 stages that end at candidate j.
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  std::vector<std::vector<int64_t>> peak(limits.stages);
  std::vector<std::vector<size_t>> before(limits.stages);
  size_t best = 0;
  for (size_t s = 0; s < limits.stages; ++s) {
    peak[s].assign(at.size(), kNone);
    before[s].assign(at.size(), 0);
    for (size_t j = 1; j <= last; ++j) {
      if (s == 0)
        peak[s][j] = memory.stage(0, at[j]);
      for (size_t i = 1; s > 0 && i < j; ++i) {
        const int64_t p = std::max(peak[s - 1][i], memory.stage(at[i], at[j]));
        if (peak[s - 1][i] != kNone && p < peak[s][j]) {
          peak[s][j] = p;
          before[s][j] = i;
        }
      }
    }
    // One more stage has to be worth its launch.
    if (s > best && peak[best][last] - peak[s][last] >= least)
      best = s;
  }
  std::vector<size_t> cuts;
  for (size_t s = best, j = last; s > 0; --s) {
    j = before[s][j];
    cuts.insert(cuts.begin(), at[j]);
  }
  return cuts;
}

std::vector<Stage> split(const Program& program,
                         const std::vector<size_t>& cuts) {
  Splitter splitter(program);
  if (cuts.empty())
    return {splitter.whole()};
  std::vector<Stage> stages;
  for (size_t s = 0; s <= cuts.size(); ++s)
    stages.push_back(
        splitter.stage(s ? cuts[s - 1] : 0,
                       s < cuts.size() ? cuts[s] : program.operations.size()));
  return stages;
}

}  // namespace neuronx::ir
