// SPDX-License-Identifier: Apache-2.0
#include "eager/decompose.h"

#include <ATen/core/Tensor.h>

#include <atomic>
#include <mutex>

#include "eager/meta.h"
#include "lowering/lowering.h"

namespace neuronx::eager {
namespace {

std::mutex mutex;
std::atomic<bool> available{false};
DecomposeCallback& registered() {
  static auto* callback = new DecomposeCallback;
  return *callback;
}

bool has_runtime_scalar(const std::vector<ir::Attribute>& arguments,
                        const torch::jit::Stack& meta) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (const auto* number = std::get_if<ir::NumberTensor>(&arguments[i])) {
      if (number->operand >= 0) {
        return true;
      }
    }
    if (std::holds_alternative<ir::Operand>(arguments[i]) &&
        !meta[i].isTensor()) {
      return true;
    }
  }
  return false;
}

// Numbers in the place of tensors go in as what they are.
bool unwrap_numbers(const std::vector<ir::Attribute>& arguments,
                    torch::jit::Stack& meta) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto* number = std::get_if<ir::NumberTensor>(&arguments[i]);
    if (number == nullptr) {
      continue;
    }
    if (!number->wrapped) {
      return false;
    }
    std::visit([&](auto value) { meta[i] = c10::IValue(value); },
               number->value);
  }
  return true;
}

}  // namespace

void set_decompose_callback(DecomposeCallback callback) {
  std::lock_guard lock(mutex);
  registered() = std::move(callback);
  available.store(registered() != nullptr);
}

bool can_decompose() noexcept {
  return available.load(std::memory_order_relaxed);
}

std::optional<ir::Values> decompose(
    ir::Builder& builder,
    const OpInfo& info,
    const torch::jit::Stack& stack,
    const ir::Values& operands,
    const std::vector<ir::Attribute>& arguments,
    const std::vector<ir::TensorType>& results) {
  DecomposeCallback callback;
  {
    std::lock_guard lock(mutex);
    callback = registered();
  }
  if (!callback) {
    return std::nullopt;
  }
  auto all = meta_arguments(info, stack);
  torch::jit::Stack meta;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!info.arguments[i].out) {
      meta.push_back(std::move(all[i]));
    }
  }
  if (has_runtime_scalar(arguments, meta)) {
    throw lowering::NeedsConstant("decompositions are traced with constants");
  }
  if (!unwrap_numbers(arguments, meta)) {
    return std::nullopt;
  }
  ir::Builder body(info.functional);
  ir::Values parameters;
  for (ir::Value operand : operands) {
    parameters.push_back(body.parameter(builder.type(operand)));
  }
  auto values = callback(body, info.functional, meta, parameters);
  if (!values || values->size() != results.size()) {
    return std::nullopt;
  }
  for (size_t k = 0; k < results.size(); ++k) {
    if (!(*values)[k]) {
      (*values)[k] = body.constant(results[k], std::string{});
    }
    auto& value = (*values)[k];
    if (body.dtype(value) != results[k].dtype) {
      value = body.convert(value, results[k].dtype);
    }
    if (body.shape(value) != results[k].shape) {
      return std::nullopt;
    }
  }
  std::string name = info.functional;
  name.replace(name.find("::"), 2, ".");
  return builder.composite(name, operands, arguments, body.finish(*values));
}

}  // namespace neuronx::eager
