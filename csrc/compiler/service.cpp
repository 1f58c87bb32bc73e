// SPDX-License-Identifier: Apache-2.0
#include "compiler/service.h"

#include <chrono>
#include <mutex>
#include <unordered_map>

#include "common/hash.h"
#include "common/metrics.h"
#include "compiler/neuronx_cc.h"
#include "ir/passes.h"
#include "ir/serialize.h"
#include "nrt/runtime.h"

namespace neuronx::compiler {
namespace {

struct Service {
  std::mutex mutex;
  std::unordered_map<std::string, std::shared_ptr<Executable>> executables;
  CacheStats stats;
};

Service& service() {
  static auto* instance = new Service;
  return *instance;
}

}  // namespace

std::shared_ptr<Executable> compile(const std::string& name,
                                    ir::Program program,
                                    int scalar_count) {
  ir::dead_code_elimination(program);
  std::string image = ir::serialize(program);
  // Names differ between operators that share a program; errors should not.
  const std::string key = name + '\0' + sha256_hex(image);
  Service& s = service();
  {
    std::lock_guard lock(s.mutex);
    const auto it = s.executables.find(key);
    if (it != s.executables.end()) {
      ++s.stats.memory_hits;
      return it->second;
    }
  }
  const auto start = std::chrono::steady_clock::now();
  bool from_disk = false;
  if (!nrt::runtime().simulated) {
    image = neff(name, program, &from_disk);
  }
  auto executable = std::make_shared<Executable>(
      name, program, std::move(image), scalar_count);
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - start;
  metrics::count(from_disk ? metrics::Metric::DiskCacheHits
                           : metrics::Metric::ProgramsCompiled);
  std::lock_guard lock(s.mutex);
  ++(from_disk ? s.stats.disk_hits : s.stats.compiled);
  s.stats.compile_seconds += took.count();
  return s.executables.try_emplace(key, std::move(executable)).first->second;
}

CacheStats cache_stats() {
  Service& s = service();
  std::lock_guard lock(s.mutex);
  CacheStats stats = s.stats;
  stats.programs = s.executables.size();
  return stats;
}

}  // namespace neuronx::compiler
