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
  // What the hardware's runtime loads; empty for the simulator, which loads
  // the Program's bytes.
  struct Image {
    std::string neff;
    // Gives the NEFF once more, for another core or after an unload; the bytes
    // are freed when they are loaded. Null: they stay.
    std::string (*again)(const Executable&) = nullptr;
  };
  // `serialized` is the Program's bytes. The last `scalar_count` parameters
  // are runtime scalars.
  Executable(std::string name,
             const ir::Program& program,
             std::string serialized,
             Image image,
             int scalar_count);
  ~Executable();

  // Dense, unique: bindings are indexed by it.
  const uint32_t id;
  const std::string name;  // "aten::add.Tensor"
  // Operands as a person would write them: "float32[2, 3], float32[3]".
  const std::string operands;
  // As ir::serialize writes it.
  const std::string serialized;

  // For each output the input that it overwrites, or -1.
  const std::vector<int32_t>& aliases() const { return aliases_; }
  size_t tensor_inputs() const { return input_bytes_.size() - scalar_count_; }
  size_t scalar_inputs() const { return scalar_count_; }

  struct Port {
    std::string name;  // "input0", "input1.must_alias_input", "output0"
    size_t bytes;
    // Of an output that overwrites an input: the program does so by itself,
    // and both are bound to one tensor. Else the output needs memory of its
    // own, and a copy.
    bool in_place = false;
  };
  struct Ports {
    std::vector<Port> inputs, outputs;
  };
  // As the compiled program has them. Loads it on `device` if no device has
  // loaded it yet. Throws nrt::NrtError, and LoadError for a program of other
  // inputs or outputs.
  const Ports& ports(int device);

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
  Ports read_ports(const nrt::Model& model) const;
  // Frees the models, unless one is running.
  bool unload();

  const size_t image_bytes_;
  std::vector<size_t> input_bytes_, output_bytes_;
  std::vector<int32_t> aliases_;
  size_t scalar_count_;
  bool listed_ = false;  // among the loaded ones, under their lock
  std::atomic<uint64_t> used_{0};
  // Launches under way, which keep the models from being unloaded.
  std::atomic<int> running_{0};
  std::mutex mutex_;
  Image image_;                        // under mutex_
  std::atomic<const Ports*> ports_{};  // set once
  std::array<std::atomic<nrt::Model*>, 128> models_{};
};

}  // namespace neuronx::compiler
