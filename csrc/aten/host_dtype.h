// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>

namespace neuronx::aten {

// The hardware has no such type: tensors of it compute on the host.
inline bool computes_on_host(c10::ScalarType dtype) {
  return c10::isComplexType(dtype) || dtype == c10::ScalarType::Double ||
         c10::isBarebonesUnsignedType(dtype);
}

}  // namespace neuronx::aten
