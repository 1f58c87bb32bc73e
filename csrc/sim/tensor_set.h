// SPDX-License-Identifier: Apache-2.0
// Tensor set: named tensors of a launch, resolved to addresses once per model
// and patched in place when a tensor is replaced.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/handle.h"
#include "sim/tensor.h"

namespace neuronx::sim {

// An input or output of a model.
struct Port {
  std::string name;        // the NEFF's
  std::string plain_name;  // without the suffix of aliased inputs
  size_t bytes;
};

struct TensorSet {
  static constexpr Tag kTag = Tag::TensorSet;
  static constexpr const char* kKind = "tensor set";

  struct Entry {
    std::string name;
    nrt_tensor_t* tensor;
    int32_t port = -1;  // of the resolved model, or -1
    size_t bytes = 0;   // that port's
  };

  Tag tag = kTag;
  // The ports that the set is resolved for (see nrt_model_t), 0 for none.
  uint64_t resolved = 0;
  Core* core = nullptr;
  std::vector<void*> addresses;        // by port
  std::vector<nrt_tensor_t*> tensors;  // by port, null for an empty one
  std::vector<Entry> entries;

  bool alive() const { return true; }
  Entry* find(std::string_view name);
  void set(const char* name, nrt_tensor_t* tensor);

  // Fills `addresses` and `tensors`. NRT_EXEC_BAD_INPUT names what does not
  // fit; in strict mode a size that differs aborts.
  NRT_STATUS resolve(uint64_t key, Core& core, const std::vector<Port>& ports);
  // Strict mode, at every launch: aborts if a tensor is freed.
  void check_tensors() const;
};

inline TensorSet* as_set(const nrt_tensor_set_t* set) {
  return static_cast<TensorSet*>(const_cast<nrt_tensor_set_t*>(set));
}

}  // namespace neuronx::sim
