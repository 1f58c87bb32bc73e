// SPDX-License-Identifier: Apache-2.0
#include "sim/fault.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "common/env.h"
#include "sim/error.h"
#include "sim/exports.h"

namespace neuronx::sim {

std::atomic<bool> faults_armed{false};

namespace {

struct Fault {
  FaultKind kind;
  int64_t remaining;
  NRT_STATUS status;
};

constexpr std::string_view kKinds[] = {
    "allocate", "load", "execute", "read", "write", "copy"};

struct Faults {
  std::mutex mutex;
  std::vector<Fault> list;
};

Faults& faults() {
  static auto* instance = new Faults;
  return *instance;
}

Fault parse_fault(std::string_view item) {
  const size_t first = item.find(':');
  const size_t second = item.find(':', first + 1);
  if (first != std::string_view::npos && second != std::string_view::npos) {
    const auto* kind =
        std::find(std::begin(kKinds), std::end(kKinds), item.substr(0, first));
    const auto nth =
        env::parse_integer(item.substr(first + 1, second - first - 1));
    const auto status = env::parse_integer(item.substr(second + 1));
    if (kind != std::end(kKinds) && nth && *nth > 0 && status && *status > 0 &&
        *status <= std::numeric_limits<int>::max()) {
      return {static_cast<FaultKind>(kind - std::begin(kKinds)),
              *nth,
              static_cast<NRT_STATUS>(*status)};
    }
  }
  env::malformed("TORCH_NEURONX_SIM_FAULT",
                 item,
                 fmt::format("kind:nth:status with kind one of {}",
                             fmt::join(kKinds, ", ")));
}

}  // namespace

void inject(std::string_view text) {
  std::vector<Fault> added;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    added.push_back(parse_fault(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  std::lock_guard lock(faults().mutex);
  auto& list = faults().list;
  if (text.empty()) {
    list.clear();
  }
  list.insert(list.end(), added.begin(), added.end());
  faults_armed = !list.empty();
}

NRT_STATUS next_fault(FaultKind kind) noexcept {
  std::lock_guard lock(faults().mutex);
  auto& list = faults().list;
  NRT_STATUS status = NRT_SUCCESS;
  for (auto& fault : list) {
    if (fault.kind == kind && --fault.remaining == 0) {
      status = fault.status;
    }
  }
  std::erase_if(list, [](const Fault& fault) { return fault.remaining == 0; });
  faults_armed = !list.empty();
  return status == NRT_SUCCESS
             ? status
             : fail(status,
                    "injected fault: " +
                        std::string(kKinds[static_cast<int>(kind)]));
}

}  // namespace neuronx::sim

namespace neuronx {

NRT_STATUS nrt_sim_inject(const char* faults) {
  return sim::guarded([&] {
    sim::inject(faults == nullptr ? "" : faults);
    return NRT_SUCCESS;
  });
}

}  // namespace neuronx
