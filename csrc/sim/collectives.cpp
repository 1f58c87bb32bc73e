// SPDX-License-Identifier: Apache-2.0
// Communication between processes, for a world of one.
#include <fmt/format.h>

#include <cstring>

#include "common/log.h"
#include "sim/core.h"
#include "sim/error.h"
#include "sim/exports.h"

namespace neuronx {

using namespace sim;

namespace {

NRT_STATUS check_world(int32_t vnc,
                       uint32_t device_id,
                       uint32_t device_count,
                       const char* call) {
  if (const auto status = running(call)) {
    return status;
  }
  if (vnc != -1 && find_core(vnc, call) == nullptr) {
    return NRT_INVALID;
  }
  if (device_count == 0 || device_id >= device_count) {
    return fail(NRT_INVALID,
                fmt::format("{}: there is no participant {} among {}",
                            call,
                            device_id,
                            device_count));
  }
  if (device_count > 1) {
    auto text = fmt::format(
        "{}: the simulator has no collectives among {} participants yet",
        call,
        device_count);
    log::error(text);
    return fail(NRT_FAILURE, std::move(text));
  }
  return NRT_SUCCESS;
}

}  // namespace

NRT_STATUS nrt_build_global_comm(int32_t vnc,
                                 uint32_t device_id,
                                 uint32_t device_count) {
  return check_world(vnc, device_id, device_count, __func__);
}

NRT_STATUS nrt_barrier(int32_t vnc, uint32_t device_id, uint32_t device_count) {
  return check_world(vnc, device_id, device_count, __func__);
}

NRT_STATUS nrt_all_gather(int32_t vnc,
                          uint32_t device_id,
                          uint32_t device_count,
                          uint32_t bytes_per_rank,
                          void* input,
                          void* output) {
  if (const auto status = check_world(vnc, device_id, device_count, __func__)) {
    return status;
  }
  if (bytes_per_rank > 0 && (input == nullptr || output == nullptr)) {
    return fail(NRT_INVALID, "nrt_all_gather: a buffer is null");
  }
  std::memmove(output, input, bytes_per_rank);
  return NRT_SUCCESS;
}

}  // namespace neuronx
