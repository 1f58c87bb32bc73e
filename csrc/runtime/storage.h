// SPDX-License-Identifier: Apache-2.0
// Moving bytes and resizing storages, in stream order.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/StorageImpl.h>

#include <cstddef>

namespace neuronx::runtime {

// Grows or shrinks a device storage on the current stream; the common prefix
// keeps its bytes, 0 frees the memory.
void resize_storage(c10::StorageImpl& storage, size_t bytes);

// Copies between a host buffer and device memory on the device's current
// stream. A pageable source is read before the call returns; the call waits
// for a pageable destination. `pinned`: the host buffer stays untouched until
// the stream has passed.
void copy_to_device(void* device_address,
                    const void* host,
                    size_t bytes,
                    c10::DeviceIndex device,
                    bool pinned_async);
void copy_to_host(void* host,
                  const void* device_address,
                  size_t bytes,
                  c10::DeviceIndex device,
                  bool pinned_async);
// Within one device, or between two (through the host), on the current stream
// of the source's device; the destination's stream waits.
void copy_on_device(void* to,
                    c10::DeviceIndex to_device,
                    const void* from,
                    c10::DeviceIndex from_device,
                    size_t bytes);

}  // namespace neuronx::runtime
