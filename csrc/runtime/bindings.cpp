// SPDX-License-Identifier: Apache-2.0
#include "runtime/bindings.h"

#include <algorithm>

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
    const auto& ports = executable.ports(device_);
    made->slots.resize(executable.tensor_inputs() + ports.outputs.size());
    made->staged.resize(ports.outputs.size());
    for (size_t i = 0; i < executable.scalar_inputs(); ++i) {
      const auto& port = ports.inputs[executable.tensor_inputs() + i];
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
  const auto& ports = executable.ports(device_);
  const auto& port = input ? ports.inputs[index] : ports.outputs[output];
  const Location where = locate(address);
  Slot& slot = binding.slots[index];
  nrt::Tensor tensor =
      nrt::Tensor::slice(where.segment, where.offset, port.bytes);
  if (input) {
    binding.inputs.set(port.name.c_str(), tensor.get());
    // A result that overwrites this input is the same tensor.
    const auto& aliases = executable.aliases();
    for (size_t k = 0; k < aliases.size(); ++k) {
      if (aliases[k] == static_cast<int32_t>(index) &&
          ports.outputs[k].in_place) {
        binding.outputs.set(ports.outputs[k].name.c_str(), tensor.get());
      }
    }
  } else if (!binding.staged[output]) {
    binding.outputs.set(port.name.c_str(), tensor.get());
  }
  slot.tensor = std::move(tensor);  // the replaced slice goes now
  slot.address = address;
}

// Where two tensors of a launch are the same memory and the program was not
// compiled to write over its input, it may write before it has read.
void Bindings::separate_results(Binding& binding,
                                compiler::Executable& executable) {
  const auto& ports = executable.ports(device_).outputs;
  const auto& aliases = executable.aliases();
  const size_t inputs = executable.tensor_inputs();
  const auto begin = binding.slots.begin();
  binding.copies = false;
  for (size_t k = 0; k < ports.size(); ++k) {
    const Slot& slot = binding.slots[inputs + k];
    const bool shared =
        aliases[k] >= 0
            ? !ports[k].in_place
            : std::any_of(begin, begin + inputs, [&](const Slot& input) {
                return input.address == slot.address;
              });
    nrt::Tensor& staged = binding.staged[k];
    if (shared && !staged) {
      staged = nrt::Tensor::allocate(device_, ports[k].bytes);
      binding.outputs.set(ports[k].name.c_str(), staged.get());
    } else if (!shared && staged) {
      binding.outputs.set(ports[k].name.c_str(), slot.tensor.get());
      staged = nrt::Tensor();
    }
    binding.copies |= shared;
  }
}

void Bindings::copy_results(Binding& binding,
                            compiler::Executable& executable) {
  for (size_t k = 0; k < binding.staged.size(); ++k) {
    if (const nrt::Tensor& staged = binding.staged[k]) {
      const int32_t alias = executable.aliases()[k];
      const Slot& slot =
          binding.slots[alias >= 0 ? alias : executable.tensor_inputs() + k];
      nrt::copy(staged.get(), 0, slot.tensor.get(), 0, staged.size());
      metrics::count(metrics::Metric::AliasCopies);
    }
  }
}

void Bindings::execute(Launch& launch) {
  compiler::Executable& executable = *launch.executable;
  Binding& bound = binding(executable);
  const auto& aliases = executable.aliases();
  void** addresses = launch.operands();
  const size_t inputs = executable.tensor_inputs();
  bool changed = false;
  for (size_t i = 0; i < inputs; ++i) {
    if (bound.slots[i].address != addresses[i]) {
      bind(bound, executable, i, addresses[i]);
      changed = true;
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
      changed = true;
    }
  }
  if (changed) {
    separate_results(bound, executable);
  }
  const uint64_t* values = launch.values();
  for (size_t i = 0; i < executable.scalar_inputs(); ++i) {
    if (bound.scalar_values[i] != values[i]) {
      bound.scalar_values[i] = values[i];
      nrt::write(bound.scalars[i].get(),
                 &values[i],
                 0,
                 executable.ports(device_).inputs[inputs + i].bytes);
    }
  }
  metrics::count(metrics::Metric::Launches);
  executable.execute(device_, bound.inputs, bound.outputs);
  if (bound.copies) {
    copy_results(bound, executable);
  }
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
