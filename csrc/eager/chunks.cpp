// SPDX-License-Identifier: Apache-2.0
#include "eager/chunks.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "eager/kernel.h"

namespace neuronx::eager {
namespace {

// Tensors of each list in one program. Fused Adam has six lists: some four
// hundred operands.
constexpr size_t kChunk = 64;

bool is_list(const ArgumentInfo& argument) {
  return argument.kind == ArgumentKind::TensorList ||
         argument.kind == ArgumentKind::ScalarList;
}

bool holds_host_tensor(const c10::IValue& value) {
  if (!value.isTensorList()) {
    return false;
  }
  const auto list = value.toTensorList();
  return std::any_of(list.begin(), list.end(), [](const at::Tensor& tensor) {
    return tensor.defined() && !tensor.is_privateuseone();
  });
}

// Elements [begin, end) of a list.
c10::IValue slice(const c10::IValue& value, size_t begin, size_t end) {
  const auto all = value.toListRef();
  c10::impl::GenericList part(
      value.type()->castRaw<c10::ListType>()->getElementType());
  for (size_t i = begin; i < end; ++i) {
    part.push_back(all[i]);
  }
  return part;
}

}  // namespace

bool run_in_chunks(OpInfo& info, torch::jit::Stack* stack) {
  const size_t count = info.arguments.size();
  const auto first = stack->end() - static_cast<std::ptrdiff_t>(count);
  size_t length = 0;
  for (size_t i = 0; i < count; ++i) {
    const c10::IValue& value = first[static_cast<std::ptrdiff_t>(i)];
    if (!is_list(info.arguments[i]) || !value.isList()) {
      continue;
    }
    length = std::max(length, value.toListRef().size());
    if (holds_host_tensor(value)) {
      info.handle.callBoxedForDispatchKey(
          c10::DispatchKey::CompositeExplicitAutograd, *stack);
      return true;
    }
  }
  if (length <= kChunk) {
    return false;
  }
  const torch::jit::Stack arguments(first, stack->end());
  for (size_t i = 0; i < count; ++i) {
    // Lists of other lengths are an error that the operator itself explains;
    // fused optimizers leave out what they do not use.
    if (is_list(info.arguments[i]) && arguments[i].isList() &&
        !arguments[i].toListRef().empty() &&
        arguments[i].toListRef().size() != length) {
      return false;
    }
  }
  torch::jit::drop(*stack, count);
  c10::List<at::Tensor> results;
  for (size_t begin = 0; begin < length; begin += kChunk) {
    torch::jit::Stack part;
    for (size_t i = 0; i < count; ++i) {
      const bool sliced = is_list(info.arguments[i]) && arguments[i].isList() &&
                          !arguments[i].toListRef().empty();
      part.push_back(
          sliced ? slice(arguments[i], begin, std::min(begin + kChunk, length))
                 : arguments[i]);
    }
    run(info, &part);
    if (!part.empty()) {
      for (const at::Tensor& tensor : part.back().toTensorList()) {
        results.push_back(tensor);
      }
    }
  }
  if (!info.returns.empty()) {
    stack->emplace_back(std::move(results));
  }
  return true;
}

}  // namespace neuronx::eager
