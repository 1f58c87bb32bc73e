// SPDX-License-Identifier: Apache-2.0
// Contractions of bfloat16 and float16 on CPUs that have no instructions for
// them: oneDNN and ATen fall back to loops that take 5 to 70 times as long as
// converting the operands, float32 and rounding once, which gives the same
// numbers but for the order of the sums.
#pragma once

#include "sim/executor/flatten.h"

namespace neuronx::sim {

void widen(Flat& flat);

}  // namespace neuronx::sim
