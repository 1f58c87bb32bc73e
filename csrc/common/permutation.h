// SPDX-License-Identifier: Apache-2.0
// Permutations of dimensions, as in transpositions: result dimension i is
// dimension permutation[i].
#pragma once

#include "common/strides.h"

namespace neuronx {

// values[order[0]], values[order[1]], ...
Dims permuted(DimsRef values, DimsRef order);

// The permutation that takes another one back.
Dims inverse(DimsRef permutation);

}  // namespace neuronx
