// SPDX-License-Identifier: Apache-2.0
// The memory of intermediate values.
#pragma once

#include <deque>

#include "sim/executor/plan.h"

namespace neuronx::sim {

// Gives every arena buffer an offset, sharing memory between buffers that are
// never needed at the same time. Returns the bytes in total.
int64_t layout_arena(std::deque<Buffer>& buffers);

// At least `bytes` bytes for one run on this thread, aligned to 64. A run
// within a run has memory of its own; runs of one depth share it.
class Arena {
 public:
  explicit Arena(int64_t bytes);
  Arena(const Arena&) = delete;
  ~Arena();

  char* memory() const { return memory_; }  // null for no bytes

 private:
  char* memory_;
};

}  // namespace neuronx::sim
