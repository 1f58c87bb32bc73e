// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/TensorImpl.h>
#include <c10/util/ArrayRef.h>

namespace neuronx::eager {

// Contiguous `sizes`; the storage grows when it must.
void resize(c10::TensorImpl* impl, c10::IntArrayRef sizes);

}  // namespace neuronx::eager
