// SPDX-License-Identifier: Apache-2.0
#include "common/permutation.h"

#include <cstddef>

namespace neuronx {

Dims permuted(DimsRef values, DimsRef order) {
  Dims result;
  for (int64_t d : order)
    result.push_back(values[d]);
  return result;
}

Dims inverse(DimsRef permutation) {
  Dims result(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i)
    result[permutation[i]] = int64_t(i);
  return result;
}

}  // namespace neuronx
