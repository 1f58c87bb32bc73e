// SPDX-License-Identifier: Apache-2.0
// Page-locked host memory, cached and reused once the streams that copy from
// or to it have passed.
#pragma once

#include <ATen/core/CachingHostAllocator.h>

namespace neuronx::runtime {

at::HostAllocator& host_allocator();

// Also for interior pointers.
bool is_pinned(const void* address) noexcept;

}  // namespace neuronx::runtime
