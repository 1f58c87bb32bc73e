// SPDX-License-Identifier: Apache-2.0
// nrt_tensor_t: a named range of a storage.
#pragma once

#include <atomic>
#include <string>

#include "sim/handle.h"
#include "sim/memory.h"

namespace neuronx {

struct nrt_tensor_t {
  static constexpr sim::Tag kTag = sim::Tag::Tensor;
  static constexpr const char* kKind = "tensor";

  sim::Tag tag = kTag;
  // Asynchronous requests that use it.
  std::atomic<uint32_t> in_flight{0};
  sim::Storage* storage = nullptr;  // null: empty, nothing attached yet
  size_t offset = 0;
  size_t size = 0;
  // Executions that wrote it, since the last reset.
  std::atomic<uint64_t> completions{0};
  std::string name;

  // False after nrt_close took the memory away.
  bool alive() const { return storage == nullptr || storage->data != nullptr; }
  std::byte* data() const { return storage->data + offset; }
  sim::Core* core() const {
    return storage != nullptr ? storage->core : nullptr;
  }
};

namespace sim {

// NRT_SUCCESS when [offset, offset + size) is inside the tensor. Anything
// else is NRT_INVALID and aborts in strict mode.
NRT_STATUS check_range(const nrt_tensor_t& tensor,
                       size_t offset,
                       size_t size,
                       const char* call) noexcept;

}  // namespace sim
}  // namespace neuronx
