// SPDX-License-Identifier: Apache-2.0
#include "sim/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <string_view>

#include "common/env.h"

namespace neuronx::sim {
namespace {

// The largest server has 144 chips.
constexpr int kMaxChips = 144;
constexpr size_t kGiB = size_t{1} << 30;

constexpr const char* kVisibleCores = "NEURON_RT_VISIBLE_CORES";
constexpr const char* kNumCores = "NEURON_RT_NUM_CORES";

// "2", "0,1", "0-3", "0,4-7".
std::vector<int> parse_cores(std::string_view text, int count) {
  const auto accepted = fmt::format(
      "distinct cores and ranges like 0,2-3 of the {} logical cores 0 to {}",
      count,
      count - 1);
  std::vector<int> cores;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const auto item = text.substr(begin, end - begin);
    const size_t dash = item.find('-');
    const auto first = env::parse_integer(item.substr(0, dash));
    const auto last = dash == std::string_view::npos
                          ? first
                          : env::parse_integer(item.substr(dash + 1));
    if (!first || !last || *first < 0 || *last >= count || *last < *first) {
      env::malformed(kVisibleCores, text, accepted);
    }
    for (int core = static_cast<int>(*first); core <= *last; ++core) {
      if (std::find(cores.begin(), cores.end(), core) != cores.end()) {
        env::malformed(kVisibleCores, text, accepted);
      }
      cores.push_back(core);
    }
    begin = end + 1;
  }
  return cores;
}

int read_logical_core_config() {
  constexpr const char* kName = "NEURON_LOGICAL_NC_CONFIG";
  constexpr const char* kOldName = "NEURON_RT_VIRTUAL_CORE_SIZE";
  const char* name = env::text(kName) ? kName : kOldName;
  return static_cast<int>(env::integer(name, 2, 1, 2));
}

}  // namespace

size_t Machine::core_memory() const {
  const size_t stack = (chip == Chip::Trn3 ? 36 : 24) * kGiB;
  // Four stacks per chip: at one physical core per logical core, two
  // neighbours share one.
  return stack * logical_core_config / 2;
}

Machine read_machine() {
  Machine machine;
  machine.chip = env::choice("TORCH_NEURONX_SIM_CHIP",
                             Chip::Trn2,
                             {{"trn2", Chip::Trn2}, {"trn3", Chip::Trn3}});
  machine.chips = static_cast<int>(
      env::integer("TORCH_NEURONX_SIM_CHIPS", 1, 1, kMaxChips));
  machine.logical_core_config = read_logical_core_config();
  const int count = machine.logical_cores();
  if (const auto cores = env::text(kVisibleCores)) {
    machine.visible = parse_cores(*cores, count);
    return machine;
  }
  const auto wanted = env::integer(kNumCores, 0, 0, count);
  machine.visible.resize(wanted == 0 ? count : wanted);
  std::iota(machine.visible.begin(), machine.visible.end(), 0);
  return machine;
}

}  // namespace neuronx::sim
