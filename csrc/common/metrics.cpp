// SPDX-License-Identifier: Apache-2.0
#include "common/metrics.h"

namespace neuronx::metrics {
namespace {

constexpr const char* kNames[] = {
    "launches",
    "cache_misses",
    "programs_compiled",
    "disk_cache_hits",
    "decompositions",
    "fallbacks",
    "scalar_generalizations",
    "allocator_retries",
    "hardware_rewrites",
    "int64_narrowings",
    "host_to_device_bytes",
    "device_to_host_bytes",
    "compile_failures",
    "cache_repairs",
    "cache_evictions",
    "program_unloads",
    "alias_copies",
};
static_assert(std::size(kNames) == static_cast<size_t>(Metric::Count));

}  // namespace

std::map<std::string, uint64_t> snapshot() {
  std::map<std::string, uint64_t> result;
  for (size_t i = 0; i < std::size(kNames); ++i) {
    result[kNames[i]] = counter(static_cast<Metric>(i)).load();
  }
  return result;
}

void reset() {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    counter(static_cast<Metric>(i)).store(0);
  }
}

}  // namespace neuronx::metrics
