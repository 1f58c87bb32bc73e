// SPDX-License-Identifier: Apache-2.0
#include "common/call_site.h"

#include <mutex>
#include <utility>

namespace neuronx {
namespace {

std::mutex mutex;

// Leaked: threads ask until the process ends.
auto& registered() {
  static auto* callback = new std::function<std::string()>;
  return *callback;
}

}  // namespace

std::string call_site() {
  std::function<std::string()> ask;
  {
    std::lock_guard lock(mutex);
    ask = registered();
  }
  return ask ? ask() : "";
}

void set_call_site(std::function<std::string()> callback) {
  std::lock_guard lock(mutex);
  registered() = std::move(callback);
}

}  // namespace neuronx
