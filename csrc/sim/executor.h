// SPDX-License-Identifier: Apache-2.0
// Executor: runs a serialised Program on host memory. Created by nrt_load,
// called by nrt_execute under the core's execution lock.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "ir/program.h"

namespace neuronx::sim {

class Executor {
 public:
  // Throws std::invalid_argument for bytes that are not a valid Program, and
  // std::runtime_error for a composite that neither ATen nor its body can run.
  static std::unique_ptr<Executor> load(const void* bytes, size_t size);
  virtual ~Executor() = default;

  // Types of "input0".. and "output0"..; a result that aliases parameter p
  // has alias p, else -1.
  virtual const std::vector<ir::TensorType>& inputs() const = 0;
  virtual const std::vector<ir::TensorType>& outputs() const = 0;

  // inputs[i] and outputs[i] point to inputs()[i].bytes() readable and
  // outputs()[i].bytes() writable bytes. Aliased results have
  // outputs[i] == inputs[p]. Throws std::out_of_range for an index out of
  // bounds and std::runtime_error otherwise.
  virtual void run(void* const* inputs, void* const* outputs) = 0;
};

}  // namespace neuronx::sim
