// SPDX-License-Identifier: Apache-2.0
#include "sim/executor/native.h"

namespace neuronx::sim {

Native find_native(const ir::Operation& op) {
  if (op.name == "neuronx.philox")
    return philox;
  if (attention_fits(op))
    return op.name.find("_backward") == std::string::npos ? attention
                                                          : attention_backward;
  return find_bounded(op.name);
}

}  // namespace neuronx::sim
