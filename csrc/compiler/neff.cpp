// SPDX-License-Identifier: Apache-2.0
#include "compiler/neff.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <map>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

#include "common/call_site.h"
#include "common/env.h"
#include "common/hash.h"
#include "common/log.h"
#include "common/metrics.h"
#include "compiler/neff_cache.h"
#include "compiler/pool.h"
#include "compiler/progress.h"
#include "compiler/signature.h"
#include "compiler/wait.h"
#include "ir/hardware.h"
#include "ir/print.h"
#include "nrt/runtime.h"

namespace neuronx::compiler {
namespace {

using metrics::Metric;

// The program that the compiler takes, as text.
std::string legal_text(const ir::Program& program, const Target& target) {
  namespace hardware = ir::hardware;
  const hardware::Target form{
      .chip = hardware::chip(target.chip),
      .native_int64 = native_int64().enabled,
      .custom_calls = hardware::parse_custom_calls(
          env::text("TORCH_NEURONX_CUSTOM_CALLS", "1"))};
  hardware::Report report;
  const ir::Program legal = hardware::legalize(program, form, &report);
  metrics::count(Metric::HardwareRewrites, report.rewrites);
  metrics::count(Metric::Int64Narrowings, report.narrowed);
  return ir::to_stablehlo(legal, {.aliases = true});
}

// Everything that shapes a NEFF but the compiler's version. Fields with their
// lengths, so that no two lists of fields read the same.
std::string make_key(const std::string& text,
                     const Target& target,
                     const std::vector<std::string>& flags,
                     const std::vector<std::string>& kernels) {
  std::string fields;
  const auto add = [&](std::string_view field) {
    fields += fmt::format("{}:{}\n", field.size(), field);
  };
  add("neff 1");
  add(text);
  add(target.chip);
  add(std::to_string(target.lnc));
  add(native_int64().enabled ? "int64" : "int32");
  add(std::to_string(flags.size()));
  for (const auto& flag : flags) {
    add(flag);
  }
  for (const auto& kernel : kernels) {
    add(kernel);
  }
  return sha256_hex(fields);
}

void warn_once(const std::string& text) {
  static auto* told = new std::set<std::string>;
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (told->insert(text).second) {
    log::warning(text);
  }
}

bool cache_disabled() {
  return env::flag("TORCH_NEURONX_NEFF_DISABLE_CACHE", false);
}

// Failures of this process, for when they cannot be written.
class RecentFailures {
 public:
  void add(const std::string& id, const Failure& failure) {
    std::lock_guard lock(mutex_);
    failures_[id] = {failure, Clock::now()};
  }
  std::optional<Failure> find(const std::string& id, int64_t keep) {
    std::lock_guard lock(mutex_);
    const auto it = failures_.find(id);
    if (it == failures_.end() ||
        Clock::now() - it->second.second >= std::chrono::seconds(keep)) {
      return std::nullopt;
    }
    return it->second.first;
  }
  void forget(const std::string& id) {
    std::lock_guard lock(mutex_);
    failures_.erase(id);
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::mutex mutex_;
  std::map<std::string, std::pair<Failure, Clock::time_point>> failures_;
};

RecentFailures& recent_failures() {
  static auto* instance = new RecentFailures;
  return *instance;
}

// One program on its way.
class Request {
 public:
  Request(const std::string& name,
          const ir::Program& program,
          const Target& target,
          const std::vector<std::string>& kernels)
      : name_(name),
        operands_(describe_operands(program)),
        target_(target),
        flags_(user_flags()),
        kernels_(kernels),
        cache_(cache_directory()) {
    if (const auto local = local_cache_directory();
        !local.empty() && local != cache_.directory()) {
      local_.emplace(local);
    }
    try {
      text_ = legal_text(program, target);
    } catch (const std::exception& error) {
      fail(error.what());
    }
    result_.key = make_key(text_, target, flags_, kernels);
  }

