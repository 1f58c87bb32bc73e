// SPDX-License-Identifier: Apache-2.0
#include "eager/kernel.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/StorageImpl.h>

#include <algorithm>

#include "common/metrics.h"
#include "eager/chunks.h"
#include "eager/decompose.h"
#include "eager/masks.h"
#include "eager/overlap.h"
#include "eager/random.h"
#include "eager/resize.h"
#include "runtime/allocator.h"
#include "runtime/generator.h"
#include "runtime/queue.h"
#include "runtime/stream.h"
#include "runtime/tensor.h"

namespace neuronx::eager {
namespace {

at::Tensor make_output(const Output& spec, c10::DeviceIndex device) {
  return runtime::new_tensor(
      spec.dtype,
      spec.sizes,
      spec.contiguous ? c10::IntArrayRef() : c10::IntArrayRef(spec.strides),
      spec.bytes,
      device);
}

void check_pair(const OpInfo& info,
                const c10::TensorImpl* written,
                const c10::TensorImpl* other) {
  const auto status =
      at::get_overlap_status(const_cast<c10::TensorImpl*>(written),
                             const_cast<c10::TensorImpl*>(other));
  TORCH_CHECK(status != at::MemOverlapStatus::Partial,
              "unsupported operation: some elements of the input tensor "
              "and the written-to tensor refer to a single memory "
              "location. Please clone() the tensor before performing the "
              "operation. (",
              info.name,
              ")");
}

// As ATen: a written tensor may share its memory with an operand only as the
// exact same view. Tensors are grouped by storage, so that a list of n costs
// n log n.
void check_overlap(const OpInfo& info, const Call& call) {
  thread_local std::vector<std::pair<const c10::StorageImpl*, int16_t>> order;
  order.clear();
  for (size_t i = 0; i < call.tensors.size(); ++i) {
    order.emplace_back(call.tensors[i]->unsafe_storage().unsafeGetStorageImpl(),
                       static_cast<int16_t>(i));
  }
  std::sort(order.begin(), order.end());
  for (size_t begin = 0, end; begin < order.size(); begin = end) {
    end = begin + 1;
    while (end < order.size() && order[end].first == order[begin].first) {
      ++end;
    }
    if (end - begin == 1) {
      continue;
    }
    for (size_t w = begin; w < end; ++w) {
      const int16_t position = order[w].second;
      if (!std::binary_search(
              call.written.begin(), call.written.end(), position)) {
        continue;
      }
      const c10::TensorImpl* written = call.tensors[position];
      for (size_t o = begin; o < end; ++o) {
        const c10::TensorImpl* other = call.tensors[order[o].second];
        if (other != written) {
          check_pair(info, written, other);
        }
      }
    }
  }
}

void push_returns(const OpInfo& info,
                  const Entry& entry,
                  std::vector<at::Tensor>& fresh,
                  torch::jit::Stack* stack) {
  const size_t arguments = info.arguments.size();
  const size_t returns = info.returns.size();
  c10::IValue results[kMaxReturns];
  size_t next = 0;
  for (size_t r = 0; r < returns; ++r) {
    switch (info.returns[r].kind) {
      case ReturnInfo::Kind::Argument:
        results[r] =
            (*stack)[stack->size() - arguments + info.returns[r].argument];
        break;
      case ReturnInfo::Kind::TensorList: {
        const int same = info.returns[r].argument;
        const size_t end =
            same < 0 ? fresh.size()
                     : next + (*stack)[stack->size() - arguments + same]
                                  .toListRef()
                                  .size();
        c10::List<at::Tensor> list;
        while (next < end) {
          list.push_back(std::move(fresh[next++]));
        }
        results[r] = std::move(list);
        break;
      }
      case ReturnInfo::Kind::Number:
        results[r] = entry.outputs[r].number;
        break;
      case ReturnInfo::Kind::Tensor:
        results[r] = std::move(fresh[next++]);
        break;
    }
  }
  torch::jit::drop(*stack, arguments);
  for (size_t r = 0; r < returns; ++r) {
    stack->push_back(std::move(results[r]));
  }
}

void launch(OpInfo& info,
            const Entry& entry,
            const Call& call,
            torch::jit::Stack* stack) {
  runtime::Queue* queue =
      entry.executable ? &runtime::current_queue(call.device) : nullptr;
  auto site = queue ? queue->site() : nullptr;
  thread_local std::vector<at::Tensor> fresh;
  fresh.clear();
  for (const Output& output : entry.outputs) {
    switch (output.kind) {
      case Output::Kind::New:
        fresh.push_back(make_output(output, call.device));
        break;
      case Output::Kind::None:
        fresh.emplace_back();
        break;
      case Output::Kind::Number:
        break;
      case Output::Kind::Written:
        if (output.resized) {
          c10::TensorImpl* out = call.tensors[output.argument];
          resize(out, output.sizes);
          if (!output.contiguous) {
            out->set_sizes_and_strides(output.sizes, output.strides);
          }
        }
        break;
    }
  }
  if (queue != nullptr) {
    uint64_t seed = 0, offset = 0;
    if (entry.random_blocks > 0) {
      const auto* values =
          stack->data() + stack->size() - info.arguments.size();
      std::optional<at::Generator> generator;
      for (size_t i = 0; i < info.arguments.size(); ++i) {
        if (values[i].isGenerator()) {
          generator = values[i].toGenerator();
        }
      }
      std::tie(seed, offset) =
          runtime::generator_or_default(generator, call.device)
              .reserve(entry.random_blocks);
    }
    const size_t addresses = entry.inputs.size() + entry.results.size();
    const size_t scalars =
        entry.scalars.size() + (entry.random_blocks > 0 ? 2 : 0);
    std::unique_ptr<void*[]> more;
    if (addresses > runtime::Launch::kInlineAddresses) {
      more.reset(new void*[addresses]);
    }
    std::unique_ptr<uint64_t[]> more_scalars;
    if (scalars > runtime::Launch::kScalars) {
      more_scalars.reset(new uint64_t[scalars]);
    }
    queue->push([&](runtime::Launch& slot) {
      slot.executable = entry.executable.get();
      slot.site = std::move(site);
      slot.more = std::move(more);
      slot.more_scalars = std::move(more_scalars);
      void** a = slot.operands();
      for (const int16_t i : entry.inputs) {
        *a++ = runtime::address(call.tensors[i]);
      }
      for (const int16_t r : entry.results) {
        *a++ = r >= 0 ? runtime::address(fresh[r].unsafeGetTensorImpl())
                      : runtime::address(call.tensors[-1 - r]);
      }
      uint64_t* s = slot.values();
      for (const int16_t i : entry.scalars) {
        const ScalarValue& value = call.scalars[i];
        // Runtime scalars are float32 or int64 (ir::Operand).
        *s++ = value.floating ? std::bit_cast<uint32_t>(static_cast<float>(
                                    std::bit_cast<double>(value.bits)))
                              : value.bits;
      }
      if (entry.random_blocks > 0) {
        *s++ = seed;
        *s++ = offset;
      }
    });
  }
  push_returns(info, entry, fresh, stack);
  fresh.clear();
}

void run_otherwise(OpInfo& info, const Entry& entry, torch::jit::Stack* stack) {
  switch (entry.route) {
    case Entry::Route::Masked:
      expand_masks(info, *stack);
      run(info, stack);
      return;
    case Entry::Route::Overlapping: {
      auto& self = (*stack)[stack->size() - info.arguments.size()];
      const at::Tensor original = self.toTensor();
      self = each_location(original);
      run(info, stack);
      stack->back() = original;
      return;
    }
    case Entry::Route::Clone: {
      auto& self = (*stack)[stack->size() - info.arguments.size()];
      const auto format = stack->back().toOptional<at::MemoryFormat>();
      at::Tensor copy = at::empty_like(self.toTensor(), {}, format);
      copy.copy_(self.toTensor());
      torch::jit::drop(*stack, info.arguments.size());
      stack->emplace_back(std::move(copy));
      return;
    }
    default:
      run_on_host(info, stack, entry.reason);
  }
}

// What the key says nothing about: values of runtime scalars and of tensors.
void check_draw(const OpInfo& info,
                const Entry& entry,
                const torch::jit::Stack& stack) {
  if (!entry.scalars.empty()) {
    check_numbers_as_cpu(info, stack);
  }
  if (info.draw->check != nullptr && entry.route == Entry::Route::Program) {
    info.draw->check(stack.data() + stack.size() - info.arguments.size());
  }
}

}  // namespace

const Entry* find_general(const OpInfo& info, const Call& call) {
  if (call.scalars.empty()) {
    return nullptr;
  }
  thread_local Key key;
  general_key(call, key);
  return info.cache.find(key, key.hash());
}

void run(OpInfo& info, torch::jit::Stack* stack) {
  if (info.each && run_in_chunks(info, stack)) {
    return;
  }
  CallScope scope;
  Call& call = scope.call;
  read_call(info, *stack, call);
  if (call.device < 0 || call.key.overflown()) [[unlikely]] {
    run_on_host(info,
                stack,
                call.device < 0 ? "it has no neuron operand"
                                : "it has too many operands");
    return;
  }
  if (info.writes && call.tensors.size() > 1) {
    check_overlap(info, call);
  }
  const Entry* entry = info.cache.find(call.key, call.key.hash());
  if (entry == nullptr) [[unlikely]] {
    entry = find_general(info, call);
  }
  if (entry == nullptr) [[unlikely]] {
    entry = &build_entry(info, call, *stack);
  }
  if (info.draw != nullptr) {
    check_draw(info, *entry, *stack);
  }
  if (entry->route != Entry::Route::Program) [[unlikely]] {
    if (entry->route == Entry::Route::HostForNow && can_decompose()) {
      entry = &build_entry(info, call, *stack);
    }
    if (entry->route != Entry::Route::Program) {
      run_otherwise(info, *entry, stack);
      return;
    }
  }
  info.executed.store(info.executed.load(std::memory_order_relaxed) + 1,
                      std::memory_order_relaxed);
  launch(info, *entry, call, stack);
}

void Kernel::operator()(const c10::OperatorHandle&,
                        c10::DispatchKeySet,
                        torch::jit::Stack* stack) {
  OpInfo* info = info_.load(std::memory_order_acquire);
  if (info == nullptr) [[unlikely]] {
    info = &op_info(op_);
    info_.store(info, std::memory_order_release);
  }
  run(*info, stack);
}

}  // namespace neuronx::eager
