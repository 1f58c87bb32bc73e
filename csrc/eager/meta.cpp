// SPDX-License-Identifier: Apache-2.0
#include "eager/meta.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>

#include <unordered_map>

namespace neuronx::eager {
namespace {

using TensorMap = std::unordered_map<const c10::TensorImpl*, at::Tensor>;

at::Tensor to_meta(const at::Tensor& tensor, TensorMap& seen) {
  // 0-dim CPU tensors take part as numbers on every device.
  if (!tensor.defined() || tensor.is_cpu()) {
    return tensor;
  }
  auto& meta = seen[tensor.unsafeGetTensorImpl()];
  if (!meta.defined()) {
    meta = at::empty_strided(
        tensor.sizes(),
        tensor.strides(),
        at::TensorOptions().dtype(tensor.scalar_type()).device(at::kMeta));
  }
  return meta;
}

c10::IValue convert(const c10::IValue& value, TensorMap& seen) {
  if (value.isTensor()) {
    return to_meta(value.toTensor(), seen);
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorList()) {
      list.push_back(to_meta(tensor, seen));
    }
    return list;
  }
  if (value.isDevice()) {
    return c10::Device(c10::DeviceType::Meta);
  }
  if (value.isGenerator()) {
    return {};
  }
  if (value.isList() && !value.isIntList() && !value.isDoubleList() &&
      !value.isBoolList()) {
    c10::impl::GenericList list(value.toList().elementType());
    for (const c10::IValue& element : value.toListRef()) {
      list.push_back(convert(element, seen));
    }
    return list;
  }
  return value;
}

void flatten(const c10::IValue& value, std::vector<c10::IValue>& leaves) {
  if (value.isNone()) {
    leaves.emplace_back(at::Tensor());
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) {
      flatten(element, leaves);
    }
  } else {
    leaves.push_back(value);
  }
}

torch::jit::Stack convert_all(const OpInfo& info,
                              const torch::jit::Stack& stack) {
  TensorMap seen;
  torch::jit::Stack meta;
  const size_t count = info.arguments.size();
  for (size_t i = stack.size() - count; i < stack.size(); ++i) {
    meta.push_back(convert(stack[i], seen));
  }
  return meta;
}

}  // namespace

torch::jit::Stack meta_arguments(const OpInfo& info,
                                 const torch::jit::Stack& stack) {
  return convert_all(info, stack);
}

Inference infer(const OpInfo& info, const torch::jit::Stack& stack) {
  auto meta = convert_all(info, stack);
  Inference inference;
  std::vector<c10::IValue> written;
  for (size_t i = 0; i < meta.size(); ++i) {
    if (info.arguments[i].written) {
      written.push_back(meta[i]);
    }
  }
  {
    at::AutoDispatchBelowAutograd guard;
    info.handle.callBoxed(&meta);
  }
  for (const c10::IValue& result : meta) {
    flatten(result, inference.returns);
  }
  std::vector<c10::IValue> leaves;
  for (const c10::IValue& value : written) {
    flatten(value, leaves);
  }
  for (const c10::IValue& leaf : leaves) {
    inference.written.push_back(leaf.toTensor());
  }
  return inference;
}

}  // namespace neuronx::eager
