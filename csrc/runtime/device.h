// SPDX-License-Identifier: Apache-2.0
// Device: the logical NeuronCores that this process sees.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace neuronx::runtime {

inline constexpr c10::DeviceType kNeuron = c10::DeviceType::PrivateUse1;
// Upper bound of logical cores per process (a trn2.48xlarge has 64 at LNC 2,
// 128 at LNC 1).
inline constexpr int kMaxDevices = 128;

struct DeviceProperties {
  std::string name;          // "Trainium2", ...
  std::string architecture;  // "trn2", "trn3"
  size_t total_memory = 0;   // bytes of the logical core's HBM
  int physical_cores = 2;    // NeuronCores per logical core
  bool simulated = false;
};

// Number of visible logical cores; 0 when there is none or the environment is
// malformed. Never throws, takes no core.
c10::DeviceIndex device_count() noexcept;

// Starts the runtime once per process (nrt_init) and takes the cores. Throws
// when it cannot, and after a fork of a process that had started it.
void initialize();
bool initialized() noexcept;

// The calling thread's current device.
c10::DeviceIndex current_device() noexcept;
// Throws for an index outside [0, device_count()).
void set_device(c10::DeviceIndex index);
void unchecked_set_device(c10::DeviceIndex index) noexcept;

// Throws like CUDA's "invalid device ordinal".
void check_device_index(int64_t index);

DeviceProperties device_properties(c10::DeviceIndex index);

// Free and total bytes of the logical core, as the runtime counts them.
std::pair<size_t, size_t> device_memory(c10::DeviceIndex index);

}  // namespace neuronx::runtime
