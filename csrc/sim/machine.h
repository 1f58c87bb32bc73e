// SPDX-License-Identifier: Apache-2.0
// Machine: the simulated host, as the environment describes it.
#pragma once

#include <cstddef>
#include <vector>

namespace neuronx::sim {

enum class Chip { Trn2, Trn3 };

inline constexpr int kCoresPerChip = 8;

struct Machine {
  Chip chip = Chip::Trn2;
  int chips = 1;
  int logical_core_config = 2;  // physical cores per logical core
  std::vector<int> visible;     // logical cores of the host, in order

  int physical_cores() const { return chips * kCoresPerChip; }
  int logical_cores() const { return physical_cores() / logical_core_config; }
  // Bytes of one logical core: its share of the HBM stack.
  size_t core_memory() const;
};

// From TORCH_NEURONX_SIM_CHIP, TORCH_NEURONX_SIM_CHIPS,
// NEURON_LOGICAL_NC_CONFIG, NEURON_RT_VISIBLE_CORES and
// NEURON_RT_NUM_CORES. Throws std::invalid_argument naming the variable.
Machine read_machine();

}  // namespace neuronx::sim
