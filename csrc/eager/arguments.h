// SPDX-License-Identifier: Apache-2.0
// ATen's dtypes and arguments as those of the IR.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/ScalarType.h>

#include <optional>

#include "common/dtype.h"
#include "ir/attribute.h"
#include "ir/program.h"

namespace neuronx::eager {

std::optional<DType> to_dtype(c10::ScalarType dtype);
c10::ScalarType to_scalar_type(DType dtype);

// A static argument (no tensors). `type` is the schema's: it tells a dtype
// from an int. nullopt for what the IR does not carry (complex numbers).
std::optional<ir::Attribute> to_attribute(const c10::IValue& value,
                                          const c10::Type& type);

// The number itself, for a 0-dim CPU tensor.
ir::NumberTensor to_number_tensor(const at::Tensor& tensor);

}  // namespace neuronx::eager
