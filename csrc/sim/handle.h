// SPDX-License-Identifier: Apache-2.0
// What all handles have in common: a tag that tells kind and life.
#pragma once

#include <cstdint>

#include "sim/error.h"

namespace neuronx::sim {

enum class Tag : uint32_t {
  Tensor = 0x7e50a001,
  TensorSet = 0x7e50a002,
  Model = 0x7e50a003,
  Freed = 0xdeadbeef,
};

// NRT_INVALID for null, NRT_INVALID_HANDLE for a freed handle or one of
// another kind; the latter abort in strict mode.
NRT_STATUS bad_handle(bool null, const char* kind, const char* call) noexcept;

template <typename Handle>
NRT_STATUS check_handle(const Handle* handle, const char* call) noexcept {
  if (handle != nullptr && handle->tag == Handle::kTag && handle->alive())
      [[likely]] {
    return NRT_SUCCESS;
  }
  return bad_handle(handle == nullptr, Handle::kKind, call);
}

// Ends a handle's life. In strict mode its memory stays, so that later use is
// recognised.
void keep_forever(void* handle);

template <typename Handle>
void dispose(Handle* handle) {
  handle->tag = Tag::Freed;
  if (strict()) {
    keep_forever(handle);
  } else {
    delete handle;
  }
}

}  // namespace neuronx::sim
