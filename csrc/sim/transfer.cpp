// SPDX-License-Identifier: Apache-2.0
// Moving bytes: host to device, back, and within a core.
// One memcpy each: sharing it with a second thread measured no faster.
#include <fmt/format.h>

#include <cstring>

#include "sim/core.h"
#include "sim/exports.h"
#include "sim/fault.h"
#include "sim/tensor.h"

namespace neuronx {

using namespace sim;

namespace {

NRT_STATUS check_access(const nrt_tensor_t* tensor,
                        const void* buffer,
                        size_t offset,
                        size_t size,
                        const char* call) {
  if (const auto status = running(call)) {
    return status;
  }
  if (const auto status = check_handle(tensor, call)) {
    return status;
  }
  if (buffer == nullptr && size > 0) {
    return fail(NRT_INVALID, std::string(call) + ": the buffer is null");
  }
  return check_range(*tensor, offset, size, call);
}

using Transfer = NRT_STATUS (*)(const nrt_tensor_t*,
                                const nrt_tensor_batch_op_t&);

NRT_STATUS run_batches(const nrt_tensor_batch_t* batches,
                       uint64_t count,
                       const char* call,
                       Transfer transfer) {
  if (const auto status = running(call)) {
    return status;
  }
  if (batches == nullptr && count > 0) {
    return fail(NRT_INVALID, std::string(call) + ": the batches are null");
  }
  for (uint64_t i = 0; i < count; ++i) {
    const auto& batch = batches[i];
    if (batch.ops == nullptr && batch.num_ops > 0) {
      return fail(NRT_INVALID,
                  fmt::format("{}: batch {} has no operations", call, i));
    }
    for (uint32_t k = 0; k < batch.num_ops; ++k) {
      if (const auto status = transfer(batch.tensor, batch.ops[k])) {
        return status;
      }
    }
  }
  return NRT_SUCCESS;
}

}  // namespace

NRT_STATUS nrt_tensor_read(const nrt_tensor_t* tensor,
                           void* buffer,
                           size_t offset,
                           size_t size) {
  if (const auto status =
          check_access(tensor, buffer, offset, size, __func__)) {
    return status;
  }
  if (const auto status = fault(FaultKind::Read)) {
    return status;
  }
  std::memcpy(buffer, tensor->data() + offset, size);
  return NRT_SUCCESS;
}

NRT_STATUS nrt_tensor_write(nrt_tensor_t* tensor,
                            const void* buffer,
                            size_t offset,
                            size_t size) {
  if (const auto status =
          check_access(tensor, buffer, offset, size, __func__)) {
    return status;
  }
  if (const auto status = fault(FaultKind::Write)) {
    return status;
  }
  std::memcpy(tensor->data() + offset, buffer, size);
  return NRT_SUCCESS;
}

NRT_STATUS nrt_tensor_read_batch(const nrt_tensor_batch_t* batches,
                                 uint64_t count,
                                 bool) {
  return run_batches(
      batches,
      count,
      __func__,
      [](const nrt_tensor_t* tensor, const nrt_tensor_batch_op_t& op) {
        return nrt_tensor_read(tensor, op.buffer, op.offset, op.size);
      });
}

NRT_STATUS nrt_tensor_write_batch(const nrt_tensor_batch_t* batches,
                                  uint64_t count,
                                  bool) {
  return run_batches(
      batches,
      count,
      __func__,
      [](const nrt_tensor_t* tensor, const nrt_tensor_batch_op_t& op) {
        return nrt_tensor_write(
            const_cast<nrt_tensor_t*>(tensor), op.buffer, op.offset, op.size);
      });
}

NRT_STATUS nrt_tensor_copy(const nrt_tensor_t* source,
                           size_t source_offset,
                           nrt_tensor_t* destination,
                           size_t destination_offset,
                           size_t size) {
  if (const auto status = running(__func__)) {
    return status;
  }
  for (const nrt_tensor_t* tensor :
       {source, const_cast<const nrt_tensor_t*>(destination)}) {
    if (const auto status = check_handle(tensor, __func__)) {
      return status;
    }
  }
  if (const auto status = check_range(*source, source_offset, size, __func__)) {
    return status;
  }
  if (const auto status =
          check_range(*destination, destination_offset, size, __func__)) {
    return status;
  }
  const Core* from = source->core();
  const Core* to = destination->core();
  if (from != nullptr && to != nullptr && from != to) {
    return fail(NRT_INVALID,
                fmt::format("nrt_tensor_copy: core {} cannot copy to core {}",
                            from->index,
                            to->index));
  }
  if (const auto status = fault(FaultKind::Copy)) {
    return status;
  }
  std::memmove(destination->data() + destination_offset,
               source->data() + source_offset,
               size);
  return NRT_SUCCESS;
}

NRT_STATUS nrt_tensor_memset(nrt_tensor_t* tensor,
                             uint64_t offset,
                             int value,
                             size_t size) {
  if (const auto status =
          check_access(tensor, tensor, offset, size, __func__)) {
    return status;
  }
  std::memset(tensor->data() + offset, value, size);
  return NRT_SUCCESS;
}

}  // namespace neuronx
