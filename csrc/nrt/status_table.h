// SPDX-License-Identifier: Apache-2.0
// Every status code with its name and explanation.
#pragma once

#include <string_view>

#include "nrt/abi.h"

namespace neuronx::nrt {

struct StatusText {
  NRT_STATUS code;
  const char* name;
  std::string_view explanation;
};

#define NEURONX_STATUS(code, explanation) {code, #code, explanation}

inline constexpr StatusText kStatusTable[] = {
    NEURONX_STATUS(NRT_SUCCESS, "it worked"),
    NEURONX_STATUS(NRT_FAILURE, "the Neuron runtime failed"),
    NEURONX_STATUS(NRT_INVALID, "the Neuron runtime refused an argument"),
    NEURONX_STATUS(NRT_INVALID_HANDLE,
                   "a runtime object was used that is not alive"),
    NEURONX_STATUS(NRT_RESOURCE,
                   "out of memory: the Neuron core has no room for it; free "
                   "tensors, lower the batch size or shard the model"),
    NEURONX_STATUS(NRT_TIMEOUT,
                   "the device did not answer in time; raise "
                   "NEURON_RT_EXEC_TIMEOUT if the program may run long"),
    NEURONX_STATUS(NRT_HW_ERROR,
                   "the Neuron hardware failed; restart the process, then "
                   "the host if it persists"),
    NEURONX_STATUS(NRT_QUEUE_FULL,
                   "the device's queue is full; wait for a completion"),
    NEURONX_STATUS(NRT_LOAD_NOT_ENOUGH_NC,
                   "there are not enough Neuron cores; check "
                   "NEURON_RT_VISIBLE_CORES and NEURON_RT_NUM_CORES and that "
                   "no other process holds the cores"),
    NEURONX_STATUS(NRT_UNSUPPORTED_NEFF_VERSION,
                   "the compiled program does not fit this runtime; compile "
                   "it again with the matching neuronx-cc"),
    NEURONX_STATUS(NRT_FAIL_HOST_MEM_ALLOC, "the host is out of memory"),
    NEURONX_STATUS(NRT_UNINITIALIZED, "the Neuron runtime is not started"),
    NEURONX_STATUS(NRT_CLOSED, "the Neuron runtime is closed"),
    NEURONX_STATUS(NRT_QUEUE_EMPTY, "the device's queue is empty"),
    NEURONX_STATUS(NRT_EXEC_UNIT_UNRECOVERABLE,
                   "the Neuron core stopped for good; restart the process"),
    NEURONX_STATUS(NRT_EXEC_BAD_INPUT,
                   "the tensors do not fit the program's inputs and outputs"),
    NEURONX_STATUS(NRT_EXEC_COMPLETED_WITH_NUM_ERR,
                   "the program produced NaN or infinity where the runtime "
                   "checks for it"),
    NEURONX_STATUS(NRT_EXEC_COMPLETED_WITH_ERR, "the program failed"),
    NEURONX_STATUS(NRT_EXEC_NC_BUSY,
                   "the Neuron core is busy with another program"),
    NEURONX_STATUS(NRT_EXEC_OOB, "index out of range on the device"),
    NEURONX_STATUS(NRT_COLL_PENDING, "a collective is still pending"),
    NEURONX_STATUS(NRT_EXEC_HW_ERR_COLLECTIVES,
                   "a collective failed, likely because a participant or a "
                   "link is lost; restart all ranks"),
    NEURONX_STATUS(NRT_EXEC_HW_ERR_HBM_UE,
                   "uncorrectable error of device memory; replace the host"),
    NEURONX_STATUS(NRT_EXEC_HW_ERR_NC_UE,
                   "uncorrectable error of a Neuron core; replace the host"),
    NEURONX_STATUS(NRT_EXEC_HW_ERR_DMA_ABORT,
                   "a DMA transfer was aborted; restart the process"),
    NEURONX_STATUS(NRT_EXEC_SW_NQ_OVERFLOW,
                   "the runtime's notification queue overflowed"),
    NEURONX_STATUS(NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE,
                   "repairable error of device memory; restart the host"),
    NEURONX_STATUS(NRT_NETWORK_PROXY_FAILURE,
                   "the network proxy of the collectives failed; restart all "
                   "ranks"),
};
#undef NEURONX_STATUS

constexpr const StatusText* find_status(int code) {
  for (const auto& entry : kStatusTable) {
    if (entry.code == code) {
      return &entry;
    }
  }
  return nullptr;
}

}  // namespace neuronx::nrt
