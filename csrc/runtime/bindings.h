// SPDX-License-Identifier: Apache-2.0
// Bindings: the tensor sets of each executable on one queue, patched only
// where an address changed since the last launch.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <vector>

#include "nrt/handles.h"

namespace neuronx::compiler {
class Executable;
}

namespace neuronx::runtime {

struct Launch;

class Bindings {
 public:
  explicit Bindings(c10::DeviceIndex device) : device_(device) {}

  // Binds the addresses and runs the executable to completion.
  void execute(Launch& launch);
  // Drops slices of [begin, end). Not concurrently with execute.
  void forget(const void* begin, const void* end);

 private:
  struct Slot {
    const void* address = nullptr;
    nrt::Tensor tensor;
  };
  struct Binding {
    nrt::TensorSet inputs, outputs;
    std::vector<Slot> slots;  // inputs, then results that alias none
    std::vector<nrt::Tensor> scalars;
    std::vector<uint64_t> scalar_values;
    // By output: memory of its own for a result whose slot is also an input's
    // although the program does not know, then copied.
    std::vector<nrt::Tensor> staged;
    bool copies = false;
  };

  Binding& binding(compiler::Executable& executable);
  void bind(Binding& binding,
            compiler::Executable& executable,
            size_t index,
            void* address);
  void separate_results(Binding& binding, compiler::Executable& executable);
  void copy_results(Binding& binding, compiler::Executable& executable);

  const c10::DeviceIndex device_;
  std::vector<std::unique_ptr<Binding>> bindings_;  // by Executable::id
};

}  // namespace neuronx::runtime
