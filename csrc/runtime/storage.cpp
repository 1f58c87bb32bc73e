// SPDX-License-Identifier: Apache-2.0
#include "runtime/storage.h"

#include <cstring>
#include <memory>
#include <vector>

#include "common/metrics.h"
#include "nrt/handles.h"
#include "runtime/allocator.h"
#include "runtime/device.h"
#include "runtime/event.h"
#include "runtime/queue.h"
#include "runtime/stream.h"

namespace neuronx::runtime {
namespace {

// Up to here a pageable source is copied aside and the caller goes on; above,
// waiting is cheaper than a second pass over the bytes.
constexpr size_t kStagingLimit = 256 << 10;

}  // namespace

void copy_to_device(void* device_address,
                    const void* host,
                    size_t bytes,
                    c10::DeviceIndex device,
                    bool pinned_async) {
  if (bytes == 0) {
    return;
  }
  metrics::count(metrics::Metric::HostToDeviceBytes, bytes);
  const auto to = locate(device_address);
  Queue& queue = current_queue(device);
  const auto write = [to, bytes](const void* from) {
    nrt::write(to.segment, from, to.offset, bytes);
  };
  if (pinned_async) {
    queue.push_task(
        "copy to device", [write, host] { write(host); }, queue.site());
    return;
  }
  if (bytes <= kStagingLimit) {
    std::shared_ptr<char[]> staged(new char[bytes]);
    std::memcpy(staged.get(), host, bytes);
    queue.push_task(
        "copy to device",
        [write, staged] { write(staged.get()); },
        queue.site());
    return;
  }
  queue.wait(queue.push_task(
      "copy to device", [write, host] { write(host); }, queue.site()));
  queue.raise_error();
}

void copy_to_host(void* host,
                  const void* device_address,
                  size_t bytes,
                  c10::DeviceIndex device,
                  bool pinned_async) {
  if (bytes == 0) {
    return;
  }
  metrics::count(metrics::Metric::DeviceToHostBytes, bytes);
  const auto from = locate(device_address);
  Queue& queue = current_queue(device);
  const auto ticket = queue.push_task(
      "copy to host",
      [from, host, bytes] {
        nrt::read(from.segment, host, from.offset, bytes);
      },
      queue.site());
  if (!pinned_async) {
    queue.wait(ticket);
    queue.raise_error();
  }
}

void copy_on_device(void* to,
                    c10::DeviceIndex to_device,
                    const void* from,
                    c10::DeviceIndex from_device,
                    size_t bytes) {
  if (bytes == 0) {
    return;
  }
  const auto source = locate(from);
  const auto target = locate(to);
  if (to_device == from_device) {
    Queue& queue = current_queue(to_device);
    const auto copy = [source, target, bytes] {
      nrt::copy(
          source.segment, source.offset, target.segment, target.offset, bytes);
    };
    queue.push_task("copy on device", copy, queue.site());
    return;
  }
  // nrt_tensor_copy works within one core only.
  Event before(to_device, false);
  before.record(current_stream(to_device));
  before.block(current_stream(from_device));
  Queue& queue = current_queue(from_device);
  const auto copy = [source, target, bytes] {
    std::vector<char> buffer(bytes);
    nrt::read(source.segment, buffer.data(), source.offset, bytes);
    nrt::write(target.segment, buffer.data(), target.offset, bytes);
  };
  queue.push_task("copy between devices", copy, queue.site());
  Event after(from_device, false);
  after.record(current_stream(from_device));
  after.block(current_stream(to_device));
}

void resize_storage(c10::StorageImpl& storage, size_t bytes) {
  if (bytes == storage.nbytes()) {
    return;
  }
  TORCH_CHECK(storage.resizable(),
              "Trying to resize storage that is not "
              "resizable");
  const auto device = storage.device().index();
  c10::DataPtr grown = allocate(bytes, device);
  const size_t kept = std::min(bytes, storage.nbytes());
  if (kept > 0) {
    copy_on_device(grown.get(), device, storage.data_ptr().get(), device, kept);
  }
  storage.set_data_ptr_noswap(std::move(grown));
  storage.set_nbytes(bytes);
}

}  // namespace neuronx::runtime
