// SPDX-License-Identifier: Apache-2.0
// Call: one operator call taken apart: its tensors, its scalars and its key.
#pragma once

#include <ATen/core/stack.h>
#include <c10/core/TensorImpl.h>

#include <vector>

#include "eager/cache.h"
#include "eager/op_info.h"

namespace neuronx::eager {

struct ScalarValue {
  bool floating;
  uint64_t bits;  // of the double or the int64
};

struct Call {
  c10::DeviceIndex device = -1;
  // Device tensors in order of appearance, list elements included.
  std::vector<c10::TensorImpl*> tensors;
  // Positions in `tensors` of those that the call writes, ascending.
  std::vector<int16_t> written;
  // Numbers and 0-dim CPU tensors in order of appearance.
  std::vector<ScalarValue> scalars;
  Key key;
  // Words of the key that do not depend on the scalars' values.
  size_t structure = 0;
  // A dtype or layout that device programs do not have.
  bool host_only = false;

  void clear();
};

// Takes the arguments on the stack apart. Throws for tensors on other
// devices, as PyTorch does.
void read_call(const OpInfo& info, const torch::jit::Stack& stack, Call& call);

// The key of the entry that serves every value of the scalars.
void general_key(const Call& call, Key& key);

// A Call from the thread's pool, for the scope's life.
class CallScope {
 public:
  CallScope();
  ~CallScope();
  Call& call;
};

}  // namespace neuronx::eager
