// SPDX-License-Identifier: Apache-2.0
#include "compiler/service.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "common/env.h"
#include "common/hash.h"
#include "common/metrics.h"
#include "compiler/neff.h"
#include "ir/passes.h"
#include "ir/serialize.h"
#include "nrt/runtime.h"

namespace neuronx::compiler {
namespace {

using Callback = std::function<void(const NewProgram&)>;

struct Service {
  std::mutex mutex;
  std::unordered_map<std::string, std::shared_ptr<Executable>> executables;
  std::shared_ptr<const Callback> callback;
  CacheStats stats;
};

Service& service() {
  static auto* instance = new Service;
  return *instance;
}

void tell(const NewProgram& program) {
  std::shared_ptr<const Callback> callback;
  {
    std::lock_guard lock(service().mutex);
    callback = service().callback;
  }
  if (callback) {
    (*callback)(program);
  }
}

// Its NEFF from the cache or, if that was pruned meanwhile, compiled again.
std::string neff_again(const Executable& executable) {
  const auto program = ir::deserialize(executable.serialized.data(),
                                       executable.serialized.size());
  return neff(executable.name, program, default_target()).bytes;
}

}  // namespace

std::shared_ptr<Executable> compile(const std::string& name,
                                    ir::Program program,
                                    int scalar_count) {
  ir::dead_code_elimination(program);
  std::string serialized = ir::serialize(program);
  // Names differ between operators that share a program; errors should not.
  const std::string key = name + '\0' + sha256_hex(serialized);
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
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         start)
        .count();
  };
  const bool simulated = nrt::runtime().simulated;
  std::optional<Neff> made;
  if (!simulated || !may_compile() ||
      env::flag("TORCH_NEURONX_SIM_COMPILER", false)) {
    try {
      made = neff(name, program, default_target());
    } catch (const Cancelled&) {
      throw;
    } catch (const CompileError& error) {
      tell({name,
            describe_operands(program),
            serialized,
            scalar_count,
            "failed",
            "",
            error.what(),
            seconds()});
      throw;
    }
  }
  const bool from_disk = made && !made->compiled;
  Executable::Image image;
  if (made && !simulated) {
    image = {std::move(made->bytes), made->kept ? &neff_again : nullptr};
  }
  auto executable = std::make_shared<Executable>(
      name, program, std::move(serialized), std::move(image), scalar_count);
  metrics::count(from_disk ? metrics::Metric::DiskCacheHits
                           : metrics::Metric::ProgramsCompiled);
  {
    std::lock_guard lock(s.mutex);
    ++(from_disk ? s.stats.disk_hits : s.stats.compiled);
    s.stats.compile_seconds += seconds();
    const auto [it, added] = s.executables.try_emplace(key, executable);
    if (!added) {
      return it->second;  // another thread was faster
    }
  }
  tell({name,
        executable->operands,
        executable->serialized,
        scalar_count,
        !made       ? "simulator"
        : from_disk ? "disk"
                    : "compiled",
        made ? made->key : "",
        "",
        seconds()});
  return executable;
}

CacheStats cache_stats() {
  Service& s = service();
  std::lock_guard lock(s.mutex);
  CacheStats stats = s.stats;
  stats.programs = s.executables.size();
  return stats;
}

void set_new_program_callback(Callback callback) {
  auto shared = callback ? std::make_shared<const Callback>(std::move(callback))
                         : nullptr;
  std::lock_guard lock(service().mutex);
  service().callback.swap(shared);
}

std::vector<std::shared_ptr<Executable>> executables(const std::string& name) {
  std::vector<std::shared_ptr<Executable>> result;
  {
    Service& s = service();
    std::lock_guard lock(s.mutex);
    for (const auto& [key, executable] : s.executables) {
      if (name.empty() || executable->name == name) {
        result.push_back(executable);
      }
    }
  }
  std::ranges::sort(
      result, {}, [](const auto& executable) { return executable->id; });
  return result;
}

}  // namespace neuronx::compiler
