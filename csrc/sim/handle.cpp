// SPDX-License-Identifier: Apache-2.0
#include "sim/handle.h"

#include <mutex>
#include <vector>

namespace neuronx::sim {

NRT_STATUS bad_handle(bool null, const char* kind, const char* call) noexcept {
  if (null) {
    return fail(NRT_INVALID, std::string(call) + ": the " + kind + " is null");
  }
  return misuse(
      NRT_INVALID_HANDLE,
      std::string(call) + ": the " + kind + " is freed or not a " + kind);
}

void keep_forever(void* handle) {
  static auto* mutex = new std::mutex;
  static auto* kept = new std::vector<void*>;
  std::lock_guard lock(*mutex);
  kept->push_back(handle);
}

}  // namespace neuronx::sim
