// SPDX-License-Identifier: Apache-2.0
// Steps of a plan: calls whose results go to planned memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/executor/aten_call.h"
#include "sim/executor/plan.h"

namespace neuronx::sim {

// Where one result of a call that returns new tensors goes.
struct Sink {
  at::Tensor shell;
  Buffer* dynamic = nullptr;
};

// Throws std::runtime_error, naming `op`, unless result i has the type of
// sink i.
void store(const std::string& op,
           const std::vector<Sink>& sinks,
           Tensors results,
           const Tensors& operands);

struct AtenStep {
  std::string name;
  std::shared_ptr<AtenCall> call;
  Form form;
  Tensors operands;
  std::vector<Sink> sinks;
  bool checked = false;

  void bind();
  void operator()();

 private:
  void first_write();
};

}  // namespace neuronx::sim
