// SPDX-License-Identifier: Apache-2.0
#include "eager/call.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Storage.h>

#include <bit>
#include <deque>

#include "runtime/device.h"

namespace neuronx::eager {
namespace {

using runtime::kNeuron;

// Leading word of each argument: what follows in the key.
enum Tag : uint64_t {
  kNone = 1,
  kTensor,
  kNumberTensor,
  kList,
  kInt,
  kDouble,
  kBool,
  kString,
  kDevice,
  kUndefined,
  kGeneral,
};

uint64_t tagged(Tag tag, uint64_t payload) {
  return tag | payload << 8;
}

bool on_device_dtype(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Double:
    case c10::ScalarType::ComplexHalf:
    case c10::ScalarType::ComplexFloat:
    case c10::ScalarType::ComplexDouble:
    case c10::ScalarType::UInt16:
    case c10::ScalarType::UInt32:
    case c10::ScalarType::UInt64:
      return false;
    default:
      return c10::isIntegralType(dtype, true) || c10::isFloatingType(dtype);
  }
}

[[noreturn]] void mixed_devices(const OpInfo& info,
                                c10::Device a,
                                c10::Device b) {
  TORCH_CHECK(false,
              "Expected all tensors to be on the same device, but found at "
              "least two devices, ",
              a,
              " and ",
              b,
              "! (when checking arguments of ",
              info.name,
              ")");
}

void add_scalar(Call& call, bool floating, uint64_t bits) {
  call.scalars.push_back({floating, bits});
}

void read_number_tensor(const at::Tensor& tensor, Call& call) {
  const auto dtype = tensor.scalar_type();
  const bool wrapped = tensor.unsafeGetTensorImpl()->is_wrapped_number();
  call.key.add(
      tagged(kNumberTensor, static_cast<uint64_t>(dtype) << 1 | wrapped));
  if (c10::isComplexType(dtype)) {
    call.host_only = true;
    return;
  }
  if (c10::isFloatingType(dtype)) {
    add_scalar(call, true, std::bit_cast<uint64_t>(tensor.item().toDouble()));
  } else {
    add_scalar(call, false, static_cast<uint64_t>(tensor.item().toLong()));
  }
}

void read_tensor(const OpInfo& info,
                 const at::Tensor& tensor,
                 bool written,
                 Call& call) {
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (!tensor.defined()) {
    call.key.add(kUndefined);
    return;
  }
  const c10::Device device = impl->device();
  if (device.type() != kNeuron) [[unlikely]] {
    if (device.is_cpu() && impl->dim() == 0 && !written &&
        impl->layout() == c10::kStrided) {
      read_number_tensor(tensor, call);
      return;
    }
    mixed_devices(info,
                  call.device < 0 ? c10::Device(kNeuron, 0)
                                  : c10::Device(kNeuron, call.device),
                  device);
  }
  if (call.device < 0) {
    call.device = device.index();
  } else if (call.device != device.index()) [[unlikely]] {
    mixed_devices(info, c10::Device(kNeuron, call.device), device);
  }
  if (written) {
    call.written.push_back(static_cast<int16_t>(call.tensors.size()));
  }
  call.tensors.push_back(impl);
  const auto dtype = c10::typeMetaToScalarType(impl->dtype());
  // Views whose elements are the conjugates or negatives of what the memory
  // holds: operators that core lets see them must not take it for them.
  constexpr c10::DispatchKeySet kMathBits(
      {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});
  const bool math_bits = impl->key_set().has_any(kMathBits);
  call.host_only |= math_bits || !on_device_dtype(dtype);
  const auto sizes = impl->sizes();
  const bool contiguous = impl->is_contiguous();
  call.key.add(tagged(kTensor,
                      static_cast<uint64_t>(dtype) | sizes.size() << 8 |
                          static_cast<uint64_t>(contiguous) << 16 |
                          static_cast<uint64_t>(written) << 17 |
                          static_cast<uint64_t>(math_bits) << 18));
  for (int64_t size : sizes) {
    call.key.add(static_cast<uint64_t>(size));
  }
  if (!contiguous) {
    for (int64_t stride : impl->strides()) {
      call.key.add(static_cast<uint64_t>(stride));
    }
  }
}

void read_value(const OpInfo& info,
                const ArgumentInfo& argument,
                const c10::IValue& value,
                Call& call);

void read_list(const OpInfo& info,
               const ArgumentInfo& argument,
               const c10::IValue& value,
               Call& call) {
  if (value.isIntList()) {
    const auto list = value.toIntList();
    call.key.add(tagged(kList, list.size()));
    for (int64_t x : list) {
      call.key.add(static_cast<uint64_t>(x));
    }
    return;
  }
  const auto list = value.toListRef();
  call.key.add(tagged(kList, list.size()));
  for (const c10::IValue& element : list) {
    read_value(info, argument, element, call);
  }
}

void read_value(const OpInfo& info,
                const ArgumentInfo& argument,
                const c10::IValue& value,
                Call& call) {
  if (value.isTensor()) {
    read_tensor(info, value.toTensor(), argument.written, call);
  } else if (value.isNone()) {
    call.key.add(kNone);
  } else if (value.isDouble()) {
    if (argument.kind == ArgumentKind::Scalar ||
        argument.kind == ArgumentKind::ScalarList) {
      call.key.add(kDouble);
      add_scalar(call, true, std::bit_cast<uint64_t>(value.toDouble()));
    } else {
      call.key.add(kDouble);
      call.key.add(std::bit_cast<uint64_t>(value.toDouble()));
    }
  } else if (value.isBool()) {
    call.key.add(tagged(kBool, value.toBool()));
  } else if (value.isInt()) {
    if (argument.kind == ArgumentKind::Scalar ||
        argument.kind == ArgumentKind::ScalarList) {
      call.key.add(kInt);
      add_scalar(call, false, static_cast<uint64_t>(value.toInt()));
    } else {
      call.key.add(kInt);
      call.key.add(static_cast<uint64_t>(value.toInt()));
    }
  } else if (value.isList()) {
    read_list(info, argument, value, call);
  } else if (value.isString()) {
    const auto& text = value.toStringRef();
    call.key.add(tagged(kString, text.size()));
    call.key.add(std::hash<std::string>{}(text));
  } else if (value.isDevice()) {
    call.key.add(kDevice);
  } else if (value.isComplexDouble() || value.isSymInt() ||
             value.isSymFloat()) {
    call.host_only = true;
    call.key.add(kNone);
  } else if (value.isGenerator()) {
    call.key.add(kNone);
  } else {
    call.host_only = true;
    call.key.add(kNone);
  }
}

std::deque<Call>& pool() {
  thread_local std::deque<Call> calls;
  return calls;
}
thread_local size_t depth = 0;

}  // namespace

void Call::clear() {
  device = -1;
  tensors.clear();
  written.clear();
  scalars.clear();
  key.clear();
  structure = 0;
  host_only = false;
}

void read_call(const OpInfo& info, const torch::jit::Stack& stack, Call& call) {
  const size_t count = info.arguments.size();
  const c10::IValue* values = stack.data() + (stack.size() - count);
  for (size_t i = 0; i < count; ++i) {
    read_value(info, info.arguments[i], values[i], call);
  }
  call.structure = call.key.size();
  for (const ScalarValue& scalar : call.scalars) {
    call.key.add(scalar.bits);
  }
}

void general_key(const Call& call, Key& key) {
  key.clear();
  key.add(kGeneral);
  for (size_t i = 0; i < call.structure; ++i) {
    key.add(call.key.words()[i]);
  }
}

CallScope::CallScope()
    : call([]() -> Call& {
        if (depth == pool().size()) {
          pool().emplace_back();
        }
        return pool()[depth++];
      }()) {
  call.clear();
}

CallScope::~CallScope() {
  --depth;
}

}  // namespace neuronx::eager
