// SPDX-License-Identifier: Apache-2.0
#include "nrt/status.h"

#include <fmt/format.h>

#include "nrt/runtime.h"
#include "nrt/status_table.h"

namespace neuronx::nrt {

std::string name(NRT_STATUS status) {
  const auto* entry = find_status(status);
  return entry != nullptr
             ? entry->name
             : "unknown status " + std::to_string(static_cast<int>(status));
}

std::string_view explain(NRT_STATUS status) {
  const auto* entry = find_status(status);
  return entry != nullptr ? entry->explanation
                          : "the Neuron runtime failed in a way that this "
                            "version of torch_neuronx does not know";
}

void raise(NRT_STATUS status, std::string_view what) {
  auto message = fmt::format("[{}] {} ({}, status {})",
                             what,
                             explain(status),
                             name(status),
                             static_cast<int>(status));
  if (const std::string detail = last_error(); !detail.empty()) {
    message.append(": ").append(detail);
  }
  switch (status) {
    case NRT_INVALID:
    case NRT_INVALID_HANDLE:
    case NRT_EXEC_BAD_INPUT:
      throw InvalidArgument(status, message);
    case NRT_RESOURCE:
    case NRT_FAIL_HOST_MEM_ALLOC:
      throw OutOfMemory(status, message);
    case NRT_TIMEOUT:
      throw Timeout(status, message);
    case NRT_QUEUE_FULL:
      throw QueueFull(status, message);
    case NRT_UNINITIALIZED:
    case NRT_CLOSED:
      throw NotRunning(status, message);
    case NRT_LOAD_NOT_ENOUGH_NC:
    case NRT_UNSUPPORTED_NEFF_VERSION:
      throw LoadError(status, message);
    case NRT_EXEC_COMPLETED_WITH_NUM_ERR:
      throw NumericalError(status, message);
    case NRT_EXEC_OOB:
      throw IndexOutOfRange(status, message);
    case NRT_EXEC_COMPLETED_WITH_ERR:
    case NRT_EXEC_NC_BUSY:
      throw ExecutionError(status, message);
    case NRT_HW_ERROR:
    case NRT_EXEC_UNIT_UNRECOVERABLE:
    case NRT_EXEC_HW_ERR_COLLECTIVES:
    case NRT_EXEC_HW_ERR_HBM_UE:
    case NRT_EXEC_HW_ERR_NC_UE:
    case NRT_EXEC_HW_ERR_DMA_ABORT:
    case NRT_EXEC_SW_NQ_OVERFLOW:
    case NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE:
    case NRT_NETWORK_PROXY_FAILURE:
      throw HardwareError(status, message);
    default:
      throw NrtError(status, message);
  }
}

}  // namespace neuronx::nrt
