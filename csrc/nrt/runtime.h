// SPDX-License-Identifier: Apache-2.0
// Runtime: the loaded runtime library as a table of function pointers.
//
// TORCH_NEURONX_RUNTIME=auto|nrt|sim chooses the library: auto is the vendor's
// when the machine has a Neuron device and the simulator otherwise.
// TORCH_NEURONX_LIBNRT=<path> overrides the choice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "nrt/abi.h"
#include "nrt/functions.h"

namespace neuronx::nrt {

// Generations of nrta_* are incompatible under the same symbol names.
enum class AsyncGeneration { None, Gen2, Gen3 };

#define NEURONX_POINTER(result, name, parameters) \
  result(*name) parameters = nullptr;

struct Runtime {
  NEURONX_NRT_REQUIRED(NEURONX_POINTER)
  NEURONX_NRT_OPTIONAL(NEURONX_POINTER)   // null when missing
  NEURONX_NRT_SIMULATOR(NEURONX_POINTER)  // null on the vendor's library
  // Null unless `async` is Gen3.
  NEURONX_NRTA_GEN3(NEURONX_POINTER)
  NEURONX_NRTA_EVENTS(NEURONX_POINTER)

  AsyncGeneration async = AsyncGeneration::None;
  bool has_events = false;  // nrta_event_register_*
  bool simulated = false;
  nrt_version_t version{};
  std::string path;
};
#undef NEURONX_POINTER

// Loads one library. Throws NotRunning when it cannot be loaded or lacks a
// required function, with the missing names.
Runtime load(const std::string& path);
// The path or name that the environment chooses. Throws
// std::invalid_argument for a malformed variable.
std::string library_path();

// The process's runtime, loaded on first use and kept. Throws as above.
const Runtime& runtime();

// nrt_init, once per process; takes the visible cores. Throws, also in a
// forked child of a process that had done it.
void initialize();
bool initialized() noexcept;
// nrt_close. Handles that are still alive become inert.
void close() noexcept;
// Changes whenever handles become dead: by close or fork.
uint64_t generation() noexcept;

// Visible logical cores, 0 on any error. Usable before initialize().
uint32_t device_count_without_init() noexcept;
// Why it is 0, in a sentence; empty when it is not.
std::string why_no_device() noexcept;

struct Instance {
  std::string name;          // "Trainium2"
  std::string architecture;  // "trn2"
  int logical_core_config;   // physical cores per logical core
  bool simulated;
};
Instance instance();

struct MemoryStats {
  size_t used, limit;  // bytes
};
// Of a logical core. Needs initialize().
MemoryStats memory(int vnc);

// The runtime's text for this thread's last failed call, if it keeps one.
std::string last_error() noexcept;

}  // namespace neuronx::nrt
