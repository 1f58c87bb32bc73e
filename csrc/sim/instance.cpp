// SPDX-License-Identifier: Apache-2.0
// What the simulated host says about itself.
#include <algorithm>
#include <cstring>

#include "nrt/status_table.h"
#include "sim/core.h"
#include "sim/error.h"
#include "sim/exports.h"

namespace neuronx {

using namespace sim;

namespace {

// The runtime of SDK 2.32, whose interface this library has.
constexpr nrt_version_t kVersion = {
    2, 34, 10, 0, "2.34.10.0 torch_neuronx simulator", ""};

uint32_t instance_size(const Machine& machine) {
  switch (machine.chips) {
    case 1:
      return NRT_INSTANCE_SIZE_3XL;
    case 16:
      return NRT_INSTANCE_SIZE_48XL;
    default:
      return NRT_INSTANCE_SIZE_UNKNOWN;
  }
}

}  // namespace

NRT_STATUS nrt_get_version(nrt_version_t* version, size_t size) {
  if (version == nullptr || size == 0) {
    return fail(NRT_INVALID, "nrt_get_version: no room for the result");
  }
  std::memcpy(version, &kVersion, std::min(size, sizeof(kVersion)));
  return NRT_SUCCESS;
}

const char* nrt_get_status_as_str(NRT_STATUS status) {
  const auto* entry = nrt::find_status(status);
  return entry != nullptr ? entry->name : "NRT_UNKNOWN";
}

NRT_STATUS nrt_get_instance_info(nrt_instance_info_t* info, size_t size) {
  if (info == nullptr || size < sizeof(*info)) {
    return fail(NRT_INVALID, "nrt_get_instance_info: no room for the result");
  }
  return guarded([&] {
    const Machine machine =
        phase.load() == Phase::Running ? simulator().machine : read_machine();
    const bool trn3 = machine.chip == Chip::Trn3;
    *info = {};
    info->family = trn3 ? NRT_INSTANCE_TRN3 : NRT_INSTANCE_TRN2;
    info->size = instance_size(machine);
    std::strcpy(info->arch_name, trn3 ? "trn3" : "trn2");
    return NRT_SUCCESS;
  });
}

NRT_STATUS nrt_get_vnc_memory_stats(uint32_t vnc,
                                    nrt_vnc_memory_stats_t* stats,
                                    size_t size_in,
                                    size_t* size_out) {
  if (const auto status = running(__func__)) {
    return status;
  }
  if (stats == nullptr || size_out == nullptr || size_in == 0) {
    return fail(NRT_INVALID,
                "nrt_get_vnc_memory_stats: no room for the result");
  }
  const Core* core = find_core(vnc, __func__);
  if (core == nullptr) {
    return NRT_INVALID;
  }
  const nrt_vnc_memory_stats_t current{core->used.load(), core->limit};
  *size_out = std::min(size_in, sizeof(current));
  std::memcpy(stats, &current, *size_out);
  return NRT_SUCCESS;
}

NRT_STATUS nrt_host_device_id_get(int neuron_device, uint32_t* host_device_id) {
  if (const auto status = running(__func__)) {
    return status;
  }
  if (host_device_id == nullptr || neuron_device < 0 ||
      neuron_device >= simulator().machine.chips) {
    return fail(NRT_INVALID, "nrt_host_device_id_get: there is no such chip");
  }
  *host_device_id = static_cast<uint32_t>(neuron_device);
  return NRT_SUCCESS;
}

NRT_STATUS nrt_host_device_id_rid_map_get(uint32_t* count, uint32_t* map) {
  if (const auto status = running(__func__)) {
    return status;
  }
  if (count == nullptr || map == nullptr) {
    return fail(NRT_INVALID,
                "nrt_host_device_id_rid_map_get: no room for the result");
  }
  *count = static_cast<uint32_t>(simulator().machine.chips);
  for (uint32_t chip = 0; chip < *count; ++chip) {
    map[chip] = chip;
  }
  return NRT_SUCCESS;
}

}  // namespace neuronx
