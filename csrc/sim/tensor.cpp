// SPDX-License-Identifier: Apache-2.0
// Tensors: allocation, slices, and what they tell about themselves.
#include "sim/tensor.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "common/log.h"
#include "sim/core.h"
#include "sim/exports.h"
#include "sim/fault.h"

namespace neuronx {

using namespace sim;

namespace sim {

NRT_STATUS check_range(const nrt_tensor_t& tensor,
                       size_t offset,
                       size_t size,
                       const char* call) noexcept {
  if (tensor.storage == nullptr) [[unlikely]] {
    return fail(
        NRT_INVALID,
        fmt::format(
            "{}: tensor \"{}\" has no buffer attached", call, tensor.name));
  }
  if (offset <= tensor.size && size <= tensor.size - offset) [[likely]] {
    return NRT_SUCCESS;
  }
  return misuse(NRT_INVALID,
                fmt::format("{}: bytes {} to {} are past the end of tensor "
                            "\"{}\" of {} bytes",
                            call,
                            offset,
                            offset + size,
                            tensor.name,
                            tensor.size));
}

namespace {

NRT_STATUS make(Storage* storage,
                size_t offset,
                size_t size,
                const char* name,
                nrt_tensor_t** tensor) {
  auto* made = new nrt_tensor_t;
  made->storage = storage;
  made->offset = offset;
  made->size = size;
  if (name != nullptr && *name != '\0') {
    made->name = name;
  }
  *tensor = made;
  return NRT_SUCCESS;
}

NRT_STATUS allocate(nrt_tensor_placement_t placement,
                    int vnc,
                    size_t size,
                    const char* name,
                    nrt_tensor_t** tensor) {
  constexpr const char* kCall = "nrt_tensor_allocate";
  if (placement == NRT_TENSOR_PLACEMENT_HOST) {
    if (vnc != -1) {
      return fail(NRT_INVALID,
                  std::string(kCall) + ": host memory belongs to core -1");
    }
    return make(allocate_host(size), 0, size, name, tensor);
  }
  if (placement != NRT_TENSOR_PLACEMENT_DEVICE) {
    return fail(NRT_INVALID, std::string(kCall) + ": unknown placement");
  }
  Core* core = find_core(vnc, kCall);
  if (core == nullptr) {
    return NRT_INVALID;
  }
  if (const auto status = fault(FaultKind::Allocate)) {
    return status;
  }
  NRT_STATUS status = NRT_SUCCESS;
  Storage* storage = allocate_device(*core, size, status);
  return storage == nullptr ? status : make(storage, 0, size, name, tensor);
}

// Polls: completions are counted on the execution path, which wakes nobody.
NRT_STATUS await_completions(const nrt_tensor_t& tensor,
                             int64_t timeout_us,
                             uint64_t count) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kInterval = std::chrono::microseconds(20);
  constexpr auto kWarnAfter = std::chrono::seconds(30);
  const auto start = Clock::now();
  bool warned = false;
  while (tensor.completions.load(std::memory_order_acquire) < count) {
    const auto waited = Clock::now() - start;
    if (timeout_us >= 0 && waited >= std::chrono::microseconds(timeout_us)) {
      return fail(NRT_TIMEOUT,
                  fmt::format("tensor \"{}\" was written {} times in {} us, "
                              "not {}",
                              tensor.name,
                              tensor.completions.load(),
                              timeout_us,
                              count));
    }
    if (!warned && waited >= kWarnAfter) {
      warned = true;
      log::warning(fmt::format("still waiting for tensor \"{}\" to be written",
                               tensor.name));
    }
    std::this_thread::sleep_for(kInterval);
  }
  return NRT_SUCCESS;
}

}  // namespace
}  // namespace sim

NRT_STATUS nrt_tensor_allocate(nrt_tensor_placement_t placement,
                               int vnc,
                               size_t size,
                               const char* name,
                               nrt_tensor_t** tensor) {
  if (const auto status = running(__func__)) {
    return status;
  }
  if (tensor == nullptr || size == 0) {
    return fail(NRT_INVALID,
                tensor == nullptr
                    ? "nrt_tensor_allocate: the result pointer is null"
                    : "nrt_tensor_allocate: the size is 0");
  }
  return guarded([&] { return allocate(placement, vnc, size, name, tensor); });
}

