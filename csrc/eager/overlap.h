// SPDX-License-Identifier: Apache-2.0
// Filling tensors whose elements share memory, which the CPU allows: every
// location gets the same number.
#pragma once

#include <ATen/core/Tensor.h>

#include "eager/call.h"

namespace neuronx::eager {

// A call of fill_ with a number, or of zero_, on such a tensor.
bool fills_shared_memory(const OpInfo& info, const Call& call);

// A view of each location of `self` once. Throws where there is none.
at::Tensor each_location(const at::Tensor& self);

}  // namespace neuronx::eager
