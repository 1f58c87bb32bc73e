// SPDX-License-Identifier: Apache-2.0
// The backend for programs in C++: link libtorch and libtorch_neuronx.
// docs/cpp.md has the build commands, examples/cpp a program.
#pragma once

namespace torch_neuronx {

// Registers device "neuron" and its operators with PyTorch, once per process:
// call it before the device's name is used. Further calls change nothing, from
// any thread, and so does a later `import torch` that loads this package. It
// starts no runtime and takes no core. Throws c10::Error when another backend
// has named PyTorch's one extension device.
void initialize();

}  // namespace torch_neuronx
