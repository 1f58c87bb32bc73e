// SPDX-License-Identifier: Apache-2.0
#include "runtime/bindings.h"

#include "common/metrics.h"
#include "compiler/executable.h"
#include "runtime/allocator.h"
#include "runtime/queue.h"

namespace neuronx::runtime {

Bindings::Binding& Bindings::binding(compiler::Executable& executable) {
  if (executable.id >= bindings_.size()) {
    bindings_.resize(executable.id + executable.id / 2 + 64);
  }
  auto& slot = bindings_[executable.id];
  if (!slot) {
    auto made = std::make_unique<Binding>();
    made->slots.resize(executable.tensor_inputs() +
                       executable.outputs().size());
    for (size_t i = 0; i < executable.scalar_inputs(); ++i) {
      const auto& port = executable.inputs()[executable.tensor_inputs() + i];
      made->scalars.push_back(nrt::Tensor::allocate(device_, port.bytes));
      made->inputs.set(port.name.c_str(), made->scalars.back().get());
      // A value no launch can have is written at the first one.
      made->scalar_values.push_back(0);
      nrt::write(made->scalars.back().get(),
                 &made->scalar_values.back(),
                 0,
                 port.bytes);
    }
    slot = std::move(made);
  }
  return *slot;
}

void Bindings::bind(Binding& binding,
                    compiler::Executable& executable,
                    size_t index,
                    void* address) {
  const bool input = index < executable.tensor_inputs();
  const size_t output = index - executable.tensor_inputs();
  const auto& port =
      input ? executable.inputs()[index] : executable.outputs()[output];
  const Location where = locate(address);
  Slot& slot = binding.slots[index];
  nrt::Tensor tensor =
      nrt::Tensor::slice(where.segment, where.offset, port.bytes);
  if (input) {
    binding.inputs.set(port.name.c_str(), tensor.get());
    // A result that overwrites this input is the same tensor.
    const auto& aliases = executable.aliases();
    for (size_t k = 0; k < aliases.size(); ++k) {
      if (aliases[k] == static_cast<int32_t>(index)) {
        binding.outputs.set(executable.outputs()[k].name.c_str(), tensor.get());
      }
    }
  } else {
    binding.outputs.set(port.name.c_str(), tensor.get());
  }
  slot.tensor = std::move(tensor);  // the replaced slice goes now
  slot.address = address;
}

void Bindings::execute(Launch& launch) {
  compiler::Executable& executable = *launch.executable;
  Binding& bound = binding(executable);
  const auto& aliases = executable.aliases();
  void** addresses = launch.operands();
  const size_t inputs = executable.tensor_inputs();
  for (size_t i = 0; i < inputs; ++i) {
    if (bound.slots[i].address != addresses[i]) {
      bind(bound, executable, i, addresses[i]);
    }
  }
  size_t next = inputs;
  for (size_t k = 0; k < aliases.size(); ++k) {
    if (aliases[k] >= 0) {
      continue;
    }
    void* address = addresses[next++];
    if (bound.slots[inputs + k].address != address) {
      bind(bound, executable, inputs + k, address);
    }
  }
  const uint64_t* values = launch.values();
  for (size_t i = 0; i < executable.scalar_inputs(); ++i) {
    if (bound.scalar_values[i] != values[i]) {
      bound.scalar_values[i] = values[i];
      nrt::write(bound.scalars[i].get(),
                 &values[i],
                 0,
                 executable.inputs()[inputs + i].bytes);
    }
  }
  metrics::count(metrics::Metric::Launches);
  executable.execute(device_, bound.inputs, bound.outputs);
}

void Bindings::forget(const void* begin, const void* end) {
  for (auto& bound : bindings_) {
    if (!bound) {
      continue;
    }
    for (const Slot& slot : bound->slots) {
      if (slot.address >= begin && slot.address < end) {
        bound.reset();  // sets hold the slices: rebuilt at the next launch
        break;
      }
    }
  }
}

}  // namespace neuronx::runtime
