// SPDX-License-Identifier: Apache-2.0
// Numbers and dense constants in MLIR's syntax.
#pragma once

#include <string>

#include "ir/program.h"

namespace neuronx::ir {

// "f32" tensors as "tensor<2x3xf32>".
std::string mlir_type(const TensorType& type);

// A finite double as a float literal, which needs a decimal point; anything
// else as the hexadecimal digits of its bits.
std::string mlir_double(double value);

// Element `index` of row-major `bytes`, exact: floating-point numbers that
// have no literal (NaN, infinity) as bits.
std::string mlir_element(const TensorType& type,
                         const std::string& bytes,
                         int64_t index);

// All elements are the same bytes, and there is at least one.
bool is_splat(const TensorType& type, const std::string& bytes);

// "dense<1.0>", "dense<[1, 2]>" or, where long, "dense<\"0x...\">".
std::string mlir_dense(const TensorType& type, const std::string& bytes);

}  // namespace neuronx::ir
