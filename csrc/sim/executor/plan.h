// SPDX-License-Identifier: Apache-2.0
// Plan: a flat program with a place for every value and a step for every
// operation that does something.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "sim/executor/flatten.h"
#include "sim/executor/interpreter.h"
#include "sim/executor/shell.h"

namespace neuronx::sim {

// Memory behind values. The pointers of inputs, outputs and the arena are set
// before a run, those of dynamic buffers by the step that creates them.
struct Buffer {
  enum class Kind { Input, Output, Arena, Constant, Dynamic };
  Kind kind;
  int64_t bytes;
  StoragePtr storage;
  // Input or output number.
  int32_t number = -1;
  // Arena: bytes from its start, and the first and last step that need it.
  int64_t offset = 0;
  int32_t first = -1, last = -1;
  // Constant and Dynamic: who owns the memory.
  at::Tensor held = {};
};

struct Plan {
  std::deque<Buffer> buffers;
  std::vector<std::function<void()>> steps;
  int64_t arena_bytes = 0;
  // One pointwise step on whole buffers: inputs may equal the output.
  bool pointwise = false;
};

// The plan refers to `flat` and `interpreter`, which must outlive it.
void make_plan(Plan& plan, const Flat& flat, Interpreter& interpreter);

}  // namespace neuronx::sim
