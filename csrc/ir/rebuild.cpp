// SPDX-License-Identifier: Apache-2.0
#include "ir/rebuild.h"

#include <utility>

namespace neuronx::ir {

Values copy(Builder& b,
            const Operation& op,
            const Values& operands,
            std::vector<TensorType> types) {
  Operation same = op;
  same.operands = operands;
  same.results.clear();
  return b.append(std::move(same), std::move(types));
}

Program rebuild(const Program& program, const Emit& emit) {
  Builder b(program.name);
  Values values(program.types.size());
  for (Value v : program.parameters)
    values[v.id] = b.parameter(program.type(v));
  for (const Operation& op : program.operations) {
    Values operands;
    for (Value v : op.operands)
      operands.push_back(values[v.id]);
    auto results = emit(b, op, operands);
    if (!results) {
      std::vector<TensorType> types;
      for (Value v : op.results)
        types.push_back(program.type(v));
      results = copy(b, op, operands, std::move(types));
    }
    for (size_t i = 0; i < results->size(); ++i)
      values[op.results[i].id] = (*results)[i];
  }
  Values results;
  for (Value v : program.results)
    results.push_back(values[v.id]);
  return b.finish(results, program.aliases);
}

}  // namespace neuronx::ir
