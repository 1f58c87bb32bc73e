// SPDX-License-Identifier: Apache-2.0
#include "eager/meta.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>

#include <exception>
#include <map>
#include <string_view>
#include <unordered_map>

#include "eager/random.h"
#include "lowering/lowering.h"

namespace neuronx::eager {
namespace {

// Arguments on another device, with the same sizes, strides and aliases.
struct Conversion {
  c10::DeviceType device;
  int fill = 0;  // of tensors on the CPU
  std::unordered_map<const c10::TensorImpl*, at::Tensor> seen = {};

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
        converted.fill_(fill);
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

// PyTorch's meta function describes the bias' gradient whether or not it is
// asked for (grad_input_mask).
void drop_unrequested(const OpInfo& info,
                      const torch::jit::Stack& stack,
                      Inference& inference) {
  if (info.name !=
      "aten::_scaled_dot_product_fused_attention_overrideable_backward") {
    return;
  }
  const auto& mask = stack[stack.size() - info.arguments.size() + 5];
  if (!mask.toBoolList().get(3)) {
    inference.returns.at(3) = at::Tensor();
  }
}

// PyTorch's meta function asks biases that are absent for their device.
void add_biases(const OpInfo& info, torch::jit::Stack& arguments) {
  if (info.name != "aten::_thnn_fused_lstm_cell" ||
      (arguments[3].isTensor() && arguments[3].toTensor().defined())) {
    return;
  }
  const at::Tensor gates = arguments[0].toTensor();
  arguments[3] = at::empty_strided({gates.size(-1)}, {1}, gates.options());
  arguments[4] = arguments[3];
}

torch::jit::Stack convert_all(const OpInfo& info,
                              const torch::jit::Stack& stack,
                              c10::DeviceType device,
                              int fill = 0) {
  Conversion conversion{device, fill};
  torch::jit::Stack converted;
  const size_t count = info.arguments.size();
  for (size_t i = stack.size() - count; i < stack.size(); ++i) {
    converted.push_back(conversion.value(stack[i]));
  }
  return converted;
}

// What the operator returns for operands like these on another device.
Inference infer_on(const OpInfo& info,
                   const torch::jit::Stack& stack,
                   c10::DeviceType device,
                   int fill = 0) {
  auto arguments = convert_all(info, stack, device, fill);
  add_biases(info, arguments);
  Inference inference;
  std::vector<c10::IValue> written;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (info.arguments[i].written) {
      written.push_back(arguments[i]);
    }
  }
  {
    at::AutoDispatchBelowAutograd below_autograd;
    c10::impl::ExcludeDispatchKeyGuard no_autocast(
        c10::autocast_dispatch_keyset);
    info.handle.callBoxed(&arguments);
  }
  for (const c10::IValue& result : arguments) {
    flatten(result, inference.returns);
  }
  drop_unrequested(info, stack, inference);
  std::vector<c10::IValue> leaves;
  for (const c10::IValue& value : written) {
    flatten(value, leaves);
  }
  for (const c10::IValue& leaf : leaves) {
    inference.written.push_back(leaf.toTensor());
  }
  return inference;
}

// In place on lists: every tensor keeps its size.
Inference infer_in_place(const OpInfo& info, const torch::jit::Stack& stack) {
  const auto meta = convert_all(info, stack, c10::DeviceType::Meta);
  std::vector<c10::IValue> leaves;
  for (size_t i = 0; i < meta.size(); ++i) {
    if (info.arguments[i].written) {
      flatten(meta[i], leaves);
    }
  }
  Inference inference;
  for (const c10::IValue& leaf : leaves) {
    inference.written.push_back(leaf.toTensor());
  }
  return inference;
}

// Most meta functions are Python's. Where there is none, the CPU's kernel
// tells, on zeros, which are valid indices, or on ones, which are valid
// divisors. It raises what users know for arguments that are wrong.
Inference infer_on_cpu(const OpInfo& info, const torch::jit::Stack& stack) {
  const KeepRandomState keep(info.random || info.draw != nullptr);
  std::exception_ptr error;
  for (const int fill : {0, 1}) {
    try {
      return infer_on(info, stack, c10::DeviceType::CPU, fill);
    } catch (...) {
      error = error ? error : std::current_exception();
    }
  }
  std::rethrow_exception(error);
}

// Who knows sizes, dtypes and errors: PyTorch's meta function, which may check
// less than the CPU's kernel, or describe CUDA's results; the simulator runs
// the CPU's.
enum class Source { Meta, MetaThenCpu, Cpu };

Source source(const OpInfo& info) {
  using enum Source;
  static const auto* sources = new std::map<std::string_view, Source>{
      {"aten::_embedding_bag", Cpu},
      {"aten::_embedding_bag_forward_only", Cpu},
      {"aten::_native_batch_norm_legit_no_training", Cpu},
      {"aten::max_unpool2d", Cpu},
      {"aten::multilabel_margin_loss_forward", Cpu},
      {"aten::multinomial", Cpu},
      {"aten::multinomial.out", Cpu},
      {"aten::native_batch_norm", Cpu},
      {"aten::native_batch_norm.out", Cpu},
      {"aten::nonzero_static", Cpu},

      {"aten::argmax", MetaThenCpu},
      {"aten::argmin", MetaThenCpu},
      {"aten::bucketize.Tensor", MetaThenCpu},
      {"aten::index_add", MetaThenCpu},
      {"aten::index_copy", MetaThenCpu},
      {"aten::kthvalue", MetaThenCpu},
      {"aten::masked_scatter", MetaThenCpu},
      {"aten::rsub.Tensor", MetaThenCpu},
      {"aten::std.correction", MetaThenCpu},
      {"aten::topk", MetaThenCpu},
      {"aten::var.correction", MetaThenCpu},
  };
  const auto named = sources->find(info.name);
  if (named != sources->end()) {
    return named->second;
  }
  // Variants check as the functional one does; results may differ. Of
  // pointwise operators and those on lists, meta functions miss dtypes.
  const auto functional = sources->find(info.functional);
  const bool checked =
      functional != sources->end() && functional->second == MetaThenCpu;
  return checked || info.pointwise || info.each ? MetaThenCpu : Meta;
}

int64_t count_elements(const c10::IValue& value, bool& empty) {
  int64_t elements = 0;
  if (value.isTensor() && value.toTensor().defined()) {
    elements = value.toTensor().numel();
    empty |= elements == 0;
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorList()) {
      elements += tensor.numel();
    }
  }
  return elements;
}

// Lets the CPU's kernel check a small call: meta functions know nothing of the
// dtypes that a kernel has, and some miss other errors, so they may in calls
// without elements, such as the maximum of nothing. The data are not the
// user's: what else a kernel says may be about them.
void check_as_cpu(const OpInfo& info, const torch::jit::Stack& stack) {
  constexpr int64_t kSmall = 1 << 16, kTiny = 1 << 12;
  if (info.random || info.draw != nullptr ||
      info.functional == "aten::histc") {  // has more dtypes than the CPU's
    return;
  }
  bool empty = false;
  int64_t elements = 0;
  for (size_t i = stack.size() - info.arguments.size(); i < stack.size(); ++i) {
    elements += count_elements(stack[i], empty);
  }
  const bool unsure = empty || source(info) == Source::MetaThenCpu;
  if (elements > (unsure ? kSmall : kTiny)) {
    return;
  }
  try {
    infer_on_cpu(info, stack);
  } catch (const c10::NotImplementedError& error) {
    // As in: "frac" not implemented for 'Int'. Other reasons are the CPU's own.
    if (std::string_view(error.what()).find("not implemented for") !=
        std::string_view::npos) {
      throw NoKernel(error);
    }
  } catch (...) {
    if (unsure) {
      throw;
    }
  }
}

}  // namespace

torch::jit::Stack meta_arguments(const OpInfo& info,
                                 const torch::jit::Stack& stack) {
  return convert_all(info, stack, c10::DeviceType::Meta);
}

Inference infer(const OpInfo& info, const torch::jit::Stack& stack) {
  if (source(info) == Source::Cpu) {
    return infer_on_cpu(info, stack);
  }
  try {
    auto inference = infer_on(info, stack, c10::DeviceType::Meta);
    check_as_cpu(info, stack);
    return inference;
  } catch (const NoKernel&) {
    throw;
  } catch (const c10::NotImplementedError&) {
    if (info.each && info.returns.empty()) {
      check_as_cpu(info, stack);
      return infer_in_place(info, stack);
    }
    if (!lowering::has_lowering(info.functional) && info.draw == nullptr) {
      throw;
    }
  } catch (...) {
    // Python's meta functions word some errors in their own way; the CPU's
    // kernel checks the same arguments first. When it finds no fault, the
    // meta function's error stands.
    const KeepRandomState keep(info.random || info.draw != nullptr);
    infer_on(info, stack, c10::DeviceType::CPU);
    throw;
  }
  return infer_on_cpu(info, stack);
}

}  // namespace neuronx::eager
