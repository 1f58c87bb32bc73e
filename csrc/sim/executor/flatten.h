// SPDX-License-Identifier: Apache-2.0
// A Program as one list of operations: composites that nothing runs as a
// whole are replaced by their bodies.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "ir/program.h"
#include "sim/executor/aten_call.h"
#include "sim/executor/interpreter.h"
#include "sim/executor/native.h"

namespace neuronx::sim {

namespace pointwise {
struct RegionStack;
}

struct FlatOp {
  const ir::Operation* op;
  std::vector<int32_t> operands, results;
  // At most one of them; none means the interpreter, or the planner for
  // neuronx.as_strided and its like.
  const AtenOp* aten = nullptr;
  std::shared_ptr<AtenCall> call;
  Native native = nullptr;
  Writer writer = nullptr;
  // Regions of pointwise operators in the place of this one: see fusion.h. What
  // one of them passes on to the next is among both operands and results.
  std::shared_ptr<const pointwise::RegionStack> fused = nullptr;
};

struct Flat {
  std::vector<ir::TensorType> types;  // by value
  std::vector<int32_t> parameters, results;
  std::vector<int32_t> aliases;
  std::vector<FlatOp> ops;
  // What passes add, which the program does not hold.
  std::deque<ir::Operation> own;
};

// Keeps pointers into `program`. Operations that no result depends on are
// left out. Throws std::runtime_error for an operation that cannot run.
Flat flatten(const ir::Program& program, const Interpreter& interpreter);

}  // namespace neuronx::sim
