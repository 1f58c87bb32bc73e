// SPDX-License-Identifier: Apache-2.0
// nrt_model_t: a program loaded on a core.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "sim/executor.h"
#include "sim/handle.h"
#include "sim/tensor_set.h"

namespace neuronx {

struct nrt_model_t {
  static constexpr sim::Tag kTag = sim::Tag::Model;
  static constexpr const char* kKind = "model";

  sim::Tag tag = kTag;
  // Never reused; sets are resolved for 2 * id (inputs), 2 * id + 1 (outputs).
  uint64_t id;
  sim::Core* core;
  size_t bytes;                             // charged to the core
  std::unique_ptr<sim::Executor> executor;  // null after nrt_close
  std::vector<sim::Port> inputs, outputs;
  // {output, input} whose tensor must be the same.
  std::vector<std::pair<int32_t, int32_t>> aliases;

  bool alive() const { return executor != nullptr; }
};

namespace sim {

// Makes the sets' addresses those of the model's ports.
NRT_STATUS bind(const nrt_model_t& model,
                TensorSet& inputs,
                TensorSet& outputs);

// Runs under the core's lock and counts the completion of `written`.
NRT_STATUS run(nrt_model_t& model,
               void* const* inputs,
               void* const* outputs,
               const std::vector<nrt_tensor_t*>& written) noexcept;

void unload_all(Core& core) noexcept;

}  // namespace sim
}  // namespace neuronx
