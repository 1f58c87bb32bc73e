// SPDX-License-Identifier: Apache-2.0
// Choosing and loading the runtime library.
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "common/env.h"
#include "common/log.h"
#include "nrt/runtime.h"
#include "nrt/status.h"

namespace neuronx::nrt {
namespace {

constexpr const char* kVendorLibrary = "libnrt.so.1";
constexpr const char* kVendorPath = "/opt/aws/neuron/lib/libnrt.so.1";
constexpr const char* kSimulator = "libnrt_sim.so";
constexpr const char* kDeviceNode = "/dev/neuron0";
// The node that tells the third asynchronous generation from the second.
constexpr const char* kGen3Node = "NRT_3.0.0";
constexpr std::pair<uint64_t, uint64_t> kGen3Version{2, 31};

enum class Kind { Auto, Vendor, Simulator };

// libnrt_sim.so is installed beside the library that contains this code.
std::string simulator_path() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&simulator_path), &info) != 0 &&
      info.dli_fname != nullptr) {
    const auto beside =
        std::filesystem::path(info.dli_fname).parent_path() / kSimulator;
    std::error_code ignored;
    if (std::filesystem::exists(beside, ignored)) {
      return beside.string();
    }
  }
  return kSimulator;
}

template <typename Function>
bool resolve(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

// The error tracker left with the second generation; the third came with
// runtime 2.31. The node alone does not tell: glibc finds any node in a library
// without symbol versions.
AsyncGeneration probe_async(void* library, const nrt_version_t& version) {
  if (dlsym(library, "nrta_error_tracker_create") != nullptr) {
    return AsyncGeneration::Gen2;
  }
  const bool recent =
      std::pair(version.rt_major, version.rt_minor) >= kGen3Version;
  if (recent && dlvsym(library, "nrta_execute_schedule", kGen3Node)) {
    return AsyncGeneration::Gen3;
  }
  if (dlsym(library, "nrta_execute_schedule") != nullptr) {
    log::warning(
        "the runtime's asynchronous interface is of an unknown generation; "
        "using the synchronous one");
  }
  return AsyncGeneration::None;
}

std::string install_advice(const std::string& path) {
  if (path.ends_with(kSimulator)) {
    return "; the simulator is part of the torch_neuronx package, install it "
           "again or name the library in TORCH_NEURONX_LIBNRT";
  }
  return "; install the Neuron runtime (package aws-neuronx-runtime-lib), "
         "name the library in TORCH_NEURONX_LIBNRT, or set "
         "TORCH_NEURONX_RUNTIME=sim to use the simulator";
}

void* open(const std::string& path, std::string& opened) {
  std::string error;
  for (const std::string& candidate :
       {path, std::string(path == kVendorLibrary ? kVendorPath : "")}) {
    if (candidate.empty()) {
      continue;
    }
    if (void* library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      opened = candidate;
      return library;
    }
    error.append(error.empty() ? "" : "; ").append(dlerror());
  }
  throw NotRunning(
      NRT_UNINITIALIZED,
      fmt::format(
          "cannot load the Neuron runtime: {}{}", error, install_advice(path)));
}

}  // namespace

std::string library_path() {
  if (const auto path = env::text("TORCH_NEURONX_LIBNRT")) {
    return *path;
  }
  const auto kind = env::choice(
      "TORCH_NEURONX_RUNTIME",
      Kind::Auto,
      {{"auto", Kind::Auto}, {"nrt", Kind::Vendor}, {"sim", Kind::Simulator}});
  const bool vendor = kind == Kind::Vendor ||
                      (kind == Kind::Auto && access(kDeviceNode, F_OK) == 0);
  return vendor ? kVendorLibrary : simulator_path();
}

Runtime load(const std::string& path) {
  Runtime runtime;
  void* library = open(path, runtime.path);

  std::string missing;
#define NEURONX_REQUIRE(result, name, parameters)              \
  if (!resolve(library, #name, runtime.name)) {                \
    missing.append(missing.empty() ? "" : ", ").append(#name); \
  }
#define NEURONX_RESOLVE(result, name, parameters) \
  resolve(library, #name, runtime.name);
  NEURONX_NRT_REQUIRED(NEURONX_REQUIRE)
  NEURONX_NRT_OPTIONAL(NEURONX_RESOLVE)
  NEURONX_NRT_SIMULATOR(NEURONX_RESOLVE)
  if (runtime.nrt_get_version != nullptr) {
    check(runtime.nrt_get_version(&runtime.version, sizeof(runtime.version)),
          "read the version of " + runtime.path);
  }
  runtime.async = probe_async(library, runtime.version);
  if (runtime.async == AsyncGeneration::Gen3) {
    NEURONX_NRTA_GEN3(NEURONX_REQUIRE)
    NEURONX_NRTA_EVENTS(NEURONX_RESOLVE)
    runtime.has_events = runtime.nrta_event_register_xu_completion != nullptr;
  }
#undef NEURONX_REQUIRE
#undef NEURONX_RESOLVE
  if (!missing.empty()) {
    dlclose(library);
    throw NotRunning(
        NRT_UNINITIALIZED,
        fmt::format("{} is not a usable Neuron runtime, it lacks {}{}",
                    runtime.path,
                    missing,
                    install_advice(path)));
  }
  const std::string_view detail(
      runtime.version.rt_detail,
      strnlen(runtime.version.rt_detail, sizeof(runtime.version.rt_detail)));
  runtime.simulated = detail.find("simulator") != std::string_view::npos;
  if (log::enabled(log::Level::Info)) {
    log::info(fmt::format("runtime {} ({})", runtime.path, detail));
  }
  return runtime;
}

}  // namespace neuronx::nrt
