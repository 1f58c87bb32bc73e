// SPDX-License-Identifier: Apache-2.0
#include "eager/masks.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/nonzero.h>
#include <c10/util/Exception.h>

namespace neuronx::eager {
namespace {

bool is_mask(c10::ScalarType dtype) {
  return dtype == at::kBool || dtype == at::kByte;
}

bool gets(const OpInfo& info) {
  return info.functional == "aten::index.Tensor" ||
         info.functional == "aten::_unsafe_index.Tensor";
}

bool puts(const OpInfo& info) {
  return info.functional == "aten::index_put" ||
         info.functional == "aten::_index_put_impl" ||
         info.functional == "aten::_unsafe_index_put";
}

const c10::IValue& argument(const OpInfo& info,
                            const torch::jit::Stack& stack,
                            size_t i) {
  return stack[stack.size() - info.arguments.size() + i];
}

// As CPU's message.
void check_shape(const at::Tensor& mask,
                 const at::Tensor& self,
                 int64_t first) {
  for (int64_t d = 0; d < mask.dim(); ++d) {
    TORCH_CHECK_INDEX(
        first + d < self.dim() && mask.size(d) == self.size(first + d),
        "The shape of the mask ",
        mask.sizes(),
        " at index ",
        d,
        " does not match the shape of the indexed tensor ",
        self.sizes(),
        " at index ",
        first + d);
  }
}

}  // namespace

bool is_masked_index(const OpInfo& info, const torch::jit::Stack& stack) {
  if (!gets(info) && !puts(info)) {
    return false;
  }
  const auto indices = argument(info, stack, 1).toListRef();
  const at::Tensor* mask = nullptr;
  for (const c10::IValue& index : indices) {
    if (index.isTensor() && index.toTensor().defined() &&
        is_mask(index.toTensor().scalar_type())) {
      mask = &index.toTensor();
    }
  }
  if (mask == nullptr || gets(info)) {
    return mask != nullptr;
  }
  const bool accumulate = argument(info, stack, 3).toBool();
  const bool select =
      indices.size() == 1 && mask->scalar_type() == at::kBool && !accumulate &&
      mask->sizes() == argument(info, stack, 0).toTensor().sizes() &&
      argument(info, stack, 2).toTensor().numel() == 1;
  return !select;
}

void expand_masks(const OpInfo& info, torch::jit::Stack& stack) {
  const at::Tensor self = argument(info, stack, 0).toTensor();
  c10::List<std::optional<at::Tensor>> indices;
  for (const c10::IValue& element : argument(info, stack, 1).toListRef()) {
    if (!element.isTensor() || !element.toTensor().defined()) {
      indices.push_back(std::optional<at::Tensor>());
      continue;
    }
    const at::Tensor& index = element.toTensor();
    if (!is_mask(index.scalar_type())) {
      indices.push_back(index);
      continue;
    }
    check_shape(index, self, static_cast<int64_t>(indices.size()));
    const at::Tensor positions = index.nonzero();
    for (int64_t d = 0; d < index.dim(); ++d) {
      indices.push_back(positions.select(1, d));
    }
  }
  stack[stack.size() - info.arguments.size() + 1] = std::move(indices);
}

}  // namespace neuronx::eager