void nrt_tensor_free(nrt_tensor_t** tensor) {
  if (tensor == nullptr || *tensor == nullptr) {
    return;
  }
  nrt_tensor_t* freed = std::exchange(*tensor, nullptr);
  if (phase.load(std::memory_order_acquire) != Phase::Running) {
    not_running(__func__);
    if (freed->tag != Tag::Tensor) {
      return;
    }
  } else if (check_handle(freed, __func__) == NRT_INVALID_HANDLE &&
             freed->tag != Tag::Tensor) {
    return;
  }
  if (strict() && freed->in_flight.load() > 0) {
    abort_strict("nrt_tensor_free: tensor \"" + freed->name +
                 "\" is used by a request that has not completed");
  }
  if (freed->storage != nullptr) {
    release(*freed->storage);
  }
  dispose(freed);
}

NRT_STATUS nrt_tensor_allocate_slice(const nrt_tensor_t* source,
                                     size_t offset,
                                     size_t size,
                                     const char* name,
                                     nrt_tensor_t** slice) {
  if (const auto status = running(__func__)) {
    return status;
  }
  if (const auto status = check_handle(source, __func__)) {
    return status;
  }
  if (slice == nullptr || source->storage == nullptr || offset > source->size ||
      size > source->size - offset) [[unlikely]] {
    return fail(NRT_INVALID,
                fmt::format("nrt_tensor_allocate_slice: bytes {} to {} are "
                            "not inside tensor \"{}\" of {} bytes",
                            offset,
                            offset + size,
                            source->name,
                            source->size));
  }
  return guarded([&] {
    const auto status =
        make(source->storage, source->offset + offset, size, name, slice);
    retain(*source->storage);
    return status;
  });
}

NRT_STATUS nrt_tensor_allocate_empty(const char* name, nrt_tensor_t** tensor) {
  if (const auto status = running(__func__)) {
    return status;
  }
  if (tensor == nullptr) {
    return fail(NRT_INVALID,
                "nrt_tensor_allocate_empty: the result pointer is null");
  }
  return guarded([&] { return make(nullptr, 0, 0, name, tensor); });
}

NRT_STATUS nrt_tensor_attach_buffer(nrt_tensor_t* tensor,
                                    void* buffer,
                                    size_t size) {
  if (const auto status = running(__func__)) {
    return status;
  }
  if (const auto status = check_handle(tensor, __func__)) {
    return status;
  }
  if (buffer == nullptr || size == 0) {
    return fail(NRT_INVALID, "nrt_tensor_attach_buffer: there is no buffer");
  }
  Storage* old = tensor->storage;
  if (old != nullptr && old->kind != Storage::Kind::Attached) {
    return fail(NRT_INVALID,
                "nrt_tensor_attach_buffer: tensor \"" + tensor->name +
                    "\" has memory of its own");
  }
  return guarded([&] {
    tensor->storage = attach(buffer, size);
    tensor->size = size;
    tensor->offset = 0;
    if (old != nullptr) {
      release(*old);
    }
    return NRT_SUCCESS;
  });
}

size_t nrt_tensor_get_size(const nrt_tensor_t* tensor) {
  return running(__func__) || check_handle(tensor, __func__) ? 0 : tensor->size;
}

void* nrt_tensor_get_va(const nrt_tensor_t* tensor) {
  if (running(__func__) || check_handle(tensor, __func__) ||
      tensor->storage == nullptr) {
    return nullptr;
  }
  return static_cast<std::byte*>(tensor->storage->address) + tensor->offset;
}

NRT_STATUS nrt_tensor_get_device_allocation_info(
    const nrt_tensor_t* tensor, nrt_tensor_device_allocation_info_t* info) {
  if (const auto status = running(__func__)) {
    return status;
  }
  if (const auto status = check_handle(tensor, __func__)) {
    return status;
  }
  const Core* core = tensor->core();
  if (info == nullptr || core == nullptr) {
    return fail(NRT_INVALID,
                "nrt_tensor_get_device_allocation_info: not a device tensor");
  }
  // Two physical cores share an HBM stack.
  info->physical_address =
      reinterpret_cast<uint64_t>(nrt_tensor_get_va(tensor));
  info->size = tensor->size;
  info->hbm_index =
      core->host_index * simulator().machine.logical_core_config / 2;
  return NRT_SUCCESS;
}

NRT_STATUS nrt_tensor_check_output_completion(const nrt_tensor_t* tensor,
                                              int64_t timeout_us,
                                              uint64_t count) {
  if (const auto status = running(__func__)) {
    return status;
  }
  if (const auto status = check_handle(tensor, __func__)) {
    return status;
  }
  return guarded([&] { return await_completions(*tensor, timeout_us, count); });
}

NRT_STATUS nrt_tensor_reset_output_completion(nrt_tensor_t* tensor) {
  if (const auto status = running(__func__)) {
    return status;
  }
  if (const auto status = check_handle(tensor, __func__)) {
    return status;
  }
  tensor->completions = 0;
  return NRT_SUCCESS;
}

}  // namespace neuronx
