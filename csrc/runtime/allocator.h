// SPDX-License-Identifier: Apache-2.0
// Caching allocator of device memory: blocks carved from large runtime
// tensors ("segments"), reused in stream order.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <string>
#include <vector>

#include "nrt/abi.h"

namespace neuronx::runtime {

// The allocator registered for the device; leaked.
c10::DeviceAllocator& allocator();

// Fast path of allocate for the current stream of `device`.
c10::DataPtr allocate(size_t bytes, c10::DeviceIndex device);

// The segment that holds `address` and the byte offset in it.
struct Location {
  nrt_tensor_t* segment = nullptr;
  size_t offset = 0;
  c10::DeviceIndex device = -1;
};
Location locate(const void* address);
// Its device.
c10::DeviceIndex device_of(const void* address);  // -1: not ours

// Memory history for torch's viewer.
struct TraceEvent {
  const char* action;  // "alloc", "free_requested", "segment_alloc", ...
  c10::DeviceIndex device;
  size_t address, size;
  int64_t stream;
  int64_t time_us;  // since the epoch
};
void record_history(bool enabled, size_t max_entries);
std::vector<TraceEvent> history(c10::DeviceIndex device);
std::vector<c10::CachingDeviceAllocator::SegmentInfo> segments();

}  // namespace neuronx::runtime
