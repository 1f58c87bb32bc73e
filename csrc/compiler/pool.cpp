// SPDX-License-Identifier: Apache-2.0
#include "compiler/pool.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "common/env.h"
#include "common/log.h"
#include "compiler/wait.h"

namespace neuronx::compiler {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;
// Field reports name host memory as what parallel compilers run out of, and
// no figure; small programs take well under 1 GiB, graphs of models more.
constexpr int64_t kMemoryPerJob = 4 * kGiB;
constexpr int kMostJobs = 1024;

int64_t read_number(const char* path) {
  int64_t number = -1;
  std::ifstream(path) >> number;  // stays -1 for "max"
  return number;
}

// A line of /proc/meminfo, in bytes.
int64_t memory(const char* name) {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    char key[64];
    long long kib;
    if (std::sscanf(line.c_str(), "%63[^:]: %lld kB", key, &kib) == 2 &&
        std::string_view(key) == name) {
      return kib * 1024;
    }
  }
  return kGiB * kMostJobs * 4;
}

// Of the machine, or of the container in it.
int64_t total_memory() {
  const int64_t limit = read_number("/sys/fs/cgroup/memory.max");
  const int64_t total = memory("MemTotal");
  return limit > 0 ? std::min(total, limit) : total;
}

int64_t free_memory() {
  const int64_t limit = read_number("/sys/fs/cgroup/memory.max");
  const int64_t used = read_number("/sys/fs/cgroup/memory.current");
  const int64_t available = memory("MemAvailable");
  return limit > 0 && used > 0 ? std::min(available, limit - used) : available;
}

int cores() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace

int compile_jobs() {
  const int64_t fitting = std::max<int64_t>(total_memory() / kMemoryPerJob, 1);
  return static_cast<int>(
      env::integer("TORCH_NEURONX_COMPILE_JOBS",
                   std::min<int64_t>({cores(), fitting, kMostJobs}),
                   1,
                   kMostJobs));
}

Slot::Slot() {
  std::error_code failed;
  const fs::path path = fs::temp_directory_path(failed) /
                        fmt::format("torch_neuronx_{}.jobs", ::getuid());
  const bool chosen = env::text("TORCH_NEURONX_COMPILE_JOBS").has_value();
  const int jobs = compile_jobs();
  Wait wait(std::chrono::hours(24 * 365));
  try {
    for (;;) {
      for (int i = 0; i < jobs; ++i) {
        lock_ = FileLock::try_acquire(path, static_cast<uint64_t>(i));
        // The first place is for whoever comes, however little memory is left.
        if (lock_ && (i == 0 || chosen || free_memory() >= kMemoryPerJob)) {
          return;
        }
        lock_.reset();
      }
      wait.pause();
    }
  } catch (const std::system_error& error) {
    log::warning(fmt::format("the number of compilers is not bounded: {}",
                             error.what()));
  }
}

}  // namespace neuronx::compiler
