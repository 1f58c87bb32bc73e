// SPDX-License-Identifier: Apache-2.0
#include "ir/passes.h"

#include <algorithm>
#include <unordered_map>

#include "ir/serialize.h"

namespace neuronx::ir {
namespace {

using Body = std::shared_ptr<const Program>;

// Maps every value through `renamed`.
void rename(std::vector<Value>& values, const std::vector<Value>& renamed) {
  for (Value& v : values)
    v = renamed[v.id];
}

// Renumbers values in order of definition and drops types without a value.
void compact(Program& program) {
  std::vector<Value> renamed(program.types.size());
  std::vector<TensorType> types;
  const auto define = [&](std::vector<Value>& values) {
    for (Value& v : values) {
      types.push_back(program.type(v));
      renamed[v.id] = {int32_t(types.size()) - 1};
      v = renamed[v.id];
    }
  };
  define(program.parameters);
  for (Operation& op : program.operations) {
    rename(op.operands, renamed);
    define(op.results);
  }
  rename(program.results, renamed);
  program.types = std::move(types);
}

size_t remove_dead(Program& program) {
  std::vector<bool> live(program.types.size());
  for (Value v : program.results)
    live[v.id] = true;
  std::vector<Operation> kept;
  for (size_t i = program.operations.size(); i-- > 0;) {
    Operation& op = program.operations[i];
    if (std::none_of(op.results.begin(), op.results.end(), [&](Value v) {
          return live[v.id];
        }))
      continue;
    for (Value v : op.operands)
      live[v.id] = true;
    kept.push_back(std::move(op));
  }
  const size_t removed = program.operations.size() - kept.size();
  program.operations.assign(std::make_move_iterator(kept.rbegin()),
                            std::make_move_iterator(kept.rend()));
  compact(program);
  return removed;
}

size_t merge_equal(Program& program) {
  std::vector<Value> renamed(program.types.size());
  for (size_t i = 0; i < renamed.size(); ++i)
    renamed[i] = {int32_t(i)};
  std::unordered_map<std::string, std::vector<Value>> known;
  std::vector<Operation> kept;
  for (Operation& op : program.operations) {
    rename(op.operands, renamed);
    const auto [first, added] =
        known.emplace(fingerprint(program, op), op.results);
    if (added) {
      kept.push_back(std::move(op));
      continue;
    }
    for (size_t i = 0; i < op.results.size(); ++i)
      renamed[op.results[i].id] = first->second[i];
  }
  const size_t removed = program.operations.size() - kept.size();
  program.operations = std::move(kept);
  rename(program.results, renamed);
  compact(program);
  return removed;
}

// Runs `pass` on the program and, once each, on all bodies. Bodies may be
// shared with other programs, so a changed one is a copy.
class Runner {
 public:
  explicit Runner(size_t (*pass)(Program&)) : pass_(pass) {}

  size_t run(Program& program) {
    size_t removed = pass_(program);
    for (Operation& op : program.operations)
      for (Body& body : op.bodies) {
        auto [entry, added] = done_.try_emplace(body.get());
        if (added) {
          auto copy = std::make_shared<Program>(*body);
          const size_t count = run(*copy);
          removed += count;
          // Looked up again: the recursion may have rehashed the table.
          done_[body.get()] = {body, count ? Body(copy) : body};
        }
        body = done_[body.get()].second;
      }
    return removed;
  }

 private:
  size_t (*pass_)(Program&);
  // The original, kept so that its address stays taken, and its replacement.
  std::unordered_map<const Program*, std::pair<Body, Body>> done_;
};

}  // namespace

size_t dead_code_elimination(Program& program) {
  return Runner(remove_dead).run(program);
}

size_t common_subexpression_elimination(Program& program) {
  return Runner(merge_equal).run(program);
}

void optimize(Program& program, const AfterPass& after) {
  const auto run = [&](const char* name, size_t (*pass)(Program&)) {
    after({name, pass(program)}, program);
  };
  run("simplify", &simplify);
  run("common subexpressions", &common_subexpression_elimination);
  run("dead code", &dead_code_elimination);
}

}  // namespace neuronx::ir
