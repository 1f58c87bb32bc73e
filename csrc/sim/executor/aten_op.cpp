// SPDX-License-Identifier: Apache-2.0
#include "sim/executor/aten_op.h"

#include <ATen/core/jit_type.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>

namespace neuronx::sim {
namespace {

// Overload names of every aten name.
const std::unordered_map<std::string, std::vector<std::string>>& overloads() {
  static const auto* table = [] {
    auto* t = new std::unordered_map<std::string, std::vector<std::string>>;
    for (auto& name : c10::Dispatcher::singleton().getAllOpNames())
      if (name.name.starts_with("aten::"))
        (*t)[name.name].push_back(name.overload_name);
    return t;
  }();
  return *table;
}

c10::OperatorName operator_name(const std::string& name) {
  const size_t dot = name.find('.', 5);
  std::string base = "aten::" + name.substr(5, dot - 5);
  std::string overload = dot == std::string::npos ? "" : name.substr(dot + 1);
  if (overload == "default")
    overload.clear();
  return {std::move(base), std::move(overload)};
}

bool has_kernel(const c10::OperatorHandle& op) {
  return op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU);
}

bool writes(const c10::Argument& argument) {
  return argument.alias_info() && argument.alias_info()->isWrite();
}

bool is_tensor_list(const c10::Argument& result) {
  const c10::Type& type = *result.real_type();
  return type.kind() == c10::TypeKind::ListType &&
         type.castRaw<c10::ListType>()->getElementType()->kind() ==
             c10::TypeKind::TensorType;
}

bool is_tensor(const c10::Argument& result) {
  return result.real_type()->kind() == c10::TypeKind::TensorType ||
         is_tensor_list(result);
}

// The position of each argument of `other` in `functional`, if `other` takes
// the same arguments; out forms lack dtype, layout, device and pin_memory.
std::optional<std::vector<size_t>> same_arguments(
    const c10::FunctionSchema& functional, const c10::FunctionSchema& other) {
  static const std::set<std::string> kImplied{
      "dtype", "layout", "device", "pin_memory"};
  const auto& ours = functional.arguments();
  std::vector<size_t> positions;
  size_t next = 0;
  for (const auto& argument : other.arguments()) {
    if (argument.is_out())
      continue;
    while (next < ours.size() && ours[next].name() != argument.name()) {
      if (!kImplied.contains(ours[next].name()))
        return std::nullopt;
      ++next;
    }
    if (next == ours.size() || *ours[next].type() != *argument.type())
      return std::nullopt;
    positions.push_back(next++);
  }
  for (; next < ours.size(); ++next)
    if (!kImplied.contains(ours[next].name()))
      return std::nullopt;
  return positions;
}

void find_out(AtenOp& op) {
  // Their out forms give `out` the operands' size first, with a warning:
  // https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/Loss.cpp
  static const std::set<std::string> kResizing{"aten::binary_cross_entropy",
                                               "aten::huber_loss",
                                               "aten::mse_loss",
                                               "aten::smooth_l1_loss"};
  const auto& schema = op.functional.schema();
  if (kResizing.contains(schema.name()))
    return;
  for (const auto& result : schema.returns())
    if (result.real_type()->kind() != c10::TypeKind::TensorType)
      return;
  for (const auto& overload : overloads().at(schema.name())) {
    const auto candidate =
        c10::Dispatcher::singleton().findSchema({schema.name(), overload});
    if (!candidate || !has_kernel(*candidate))
      continue;
    const auto& arguments = candidate->schema().arguments();
    size_t outs = 0;
    bool plain = true;
    for (const auto& argument : arguments) {
      outs += argument.is_out();
      plain &= argument.is_out() || !writes(argument);
    }
    // A generated out form calls the functional one and copies.
    if (outs == 0 || outs != schema.returns().size() || !plain ||
        candidate->hasTag(at::Tag::generated))
      continue;
    if (auto kept = same_arguments(schema, candidate->schema())) {
      op.out = candidate;
      op.kept = std::move(*kept);
      return;
    }
  }
}

void find_in_place(AtenOp& op) {
  const auto& schema = op.functional.schema();
  const auto& results = schema.returns();
  const bool lists = std::ranges::all_of(results, is_tensor_list);
  if (results.empty() || (results.size() != 1 && !lists) ||
      schema.arguments().empty())
    return;
  const auto named = overloads().find(schema.name() + "_");
  if (named == overloads().end())
    return;
  for (const auto& overload : named->second) {
    const auto candidate =
        c10::Dispatcher::singleton().findSchema({named->first, overload});
    if (!candidate || !has_kernel(*candidate) ||
        candidate->hasTag(at::Tag::generated))
      continue;
    const auto& arguments = candidate->schema().arguments();
    bool fits =
        arguments.size() == schema.arguments().size() && writes(arguments[0]);
    std::vector<size_t> written;
    for (size_t i = 0; fits && i < arguments.size(); ++i) {
      fits = arguments[i].name() == schema.arguments()[i].name() &&
             *arguments[i].type() == *schema.arguments()[i].type();
      if (writes(arguments[i])) {
        written.push_back(i);
        fits &= !lists || is_tensor_list(arguments[i]);
      }
    }
    if (fits && written.size() == results.size()) {
      op.in_place = candidate;
      if (lists)
        op.written = std::move(written);
      return;
    }
  }
}

std::unique_ptr<AtenOp> resolve(const std::string& name) {
  auto handle = c10::Dispatcher::singleton().findSchema(operator_name(name));
  if (!handle || !has_kernel(*handle) ||
      handle->hasTag(at::Tag::nondeterministic_seeded))
    return nullptr;
  const auto& schema = handle->schema();
  for (const auto& argument : schema.arguments())
    if (writes(argument))
      return nullptr;
  auto op = std::make_unique<AtenOp>(*handle);
  op->pointwise = handle->hasTag(at::Tag::pointwise);
  op->view = !schema.returns().empty();
  for (size_t i = 0; i < schema.returns().size(); ++i) {
    const c10::Argument& result = schema.returns()[i];
    op->view &= result.alias_info() != nullptr;
    if (is_tensor(result))
      op->tensor_returns.push_back(i);
  }
  // What it is for: a view wherever the strides allow it.
  op->view |= schema.name() == "aten::_unsafe_view";
  if (!op->view) {
    find_out(*op);
    find_in_place(*op);
  }
  return op;
}

}  // namespace

const AtenOp* find_aten_op(const std::string& name) {
  if (!name.starts_with("aten."))
    return nullptr;
  static auto* mutex = new std::mutex;
  static auto* table =
      new std::unordered_map<std::string, std::unique_ptr<AtenOp>>;
  std::lock_guard lock(*mutex);
  const auto [entry, added] = table->try_emplace(name);
  if (added)
    entry->second = resolve(name);
  return entry->second.get();
}

}  // namespace neuronx::sim
