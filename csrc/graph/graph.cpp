// SPDX-License-Identifier: Apache-2.0
#include "graph/graph.h"

#include <bit>

#include "runtime/generator.h"
#include "runtime/queue.h"
#include "runtime/stream.h"
#include "runtime/tensor.h"

namespace neuronx::graph {
namespace {

bool fits(const Input& input, const at::Tensor& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (input.kind == Input::Kind::Number) {
    return impl->device().is_cpu() && impl->dim() == 0 &&
           tensor.scalar_type() == input.dtype;
  }
  return input.kind == Input::Kind::Tensor &&
         tensor.scalar_type() == input.dtype &&
         impl->sizes() == c10::IntArrayRef(input.sizes) &&
         (input.contiguous
              ? impl->is_contiguous()
              : impl->strides() == c10::IntArrayRef(input.strides)) &&
         impl->device().type() == c10::DeviceType::PrivateUse1;
}

bool fits(const Input& input, const Argument& argument) {
  if (input.kind == Input::Kind::Ignored) {
    return true;
  }
  if (const auto* tensor = std::get_if<at::Tensor>(&argument)) {
    return fits(input, *tensor);
  }
  if (const auto* integer = std::get_if<int64_t>(&argument)) {
    return input.kind == Input::Kind::Number
               ? input.dtype == c10::ScalarType::Long
               : input.kind == Input::Kind::Integer && input.value == *integer;
  }
  return input.kind == Input::Kind::Number &&
         std::holds_alternative<double>(argument);
}

bool fits(const Variant& variant, const Arguments& arguments) {
  if (variant.inputs.size() != arguments.size()) {
    return false;
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!fits(variant.inputs[i], arguments[i])) {
      return false;
    }
  }
  return true;
}

c10::DeviceIndex device_of(const Variant& variant, const Arguments& arguments) {
  c10::DeviceIndex device = -1;
  for (int32_t i : variant.tensors) {
    const auto& tensor = std::get<at::Tensor>(arguments[i]);
    TORCH_CHECK(device < 0 || device == tensor.get_device(),
                "Expected all tensors to be on the same device, but found at "
                "least two devices, neuron:",
                static_cast<int>(device),
                " and ",
                tensor.device(),
                "! (when calling a compiled graph)");
    device = static_cast<c10::DeviceIndex>(tensor.get_device());
  }
  return device < 0 ? variant.device : device;
}

// Runtime scalars are float32 or int64 (ir::Operand).
uint64_t bits(const Argument& argument) {
  double value = 0;
  if (const auto* tensor = std::get_if<at::Tensor>(&argument)) {
    if (!c10::isFloatingType(tensor->scalar_type())) {
      return static_cast<uint64_t>(tensor->item().toLong());
    }
    value = tensor->item().toDouble();
  } else if (const auto* integer = std::get_if<int64_t>(&argument)) {
    return static_cast<uint64_t>(*integer);
  } else {
    value = std::get<double>(argument);
  }
  return std::bit_cast<uint32_t>(static_cast<float>(value));
}

Argument make_output(const Output& spec,
                     const Arguments& arguments,
                     const Arguments& made,
                     c10::DeviceIndex device) {
  switch (spec.kind) {
    case Output::Kind::New:
      return runtime::new_tensor(
          spec.dtype, spec.sizes, spec.strides, spec.bytes, device);
    case Output::Kind::View:
      return runtime::new_view(std::get<at::Tensor>(made[spec.index]),
                               spec.sizes,
                               spec.strides,
                               spec.offset);
    case Output::Kind::Argument:
      return arguments[spec.index];
    case Output::Kind::ArgumentView: {
      const auto& base = std::get<at::Tensor>(arguments[spec.index]);
      return runtime::new_view(
          base, spec.sizes, spec.strides, base.storage_offset() + spec.offset);
    }
    case Output::Kind::Integer:
      return spec.value;
    case Output::Kind::None:
      break;
  }
  return {};
}

const at::Tensor& tensor_at(const Stage::Address& address,
                            const Arguments& arguments,
                            const Arguments& outputs,
                            const std::vector<at::Tensor>& handed) {
  switch (address.kind) {
    case Stage::Address::Kind::Argument:
      return std::get<at::Tensor>(arguments[address.index]);
    case Stage::Address::Kind::Output:
      return std::get<at::Tensor>(outputs[address.index]);
    case Stage::Address::Kind::Handed:
      break;
  }
  return handed[address.index];
}

void push(runtime::Queue& queue,
          const Stage& stage,
          const Arguments& arguments,
          const Arguments& outputs,
          const std::vector<at::Tensor>& handed,
          c10::ArrayRef<uint64_t> values) {
  std::unique_ptr<void*[]> more;
  if (stage.addresses.size() > runtime::Launch::kInlineAddresses) {
    more.reset(new void*[stage.addresses.size()]);
  }
  std::unique_ptr<uint64_t[]> scalars(new uint64_t[stage.scalars.size()]);
  for (size_t i = 0; i < stage.scalars.size(); ++i) {
    scalars[i] = values[stage.scalars[i]];
  }
  queue.push([&](runtime::Launch& slot) {
    slot.executable = stage.executable.get();
    slot.more = std::move(more);
    slot.more_scalars = std::move(scalars);
    void** a = slot.operands();
    for (const Stage::Address& address : stage.addresses) {
      *a++ = runtime::address(
          tensor_at(address, arguments, outputs, handed).unsafeGetTensorImpl());
    }
  });
}

}  // namespace

