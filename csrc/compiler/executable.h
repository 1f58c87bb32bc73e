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
  // `image` is what the runtime loads: a NEFF, or a serialised Program for
  // the simulator. The last `scalar_count` parameters are runtime scalars.
  Executable(std::string name,
             const ir::Program& program,
             std::string image,
             int scalar_count);

  // Dense, unique: bindings are indexed by it.
  const uint32_t id;
  const std::string name;  // "aten::add.Tensor"
  // Operands as a person would write them: "float32[2, 3], float32[3]".
  const std::string operands;

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

  // Loads on first use. Throws nrt::NrtError.
  nrt::Model& model(int device);

 private:
  std::string image_;
  std::vector<Port> inputs_, outputs_;
  std::vector<int32_t> aliases_;
  size_t scalar_count_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<nrt::Model>> owned_;
  std::array<std::atomic<nrt::Model*>, 128> models_{};
};

}  // namespace neuronx::compiler
