// SPDX-License-Identifier: Apache-2.0
#include "compiler/neuronx_cc.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "common/env.h"
#include "common/hash.h"
#include "common/log.h"
#include "common/metrics.h"
#include "ir/hardware.h"
#include "ir/print.h"
#include "nrt/runtime.h"

extern char** environ;

namespace neuronx::compiler {
namespace {

namespace fs = std::filesystem;

// A directory of our own that goes with the scope, also when we throw.
class WorkDirectory {
 public:
  WorkDirectory() {
    std::string pattern =
        (fs::temp_directory_path() / "torch_neuronx.XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) {
      throw CompileError(fmt::format("cannot make a work directory {}: {}",
                                     pattern,
                                     std::strerror(errno)));
    }
    path = pattern;
  }
  ~WorkDirectory() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  fs::path path;
};

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Readers see the old or the whole new file, whenever we are killed.
void write_atomically(const fs::path& path, const std::string& bytes) {
  const fs::path temporary = fmt::format("{}.{}.tmp", path.string(), getpid());
  {
    std::ofstream file(temporary, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.flush();
    if (!file) {
      std::error_code ignored;
      fs::remove(temporary, ignored);
      log::warning(fmt::format("cannot write the compile cache {}: {}",
                               path.string(),
                               std::strerror(errno)));
      return;
    }
  }
  std::error_code failed;
  fs::rename(temporary, path, failed);
  if (failed) {
    fs::remove(temporary, failed);
  }
}

// A NEFF is a 1024-byte header with its own and the data's size, then data.
bool is_neff(const std::string& bytes) {
  if (bytes.size() < 1024) {
    return false;
  }
  uint64_t header_size, data_size;
  std::memcpy(&header_size, bytes.data() + 8, 8);
  std::memcpy(&data_size, bytes.data() + 16, 8);
  return header_size == 1024 && data_size == bytes.size() - 1024;
}

fs::path cache_directory() {
  return env::text("TORCH_NEURONX_NEFF_CACHE_DIR", "/tmp/neff_cache");
}

std::string compiler_program() {
  return env::text("TORCH_NEURONX_CC", "neuronx-cc");
}

std::vector<std::string> user_flags() {
  std::istringstream text(env::text("NEURON_CC_FLAGS", ""));
  std::vector<std::string> flags;
  for (std::string flag; text >> flag;) {
    flags.push_back(flag);
  }
  return flags;
}

// Who sets the compiler's option himself decides.
struct NativeInt64 {
  bool enabled;
  bool set_by_user;
};
NativeInt64 native_int64() {
  static constexpr std::string_view kOption = "--native-int64";
  const auto flags = user_flags();
  for (size_t i = 0; i < flags.size(); ++i) {
    if (flags[i].starts_with(kOption)) {
      const std::string mode = flags[i].size() > kOption.size()
                                   ? flags[i].substr(kOption.size() + 1)
                               : i + 1 < flags.size() ? flags[i + 1]
                                                      : "";
      return {mode == "enabled", true};
    }
  }
  return {env::flag("TORCH_NEURONX_NATIVE_INT64", true), false};
}

// The program that the compiler takes, as text.
std::string legal_text(const ir::Program& program,
                       const std::string& architecture) {
  namespace hardware = ir::hardware;
  const hardware::Target target{
      .chip = hardware::chip(architecture),
      .native_int64 = native_int64().enabled,
      .custom_calls = hardware::parse_custom_calls(
          env::text("TORCH_NEURONX_CUSTOM_CALLS", "1"))};
  hardware::Report report;
  const ir::Program legal = hardware::legalize(program, target, &report);
  metrics::count(metrics::Metric::HardwareRewrites, report.rewrites);
  metrics::count(metrics::Metric::Int64Narrowings, report.narrowed);
  return ir::to_stablehlo(legal);
}

// The last lines of the compiler's output that look like its errors.
std::string excerpt(const std::string& log) {
  std::string errors;
  size_t begin = 0;
  while (begin < log.size()) {
    size_t end = log.find('\n', begin);
    end = end == std::string::npos ? log.size() : end;
    const std::string line = log.substr(begin, end - begin);
    if (line.find("ERROR") != std::string::npos ||
        line.find("NCC_") != std::string::npos ||
        line.find("rror:") != std::string::npos) {
      errors += line + "\n";
    }
    begin = end + 1;
  }
  return errors.empty() ? log.substr(log.size() > 2000 ? log.size() - 2000 : 0)
                        : errors;
}

// Runs the arguments in `directory`, output to compiler.log there. Returns
// the wait status; kills the whole process group at the deadline.
int run_process(const std::vector<std::string>& arguments,
                const fs::path& directory,
                std::chrono::seconds timeout) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, directory.c_str());
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(
      &actions, 1, "compiler.log", O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  std::vector<char*> argv;
  for (const auto& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  pid_t pid;
  const int failed =
      posix_spawnp(&pid, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) {
    throw CompileError(fmt::format(
        "the compiler '{}' cannot be started: {}. Install neuronx-cc from the "
        "Neuron SDK, name it in TORCH_NEURONX_CC, or ship a cache of "
        "precompiled programs in TORCH_NEURONX_NEFF_CACHE_DIR.",
        arguments[0],
        std::strerror(failed)));
  }
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  auto pause = std::chrono::milliseconds(1);
  for (;;) {
    int status;
    if (waitpid(pid, &status, WNOHANG) == pid) {
      return status;
    }
    if (std::chrono::steady_clock::now() > deadline) {
      kill(-pid, SIGKILL);
      waitpid(pid, &status, 0);
      throw CompileError(fmt::format(
          "the compiler did not finish within {} s and was stopped; raise "
          "TORCH_NEURONX_COMPILE_TIMEOUT",
          timeout.count()));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(50));
  }
}

}  // namespace

std::string run_compiler(const std::string& stablehlo,
                         const std::string& target,
                         int lnc) {
  WorkDirectory work;
  const fs::path input = work.path / "program.mlir";
  const fs::path output = work.path / "program.neff";
  std::ofstream(input) << stablehlo;
  std::vector<std::string> arguments{compiler_program(),
                                     "compile",
                                     input.string(),
                                     "--framework",
                                     "XLA",
                                     "--target",
                                     target,
                                     "--lnc",
                                     std::to_string(lnc),
                                     "--output",
                                     output.string()};
  // Older compilers do not know the option.
  if (const auto int64 = native_int64(); int64.enabled && !int64.set_by_user) {
    arguments.insert(arguments.end(), {"--native-int64", "enabled"});
  }
  for (const std::string& flag : user_flags()) {
    arguments.push_back(flag);
  }
  const std::chrono::seconds timeout(
      env::integer("TORCH_NEURONX_COMPILE_TIMEOUT", 3600, 1, 1 << 30));
  const int status = run_process(arguments, work.path, timeout);
  const std::string log = read_file(work.path / "compiler.log");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw CompileError(fmt::format(
        "the compiler {}:\n{}",
        WIFEXITED(status)
            ? fmt::format("failed with exit code {}", WEXITSTATUS(status))
            : fmt::format("was killed by signal {}", WTERMSIG(status)),
        excerpt(log)));
  }
  std::string neff = read_file(output);
  if (!is_neff(neff)) {
    throw CompileError(fmt::format(
        "the compiler reported success but wrote no valid NEFF ({} bytes):\n{}",
        neff.size(),
        excerpt(log)));
  }
  return neff;
}

std::string neff(const std::string& name,
                 const ir::Program& program,
                 bool* from_disk) {
  const auto instance = nrt::instance();
  std::string text;
  try {
    text = legal_text(program, instance.architecture);
  } catch (const std::exception& error) {
    throw CompileError(fmt::format("[{}] {}", name, error.what()));
  }
  const std::string key =
      sha256_hex(fmt::format("{}\n{}\n{}\n{}\n{}\n{}",
                             text,
                             compiler_program(),
                             instance.architecture,
                             instance.logical_core_config,
                             native_int64().enabled,
                             env::text("NEURON_CC_FLAGS", "")));
  const fs::path path = cache_directory() / (key + ".neff");
  std::string bytes = read_file(path);
  if (is_neff(bytes)) {
    *from_disk = true;
    return bytes;
  }
  *from_disk = false;
  try {
    bytes =
        run_compiler(text, instance.architecture, instance.logical_core_config);
  } catch (const CompileError& error) {
    throw CompileError(fmt::format("[{}] {}", name, error.what()));
  }
  std::error_code ignored;
  fs::create_directories(cache_directory(), ignored);
  write_atomically(path, bytes);
  return bytes;
}

}  // namespace neuronx::compiler
