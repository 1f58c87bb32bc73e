// SPDX-License-Identifier: Apache-2.0
// What factorisations and solvers share. Matrices are [batch, rows, columns],
// whatever the rank of the batch was.
#pragma once

#include "lowering/loop.h"
#include "lowering/math.h"

namespace neuronx::lowering {

// Tensor argument i as float32 [batch, rows, columns]. Unsupported for other
// dtypes: the host says what the CPU says.
Value matrices(Op& op, int i);
Value matrices(ir::Builder& b, Value x);

// `x` in the shape of result k.
Value as_result(Op& op, Value x, int k = 0);

Value transposed(ir::Builder& b, Value x);
Value matmul(ir::Builder& b, Value x, Value y);
Value identity(ir::Builder& b, int64_t batch, int64_t rows, int64_t columns);

// Zero where row < column - diagonal (lower) or row > column - diagonal.
Value lower_triangle(ir::Builder& b, Value x, int64_t diagonal = 0);
Value upper_triangle(ir::Builder& b, Value x, int64_t diagonal = 0);
// [batch, min(rows, columns)].
Value diagonal(ir::Builder& b, Value x);

// Row or column i (int32[]), with its dimension; and x with it replaced.
Value row(ir::Builder& b, Value x, Value i);
Value column(ir::Builder& b, Value x, Value i);
Value with_row(ir::Builder& b, Value x, Value row, Value i);
Value with_column(ir::Builder& b, Value x, Value column, Value i);

// int32, as x: the row of each element. `at` and `below` compare it with i.
Value row_index(ir::Builder& b, Value x);
Value at(ir::Builder& b, Value index, Value i);
Value below(ir::Builder& b, Value index, Value i);

}  // namespace neuronx::lowering
