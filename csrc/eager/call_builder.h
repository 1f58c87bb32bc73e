// SPDX-License-Identifier: Apache-2.0
// The Program of one call: by the lowering table, or by PyTorch's
// decomposition.
#pragma once

#include <ATen/core/stack.h>

#include <memory>
#include <optional>
#include <stdexcept>

#include "eager/call.h"
#include "eager/meta.h"
#include "ir/program.h"

namespace neuronx::eager {

// No program: the reason goes to the fallback report. `provisional`: there may
// be one once Python has brought its decompositions.
struct Refused : std::runtime_error {
  explicit Refused(const std::string& reason, bool provisional = false)
      : std::runtime_error(reason), provisional(provisional) {}
  const bool provisional;
};

// A new entry and the Program to compile for it; none when all results are
// empty.
struct Built {
  std::unique_ptr<Entry> entry = std::make_unique<Entry>();
  std::optional<ir::Program> program;
  int scalars = 0;
};

// `general`: the scalars become inputs, else constants; throws
// lowering::NeedsConstant where they cannot. `logical_results`: row-major
// results, whatever layout PyTorch would give them. Throws Refused.
Built build_call(OpInfo& info,
                 const Call& call,
                 const torch::jit::Stack& stack,
                 const Inference& inference,
                 bool general,
                 bool logical_results = false);

}  // namespace neuronx::eager
