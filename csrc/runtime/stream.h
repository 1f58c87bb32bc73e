// SPDX-License-Identifier: Apache-2.0
// Stream: an ordered queue of device work. Stream 0 of a device is its
// default; a pool of others is handed out round robin, per priority.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

namespace neuronx::runtime {

class Queue;

// Streams per device and priority in the pool.
inline constexpr int kStreamsPerPool = 8;

c10::Stream default_stream(c10::DeviceIndex device);
c10::Stream current_stream(c10::DeviceIndex device);
// Sets the thread's current stream of its device; returns the previous one.
c10::Stream exchange_stream(c10::Stream stream);
// priority < 0 is high; anything else is normal.
c10::Stream new_stream(c10::DeviceIndex device, int priority);

// The queue behind a stream, created with its worker at first use. Starts the
// runtime. Throws for a device that does not exist.
Queue& queue(c10::Stream stream);
Queue& current_queue(c10::DeviceIndex device);
// The queue if the stream has been used, else nullptr.
Queue* existing_queue(c10::Stream stream) noexcept;

// True when everything queued so far has run.
bool query_stream(c10::Stream stream);
// Waits for the stream; raises what failed on it.
void synchronize_stream(c10::Stream stream);
void synchronize_device(c10::DeviceIndex device);
// As above but errors stay with their stream; used before memory is released.
void drain_device(c10::DeviceIndex device);

}  // namespace neuronx::runtime
