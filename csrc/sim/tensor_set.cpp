// SPDX-License-Identifier: Apache-2.0
#include "sim/tensor_set.h"

#include <fmt/format.h>

#include <utility>

#include "sim/core.h"
#include "sim/exports.h"

namespace neuronx::sim {
namespace {

// An empty tensor needs an address that is not null.
std::byte nothing[64];

// Where "input12" stands if tensors were added in order.
size_t position_hint(std::string_view name) {
  size_t position = 0;
  size_t scale = 1;
  for (size_t i = name.size(); i > 0 && scale <= 1000; --i) {
    const char digit = name[i - 1];
    if (digit < '0' || digit > '9') {
      break;
    }
    position += scale * static_cast<size_t>(digit - '0');
    scale *= 10;
  }
  return position;
}

bool fits(const nrt_tensor_t& tensor, size_t bytes, const Core& core) {
  return tensor.storage != nullptr &&
         (strict() ? tensor.size == bytes : tensor.size >= bytes) &&
         (tensor.core() == nullptr || tensor.core() == &core);
}

NRT_STATUS misfit(const nrt_tensor_t& tensor,
                  const Port& port,
                  const Core& core) {
  if (tensor.storage == nullptr) {
    return fail(NRT_EXEC_BAD_INPUT,
                fmt::format("the tensor of \"{}\" has no memory", port.name));
  }
  if (tensor.core() != nullptr && tensor.core() != &core) {
    return fail(NRT_EXEC_BAD_INPUT,
                fmt::format("the tensor of \"{}\" is on core {}, the program "
                            "is on core {}",
                            port.name,
                            tensor.core()->index,
                            core.index));
  }
  return misuse(NRT_EXEC_BAD_INPUT,
                fmt::format("the tensor of \"{}\" has {} bytes, the program "
                            "has {}",
                            port.name,
                            tensor.size,
                            port.bytes));
}

}  // namespace

TensorSet::Entry* TensorSet::find(std::string_view name) {
  const size_t hint = position_hint(name);
  if (hint < entries.size() && entries[hint].name == name) {
    return &entries[hint];
  }
  for (Entry& entry : entries) {
    if (entry.name == name) {
      return &entry;
    }
  }
  return nullptr;
}

void TensorSet::set(const char* name, nrt_tensor_t* tensor) {
  Entry* entry = find(name);
  if (entry == nullptr) {
    entries.push_back({name, tensor});
    resolved = 0;
    return;
  }
  entry->tensor = tensor;
  if (resolved == 0 || entry->port < 0) {
    return;
  }
  if (!fits(*tensor, entry->bytes, *core)) {
    resolved = 0;  // the next launch says why
    return;
  }
  addresses[entry->port] = tensor->data();
  tensors[entry->port] = tensor;
}

NRT_STATUS TensorSet::resolve(uint64_t key,
                              Core& on,
                              const std::vector<Port>& ports) {
  resolved = 0;
  core = &on;
  addresses.assign(ports.size(), nothing);
  tensors.assign(ports.size(), nullptr);
  for (Entry& entry : entries) {
    entry.port = -1;
  }
  for (size_t i = 0; i < ports.size(); ++i) {
    const Port& port = ports[i];
    Entry* entry = find(port.name);
    if (entry == nullptr && port.plain_name != port.name) {
      entry = find(port.plain_name);
    }
    if (entry == nullptr) {
      if (port.bytes == 0) {
        continue;
      }
      return fail(NRT_EXEC_BAD_INPUT,
                  fmt::format("the set has no tensor named \"{}\"", port.name));
    }
    if (const auto status = check_handle(entry->tensor, "nrt_execute")) {
      return status;
    }
    if (port.bytes == 0) {
      continue;
    }
    if (!fits(*entry->tensor, port.bytes, on)) {
      return misfit(*entry->tensor, port, on);
    }
    entry->port = static_cast<int32_t>(i);
    entry->bytes = port.bytes;
    addresses[i] = entry->tensor->data();
    tensors[i] = entry->tensor;
  }
  resolved = key;
  return NRT_SUCCESS;
}

void TensorSet::check_tensors() const {
  for (const Entry& entry : entries) {
    if (entry.tensor->tag != Tag::Tensor || !entry.tensor->alive()) {
      abort_strict("nrt_execute: tensor \"" + entry.name +
                   "\" of the set is freed");
    }
  }
}

}  // namespace neuronx::sim

namespace neuronx {

using namespace sim;

NRT_STATUS nrt_allocate_tensor_set(nrt_tensor_set_t** set) {
  if (const auto status = running(__func__)) {
    return status;
  }
  if (set == nullptr) {
    return fail(NRT_INVALID,
                "nrt_allocate_tensor_set: the result pointer is null");
  }
  return guarded([&] {
    *set = new TensorSet;
    return NRT_SUCCESS;
  });
}

void nrt_destroy_tensor_set(nrt_tensor_set_t** set) {
  if (set == nullptr || *set == nullptr) {
    return;
  }
  TensorSet* destroyed = as_set(std::exchange(*set, nullptr));
  if (phase.load() != Phase::Running) {
    not_running(__func__);
  }
  if (check_handle(destroyed, __func__) == NRT_SUCCESS) {
    dispose(destroyed);
  }
}

NRT_STATUS nrt_add_tensor_to_tensor_set(nrt_tensor_set_t* set,
                                        const char* name,
                                        nrt_tensor_t* tensor) {
  if (const auto status = running(__func__)) {
    return status;
  }
  if (const auto status = check_handle(as_set(set), __func__)) {
    return status;
  }
  if (const auto status = check_handle(tensor, __func__)) {
    return status;
  }
  if (name == nullptr || *name == '\0') {
    return fail(NRT_INVALID, "nrt_add_tensor_to_tensor_set: the name is empty");
  }
  return guarded([&] {
    as_set(set)->set(name, tensor);
    return NRT_SUCCESS;
  });
}

NRT_STATUS nrt_get_tensor_from_tensor_set(nrt_tensor_set_t* set,
                                          const char* name,
                                          nrt_tensor_t** tensor) {
  if (const auto status = running(__func__)) {
    return status;
  }
  if (const auto status = check_handle(as_set(set), __func__)) {
    return status;
  }
  if (name == nullptr || tensor == nullptr) {
    return fail(NRT_INVALID,
                "nrt_get_tensor_from_tensor_set: a pointer is null");
  }
  const auto* entry = as_set(set)->find(name);
  if (entry == nullptr) {
    return fail(NRT_INVALID,
                fmt::format("the set has no tensor named \"{}\"", name));
  }
  *tensor = entry->tensor;
  return NRT_SUCCESS;
}

}  // namespace neuronx
