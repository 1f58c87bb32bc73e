// SPDX-License-Identifier: Apache-2.0
// What distinguishes two programs of one operator, field by field: why one
// was compiled although the other was there.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/program.h"

namespace neuronx::compiler {

struct View {
  ir::Shape size, stride;
};
// The strided view that a parameter is read or written through, by Value::id;
// none for those that are contiguous. The parameter itself is the memory that
// the view covers.
std::unordered_map<int32_t, View> parameter_views(const ir::Program& program);

struct Field {
  // "shape", "dtype", "stride", "scalar", "flag", "operation", "result"
  std::string kind;
  std::string where;  // "input 0", "aten.add.Tensor argument 2"
  std::string value;  // "[2, 3]"
};

// The last `scalar_count` parameters are runtime scalars. Operations after
// the first 64 are one field, a digest.
std::vector<Field> signature(const ir::Program& program, int scalar_count);

}  // namespace neuronx::compiler
