// SPDX-License-Identifier: Apache-2.0
// Prototypes of what libnrt_sim exports, from the tables that its users load.
#pragma once

#include "nrt/functions.h"

namespace neuronx {
#define NEURONX_EXPORT(result, name, parameters) \
  extern "C" __attribute__((visibility("default"))) result name parameters;
NEURONX_NRT_REQUIRED(NEURONX_EXPORT)
NEURONX_NRT_OPTIONAL(NEURONX_EXPORT)
NEURONX_NRT_SIMULATOR(NEURONX_EXPORT)
NEURONX_NRTA_GEN3(NEURONX_EXPORT)
NEURONX_NRTA_EVENTS(NEURONX_EXPORT)
#undef NEURONX_EXPORT
}  // namespace neuronx