const Variant* Graph::find(const Arguments& arguments) const {
  const Variant* last = last_.load(std::memory_order_acquire);
  if (last != nullptr && fits(*last, arguments)) {
    return last;
  }
  std::lock_guard lock(mutex_);
  for (const auto& variant : variants_) {
    if (variant.get() != last && fits(*variant, arguments)) {
      last_.store(variant.get(), std::memory_order_release);
      return variant.get();
    }
  }
  return nullptr;
}

void Graph::add(std::unique_ptr<Variant> variant) {
  std::lock_guard lock(mutex_);
  variants_.push_back(std::move(variant));
}

size_t Graph::size() const {
  std::lock_guard lock(mutex_);
  return variants_.size();
}

Arguments launch(const Variant& variant, Arguments arguments) {
  const c10::DeviceIndex device = device_of(variant, arguments);
  Arguments outputs(variant.outputs.size());
  const auto make_outputs = [&](int32_t stage) {
    for (size_t k = 0; k < outputs.size(); ++k) {
      if (variant.outputs[k].stage == stage) {
        outputs[k] =
            make_output(variant.outputs[k], arguments, outputs, device);
      }
    }
  };
  make_outputs(0);
  if (variant.stages.empty()) {
    return outputs;
  }
  c10::SmallVector<uint64_t, 16> scalars;
  for (int32_t i : variant.numbers) {
    scalars.push_back(bits(arguments[i]));
  }
  for (const Draws& draws : variant.draws) {
    const auto given = draws.generator < 0
                           ? std::nullopt
                           : std::optional(std::get<at::Generator>(
                                 arguments[draws.generator]));
    uint64_t blocks = draws.blocks;
    for (int32_t number : draws.numbers) {
      blocks += scalars[number];
    }
    const auto [seed, offset] =
        runtime::generator_or_default(given, device).reserve(blocks);
    scalars.push_back(seed);
    scalars.push_back(offset);
  }
  runtime::Queue& queue = runtime::current_queue(device);
  std::vector<at::Tensor> handed;
  for (size_t s = 0; s < variant.stages.size(); ++s) {
    const Stage& stage = variant.stages[s];
    if (s > 0) {
      make_outputs(static_cast<int32_t>(s));
    }
    for (size_t bytes : stage.handed) {
      const auto size = static_cast<int64_t>(bytes);
      handed.push_back(
          runtime::new_tensor(c10::kByte, {size}, {}, bytes, device));
    }
    push(queue, stage, arguments, outputs, handed, scalars);
    for (int32_t i : stage.last_arguments) {
      arguments[i] = {};
    }
    for (int32_t i : stage.last_handed) {
      handed[i].reset();
    }
  }
  return outputs;
}

}  // namespace neuronx::graph
