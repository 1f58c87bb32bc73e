// SPDX-License-Identifier: Apache-2.0
// Inference: what a call returns, by PyTorch's own meta functions or else by
// its CPU kernels.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/Exception.h>

#include <vector>

#include "eager/op_info.h"

namespace neuronx::eager {

struct Inference {
  // Flattened returns (lists expanded): tensors, undefined for None, or ints.
  std::vector<c10::IValue> returns;
  // The written arguments after the call, in order of appearance.
  std::vector<at::Tensor> written;
};

// The CPU has no kernel for the dtypes, nor has the simulator: an error of the
// call, not a reason to run it on the host.
struct NoKernel : c10::NotImplementedError {
  explicit NoKernel(const c10::NotImplementedError& error)
      : c10::NotImplementedError(error) {}
};

// Runs the operator on the meta device, or, where it has a lowering but no
// meta function (most of them are Python's), on the CPU with made-up operands.
// Throws what PyTorch raises for bad arguments; c10::NotImplementedError when
// it cannot be told.
Inference infer(const OpInfo& info, const torch::jit::Stack& stack);

// The arguments as meta tensors, for the decomposition.
torch::jit::Stack meta_arguments(const OpInfo& info,
                                 const torch::jit::Stack& stack);

}  // namespace neuronx::eager
