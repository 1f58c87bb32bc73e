// SPDX-License-Identifier: Apache-2.0
#include "runtime/call_site.h"

#include <mutex>

#include "common/env.h"

namespace neuronx::runtime {
namespace {

constexpr const char* kUnknown =
    "a thread without Python code, such as backward's";

std::mutex mutex;

// Leaked: threads ask until the process ends.
auto& registered() {
  static auto* callback = new std::function<std::string()>;
  return *callback;
}

}  // namespace

bool call_sites_kept() {
  static const bool kept = env::flag("TORCH_NEURONX_DEBUG", false);
  return kept;
}

std::string call_site() {
  std::function<std::string()> ask;
  {
    std::lock_guard lock(mutex);
    ask = registered();
  }
  const std::string site = ask ? ask() : "";
  return site.empty() ? kUnknown : site;
}

void set_call_site_callback(std::function<std::string()> callback) {
  std::lock_guard lock(mutex);
  registered() = std::move(callback);
}

}  // namespace neuronx::runtime
