// SPDX-License-Identifier: Apache-2.0
#include "eager/meta.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>

#include <set>
#include <string_view>
#include <unordered_map>

namespace neuronx::eager {
namespace {

// Arguments on another device, with the same sizes, strides and aliases.
struct Conversion {
  c10::DeviceType device;
  std::unordered_map<const c10::TensorImpl*, at::Tensor> seen;

  at::Tensor tensor(const at::Tensor& original) {
    // 0-dim CPU tensors take part as numbers on every device.
    if (!original.defined() || original.is_cpu()) {
      return original;
    }
    auto& converted = seen[original.unsafeGetTensorImpl()];
    if (!converted.defined()) {
      converted = at::empty_strided(
          original.sizes(),
          original.strides(),
          at::TensorOptions().dtype(original.scalar_type()).device(device));
      if (device == c10::DeviceType::CPU) {
        converted.zero_();
      }
    }
    return converted;
  }

  c10::IValue value(const c10::IValue& original) {
    if (original.isTensor()) {
      return tensor(original.toTensor());
    }
    if (original.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& element : original.toTensorList()) {
        list.push_back(tensor(element));
      }
      return list;
    }
    if (original.isDevice()) {
      return c10::Device(device);
    }
    if (original.isGenerator()) {
      return {};
    }
    if (original.isList() && !original.isIntList() &&
        !original.isDoubleList() && !original.isBoolList()) {
      c10::impl::GenericList list(original.toList().elementType());
      for (const c10::IValue& element : original.toListRef()) {
        list.push_back(value(element));
      }
      return list;
    }
    return original;
  }
};

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
                              const torch::jit::Stack& stack,
                              c10::DeviceType device) {
  Conversion conversion{device, {}};
  torch::jit::Stack converted;
  const size_t count = info.arguments.size();
  for (size_t i = stack.size() - count; i < stack.size(); ++i) {
    converted.push_back(conversion.value(stack[i]));
  }
  return converted;
}

// Operators whose Meta kernels describe the results of CUDA's: CPU's kernels,
// which the simulator runs, give others. What these say is taken from them.
bool described_by_cpu(const OpInfo& info) {
  static const auto* names = new std::set<std::string_view>{
      "aten::_embedding_bag",
      "aten::_embedding_bag_forward_only",
      "aten::_native_batch_norm_legit_no_training",
      "aten::max_unpool2d",
  };
  return names->contains(info.name);
}

// Python's meta functions word some errors in their own way. The CPU's kernel
// checks the same arguments first, so it raises what users know; when it does
// not, the caller's error stands.
void raise_as_cpu(const OpInfo& info, const torch::jit::Stack& stack) {
  auto arguments = convert_all(info, stack, c10::DeviceType::CPU);
  at::AutoDispatchBelowAutograd guard;
  info.handle.callBoxed(&arguments);
}

}  // namespace

torch::jit::Stack meta_arguments(const OpInfo& info,
                                 const torch::jit::Stack& stack) {
  return convert_all(info, stack, c10::DeviceType::Meta);
}

Inference infer(const OpInfo& info, const torch::jit::Stack& stack) {
  auto meta = convert_all(
      info,
      stack,
      described_by_cpu(info) ? c10::DeviceType::CPU : c10::DeviceType::Meta);
  Inference inference;
  std::vector<c10::IValue> written;
  for (size_t i = 0; i < meta.size(); ++i) {
    if (info.arguments[i].written) {
      written.push_back(meta[i]);
    }
  }
  try {
    at::AutoDispatchBelowAutograd guard;
    info.handle.callBoxed(&meta);
  } catch (const c10::NotImplementedError&) {
    throw;
  } catch (...) {
    raise_as_cpu(info, stack);
    throw;
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