  Neff run() {
    const bool strict = !may_compile();
    if (!strict) {
      compiler_ = find_compiler(
          cache_disabled() ? fs::path() : cache_.directory() / "compilers");
    }
    if (find(false)) {
      return std::move(result_);
    }
    // Damaged, or being written?
    if (!compiler_ && damaged_) {
      const auto lock = acquire();
      if (find(true)) {
        return std::move(result_);
      }
    }
    if (strict) {
      fail(fmt::format(
          "it is not compiled, and TORCH_NEURONX_CACHE_MISS=error forbids to "
          "compile at run time. Looked in {} for {} ({}, LNC {}). Record a run "
          "that uses it (TORCH_NEURONX_RECORD) and ship what 'torch-neuronx "
          "compile' makes of the record, with the same NEURON_CC_FLAGS",
          places(),
          result_.key,
          target_.chip,
          target_.lnc));
    }
    if (!compiler_) {
      fail(missing_compiler());
    }
    result_.version = compiler_->version;
    check_failures();
    progress::Scope scope(label());
    const auto lock = acquire();
    // Whoever held the lock may have compiled it, or failed to.
    if (find(true)) {
      return std::move(result_);
    }
    check_failures();
    compile();
    scope.finished();
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(const std::string& text) const {
    const std::string site = call_site();
    throw CompileError(fmt::format("[{}] on ({}){}: {}",
                                   name_,
                                   operands_,
                                   site.empty() ? "" : ", called from " + site,
                                   text));
  }

  std::string label() const { return fmt::format("{} ({})", name_, operands_); }

  std::string id() const { return result_.key + "-" + result_.version; }

  std::string places() const {
    std::string text = cache_.directory().string();
    if (local_) {
      text = local_->directory().string() + ", " + text;
    }
    for (const auto& directory : readonly_cache_directories()) {
      text += ", " + directory.string();
    }
    return text;
  }

  // `certain`: nobody can be writing what is found damaged.
  bool find(bool certain) {
    if (cache_disabled()) {
      return false;
    }
    std::string details;
    if (local_ && find_in(*local_, certain, details)) {
      return true;
    }
    bool found = find_in(cache_, certain, details);
    for (const auto& directory : readonly_cache_directories()) {
      found = found || find_in(NeffCache(directory), certain, details);
    }
    if (found && local_) {
      store_in(*local_, details);
    }
    return found;
  }

  bool find_in(const NeffCache& cache, bool certain, std::string& details) {
    const std::string version =
        compiler_ ? compiler_->version : cache.newest_version(result_.key);
    if (version.empty()) {
      return false;
    }
    Found found = cache.find(result_.key, version);
    damaged_ = damaged_ || found.damaged;
    if (found.damaged && certain) {
      metrics::count(Metric::CacheRepairs);
      log::warning(fmt::format(
          "{}: the compiled program {}-{} ({}) is damaged and is not used",
          cache.directory().string(),
          result_.key,
          version,
          label()));
    }
    if (!found) {
      return false;
    }
    result_.bytes = std::move(found.neff);
    details = std::move(found.details);
    result_.version = version;
    result_.kept = true;
    return true;
  }

  void check_failures() const {
    const int64_t keep = failure_memory();
    std::optional<Failure> failure;
    if (!cache_disabled()) {
      failure = cache_.find_failure(result_.key, result_.version, keep);
    }
    if (!failure) {
      failure = recent_failures().find(id(), keep);
    }
    // Who gives the compiler more time may succeed.
    if (!failure ||
        (failure->limit > 0 && compile_limit().count() > failure->limit)) {
      return;
    }
    fail(fmt::format(
        "{}\n(This failure is remembered for {} s, see "
        "TORCH_NEURONX_FAILURE_MEMORY; 'torch-neuronx cache prune --failed' "
        "forgets it.)",
        failure->error,
        keep));
  }

  // Nothing if the cache cannot be written: then each process compiles.
  std::optional<FileLock> acquire() const {
    if (cache_disabled()) {
      return std::nullopt;
    }
    Wait wait(std::chrono::seconds(
        env::integer("TORCH_NEURONX_NEFF_CACHE_LOCK_TIMEOUT",
                     compile_limit().count(),
                     0,
                     1 << 30)));
    try {
      for (;;) {
        if (auto lock = cache_.try_lock(result_.key)) {
          return lock;
        }
        if (wait.over()) {
          log::warning(fmt::format(
              "another process has been compiling {} for {:.0f} s; compiling "
              "it here too",
              label(),
              wait.seconds()));
          return std::nullopt;
        }
        wait.pause();
      }
    } catch (const std::system_error& error) {
      warn_once(
          fmt::format("the compile cache is not written: {}", error.what()));
      return std::nullopt;
    }
  }

  void compile() {
    const Slot slot;
    log::info(fmt::format(
        "compiling {} for {}, LNC {}", label(), target_.chip, target_.lnc));
    const auto start = std::chrono::steady_clock::now();
    Compilation compilation;
    try {
      compilation = run_compiler(*compiler_, text_, target_);
    } catch (const CompilerFailed& failed) {
      metrics::count(Metric::CompileFailures);
      if (failed.lasting) {
        remember({failed.what(), failed.limit});
      }
      fail(failed.what());
    } catch (const Cancelled&) {
      throw;
    } catch (const CompileError& error) {
      metrics::count(Metric::CompileFailures);
      fail(error.what());
    }
    result_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
            .count();
    result_.compiled = true;
    result_.bytes = std::move(compilation.neff);
    recent_failures().forget(id());
    store(compilation.input);
  }

  void remember(const Failure& failure) const {
    try {
      if (!cache_disabled()) {
        cache_.store_failure(result_.key, result_.version, failure);
        return;
      }
    } catch (const std::system_error& error) {
      warn_once(
          fmt::format("the compile cache is not written: {}", error.what()));
    }
    recent_failures().add(id(), failure);
  }

  std::string details(const std::string& input) const {
    const auto list = [](const std::vector<std::string>& texts) {
      std::string joined;
      for (const auto& text : texts) {
        joined += (joined.empty() ? "" : ", ") + json_string(text);
      }
      return "[" + joined + "]";
    };
    return fmt::format(
        "\"name\": {}, \"operands\": {}, \"call_site\": {}, \"target\": {}, "
        "\"lnc\": {}, \"compiler\": {}, \"flags\": {}, \"kernels\": {}, "
        "\"input\": {}, \"bytes\": {}, \"seconds\": {:.3f}, \"created\": {}",
        json_string(name_),
        json_string(operands_),
        json_string(call_site()),
        json_string(target_.chip),
        target_.lnc,
        json_string(result_.version),
        list(flags_),
        list(kernels_),
        json_string(input),
        result_.bytes.size(),
        result_.seconds,
        ::time(nullptr));
  }

  void store(const std::string& input) {
    if (cache_disabled()) {
      return;
    }
    const std::string told = details(input);
    store_in(cache_, told);
    if (local_) {
      store_in(*local_, told);
    }
  }

  void store_in(const NeffCache& cache, const std::string& told) {
    try {
      cache.store(result_.key, result_.version, result_.bytes, told);
    } catch (const std::system_error& error) {
      warn_once(fmt::format(
          "the compile cache is not written, the program is compiled again by "
          "the next process: {}",
          error.what()));
      return;
    }
    result_.kept = true;
    keep_in_limit(cache, static_cast<int64_t>(result_.bytes.size()));
  }

  // Looks at the whole cache only now and then.
  void keep_in_limit(const NeffCache& cache, int64_t written) const {
    static std::atomic<int64_t> since_scans[2] = {-1, -1};
    auto& since_scan = since_scans[&cache == &cache_];
    const int64_t limit = cache_limit();
    if (limit < 0) {
      return;
    }
    const int64_t before = since_scan.fetch_add(written);
    if (before >= 0 && before + written < limit / 100) {
      return;
    }
    since_scan = 0;
    const auto pruned = cache.prune(limit, -1, failure_memory());
    metrics::count(Metric::CacheEvictions, pruned.programs);
    if (pruned.programs > 0) {
      log::info(fmt::format("{}: removed {} compiled programs, {} MiB",
                            cache.directory().string(),
                            pruned.programs,
                            pruned.bytes >> 20));
    }
  }

  const std::string& name_;
  const std::string operands_;
  const Target& target_;
  const std::vector<std::string> flags_;
  const std::vector<std::string>& kernels_;
  const NeffCache cache_;
  std::optional<NeffCache> local_;  // in front of it
  std::string text_;
  std::optional<Compiler> compiler_;
  bool damaged_ = false;
  Neff result_;
};

}  // namespace

Target default_target() {
  const auto instance = nrt::instance();
  return {env::text("NEURON_PLATFORM_TARGET_OVERRIDE", instance.architecture),
          instance.logical_core_config};
}

Neff neff(const std::string& name,
          const ir::Program& program,
          const Target& target,
          const std::vector<std::string>& kernels) {
  return Request(name, program, target, kernels).run();
}

std::string describe_operands(const ir::Program& program) {
  const auto views = parameter_views(program);
  std::string text;
  for (ir::Value parameter : program.parameters) {
    text += text.empty() ? "" : ", ";
    ir::TensorType type = program.type(parameter);
    const auto view = views.find(parameter.id);
    if (view == views.end()) {
      text += ir::to_string(type);
      continue;
    }
    type.shape = view->second.size;
    text += fmt::format("{} with strides [{}]",
                        ir::to_string(type),
                        fmt::join(view->second.stride, ", "));
  }
  return text;
}

bool may_compile() {
  return env::choice(
      "TORCH_NEURONX_CACHE_MISS", true, {{"compile", true}, {"error", false}});
}

fs::path cache_directory() {
  return env::text("TORCH_NEURONX_NEFF_CACHE_DIR", "/tmp/neff_cache");
}

fs::path local_cache_directory() {
  return env::text("TORCH_NEURONX_NEFF_LOCAL_CACHE_DIR", "");
}

std::vector<fs::path> readonly_cache_directories() {
  std::vector<fs::path> directories;
  const std::string text =
      env::text("TORCH_NEURONX_NEFF_CACHE_READONLY_DIRS", "");
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(':', begin), text.size());
    if (end > begin) {
      directories.emplace_back(text.substr(begin, end - begin));
    }
    begin = end + 1;
  }
  return directories;
}

int64_t cache_limit() {
  const int64_t mib = env::integer(
      "TORCH_NEURONX_NEFF_CACHE_MAX_SIZE_MB", 32768, 0, int64_t{1} << 40);
  return mib == 0 ? -1 : mib << 20;
}

int64_t failure_memory() {
  return env::integer("TORCH_NEURONX_FAILURE_MEMORY", 3600, 0, 1 << 30);
}

}  // namespace neuronx::compiler
