// SPDX-License-Identifier: Apache-2.0
// Executable: a compiled Program, loaded on a logical core at first use.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ir/program.h"
#include "nrt/handles.h"

namespace neuronx::compiler {

class Executable {
 public:
  // `serialized` is the Program's bytes, which the simulator loads; `neff` is
  // what the hardware's runtime loads, empty for the simulator. The last
  // `scalar_count` parameters are runtime scalars.
  Executable(std::string name,
             const ir::Program& program,
             std::string serialized,
             std::string neff,
             int scalar_count);
  ~Executable();

  // Dense, unique: bindings are indexed by it.
  const uint32_t id;
  const std::string name;  // "aten::add.Tensor"
  // Operands as a person would write them: "float32[2, 3], float32[3]".
  const std::string operands;
  // As ir::serialize writes it.
  const std::string serialized;

  struct Port {
    std::string name;  // "input0", "output0"
    size_t bytes;
  };
  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }
  // For each output the input that it overwrites, or -1.
  const std::vector<int32_t>& aliases() const { return aliases_; }
  size_t tensor_inputs() const { return inputs_.size() - scalar_count_; }
  size_t scalar_inputs() const { return scalar_count_; }

  // Runs to completion. Loads the program if it is not loaded; beyond
  // NEURON_COMPILATION_CACHE_MAX_ENTRIES loaded programs or
  // NEURON_COMPILATION_CACHE_MAX_SIZE_MB of them, and when the device's memory
  // is full, those that were not used for longest are unloaded. Throws
  // nrt::NrtError.
  void execute(int device, nrt::TensorSet& inputs, nrt::TensorSet& outputs);

  // The epoch of the last launch, 0 if there was none.
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  // Begins a new epoch: launches from now on have this number or a higher one.
  static uint64_t next_epoch();

 private:
  friend class Loaded;
  nrt::Model& load(int device);
  nrt::Model& load_once(int device);
  const std::string& image() const {
    return neff_.empty() ? serialized : neff_;
  }
  // Frees the models, unless one is running.
  bool unload();

  const std::string neff_;
  std::vector<Port> inputs_, outputs_;
  std::vector<int32_t> aliases_;
  size_t scalar_count_;
  bool listed_ = false;  // among the loaded ones, under their lock
  std::atomic<uint64_t> used_{0};
  // Launches under way, which keep the models from being unloaded.
  std::atomic<int> running_{0};
  std::mutex mutex_;
  std::array<std::atomic<nrt::Model*>, 128> models_{};
};

}  // namespace neuronx::compiler
