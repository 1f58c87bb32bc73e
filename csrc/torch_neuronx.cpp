// SPDX-License-Identifier: Apache-2.0
#include "torch_neuronx.h"

#include <c10/core/DeviceType.h>
#include <c10/util/Exception.h>

#include "eager/kernel.h"

namespace torch_neuronx {

// Guard, hooks, allocators and the operators of csrc/aten are registered when
// the library is loaded. The name may be refused, and the kernels read the
// lowering table, which is complete only after all static initialisers.
void initialize() {
  static const bool once = [] {
    const auto name = c10::get_privateuse1_backend();
    TORCH_CHECK(name == "privateuseone" || name == "neuron",
                "another PyTorch extension has registered the device '",
                name,
                "'; one process has room for one such device, so 'neuron' "
                "cannot be used");
    c10::register_privateuse1_backend("neuron");
    neuronx::eager::register_kernels();
    return true;
  }();
  (void)once;
}

}  // namespace torch_neuronx
