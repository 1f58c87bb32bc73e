// SPDX-License-Identifier: Apache-2.0
// Counters of everything that would otherwise happen silently.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

namespace neuronx::metrics {

enum class Metric {
  Launches,
  CacheMisses,
  ProgramsCompiled,
  DiskCacheHits,
  Decompositions,
  Fallbacks,
  ScalarGeneralizations,
  AllocatorRetries,
  HardwareRewrites,
  Int64Narrowings,
  HostToDeviceBytes,
  DeviceToHostBytes,
  CompileFailures,
  CacheRepairs,
  CacheEvictions,
  ProgramUnloads,
  AliasCopies,
  Count,
};

inline std::atomic<uint64_t>& counter(Metric metric) {
  static auto* counters =
      new std::atomic<uint64_t>[static_cast<int>(Metric::Count)]();
  return counters[static_cast<int>(metric)];
}

inline void count(Metric metric, uint64_t amount = 1) {
  counter(metric).fetch_add(amount, std::memory_order_relaxed);
}

// By their names in Python, as in "programs_compiled".
std::map<std::string, uint64_t> snapshot();
void reset();

}  // namespace neuronx::metrics
