// SPDX-License-Identifier: Apache-2.0
// Loops on the device, of a static trip count.
#pragma once

#include "lowering/lowering.h"

namespace neuronx::lowering {

// The state after body(i, state, fixed) for i = 0 ... trips - 1, int32[].
// `fixed` is what the body reads and does not change.
using LoopBody =
    std::function<Values(ir::Builder&, Value, const Values&, const Values&)>;
Values loop(ir::Builder& b,
            int64_t trips,
            const Values& state,
            const Values& fixed,
            const LoopBody& body);

}  // namespace neuronx::lowering
