// SPDX-License-Identifier: Apache-2.0
#include "eager/op_info.h"

#include <ATen/core/jit_type.h>

#include <set>
#include <unordered_map>

#include "eager/random.h"
#include "lowering/lowering.h"

namespace neuronx::eager {
namespace {

ArgumentKind kind_of(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::OptionalType:
      return kind_of(*type.castRaw<c10::OptionalType>()->getElementType());
    case c10::TypeKind::TensorType:
      return ArgumentKind::Tensor;
    case c10::TypeKind::NumberType:
    case c10::TypeKind::FloatType:
      return ArgumentKind::Scalar;
    case c10::TypeKind::ListType: {
      switch (kind_of(*type.castRaw<c10::ListType>()->getElementType())) {
        case ArgumentKind::Tensor:
          return ArgumentKind::TensorList;
        case ArgumentKind::Scalar:
          return ArgumentKind::ScalarList;
        default:
          return ArgumentKind::IntegerList;
      }
    }
    case c10::TypeKind::StringType:
      return ArgumentKind::String;
    case c10::TypeKind::DeviceObjType:
      return ArgumentKind::Device;
    case c10::TypeKind::GeneratorType:
      return ArgumentKind::Generator;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
    case c10::TypeKind::BoolType:
    case c10::TypeKind::ScalarTypeType:
    case c10::TypeKind::LayoutType:
    case c10::TypeKind::MemoryFormatType:
      return ArgumentKind::Integer;
    default:
      return ArgumentKind::Other;
  }
}

ReturnInfo return_info(const c10::FunctionSchema& schema,
                       const c10::Argument& result) {
  using Kind = ReturnInfo::Kind;
  if (result.alias_info() != nullptr && result.alias_info()->isWrite()) {
    for (size_t i = 0; i < schema.arguments().size(); ++i) {
      const auto* alias = schema.arguments()[i].alias_info();
      if (alias != nullptr &&
          alias->beforeSets() == result.alias_info()->beforeSets()) {
        return {Kind::Argument, static_cast<int>(i)};
      }
    }
  }
  switch (result.type()->kind()) {
    case c10::TypeKind::ListType:
      // Functional forms of operators in place: "self_out" is the new "self".
      for (size_t i = 0; i < schema.arguments().size(); ++i) {
        if (schema.arguments()[i].name() + "_out" == result.name()) {
          return {Kind::TensorList, static_cast<int>(i)};
        }
      }
      return {Kind::TensorList};
    case c10::TypeKind::TensorType:
      return {Kind::Tensor};
    default:
      return {Kind::Number};
  }
}

bool same_arguments(const c10::FunctionSchema& functional,
                    const c10::FunctionSchema& writing) {
  size_t n = 0;
  for (const auto& argument : writing.arguments()) {
    if (argument.is_out()) {
      continue;
    }
    if (n >= functional.arguments().size()) {
      return false;
    }
    const auto& other = functional.arguments()[n++];
    if (other.name() != argument.name() || *other.type() != *argument.type()) {
      return false;
    }
  }
  // A functional form may add dtype, layout, device... of the result.
  for (; n < functional.arguments().size(); ++n) {
    static const std::set<std::string> kFactory{
        "dtype", "layout", "device", "pin_memory"};
    if (!kFactory.contains(functional.arguments()[n].name())) {
      return false;
    }
  }
  return true;
}

bool writes_nothing(const c10::FunctionSchema& schema) {
  for (const auto& argument : schema.arguments()) {
    if (argument.alias_info() && argument.alias_info()->isWrite()) {
      return false;
    }
  }
  return true;
}

// Overloads of every aten name, listed once.
const std::unordered_map<std::string, std::vector<c10::OperatorName>>&
overloads() {
  static const auto* all = [] {
    auto* map =
        new std::unordered_map<std::string, std::vector<c10::OperatorName>>;
    for (auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
      if (name.name.starts_with("aten::")) {
        (*map)[name.name].push_back(name);
      }
    }
    return map;
  }();
  return *all;
}

std::string find_functional(const c10::OperatorHandle& handle) {
  const auto& schema = handle.schema();
  if (writes_nothing(schema)) {
    return full_name(handle.operator_name());
  }
  std::string base = schema.name();
  if (base.ends_with("_") && !base.ends_with("__")) {
    base.pop_back();
  } else if (base.starts_with("aten::__i")) {
    base.erase(base.find("__i") + 2, 1);  // __ilshift__
  }
  const auto it = overloads().find(base);
  if (it == overloads().end()) {
    return "";
  }
  for (const auto& name : it->second) {
    const auto candidate = c10::Dispatcher::singleton().findSchema(name);
    if (candidate && writes_nothing(candidate->schema()) &&
        same_arguments(candidate->schema(), schema)) {
      return full_name(name);
    }
  }
  return "";
}

std::mutex& registry_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
auto& registry() {
  static auto* map =
      new std::unordered_map<std::string, std::unique_ptr<OpInfo>>;
  return *map;
}

}  // namespace

std::string full_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name
                                    : name.name + "." + name.overload_name;
}

OpInfo::OpInfo(const c10::OperatorHandle& op)
    : handle(op),
      name(full_name(op.operator_name())),
      functional(find_functional(op)) {
  const auto& schema = handle.schema();
  for (const auto& argument : schema.arguments()) {
    const bool written =
        argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    writes = writes || written;
    arguments.push_back(
        {kind_of(*argument.real_type()), written, argument.is_out()});
  }
  for (const auto& result : schema.returns()) {
    returns.push_back(return_info(schema, result));
  }
  TORCH_INTERNAL_ASSERT(returns.size() <= kMaxReturns, name);
  for (const at::Tag tag : handle.getTags()) {
    pointwise |= tag == at::Tag::pointwise;
    random |= tag == at::Tag::nondeterministic_seeded;
    data_dependent |= tag == at::Tag::data_dependent_output ||
                      tag == at::Tag::dynamic_output_shape;
  }
  each = name.starts_with("aten::_foreach_") ||
         name.starts_with("aten::_fused_") ||
         name.starts_with("aten::_amp_foreach_");
  // Of a fused optimizer's numbers only the learning rate changes from step
  // to step.
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (name.starts_with("aten::_fused_") &&
        arguments[i].kind == ArgumentKind::Scalar &&
        schema.arguments()[i].name() != "lr") {
      arguments[i].kind = ArgumentKind::Integer;
    }
  }
  draw = find_random_op(name);
  if (draw == nullptr) {
    return;
  }
  // Bounds of random integers are numbers like any; sizes are SymInts.
  for (int position : draw->parameters) {
    if (schema.arguments()[position].real_type()->str() == "int" ||
        schema.arguments()[position].real_type()->str() == "int?") {
      arguments[position].kind = ArgumentKind::Scalar;
    }
  }
}

int OpInfo::constant_variants(uint64_t structure) {
  std::lock_guard lock(variants_mutex_);
  return variants_[structure]++;
}

OpInfo& op_info(const c10::OperatorHandle& handle) {
  std::lock_guard lock(registry_mutex());
  auto& slot = registry()[full_name(handle.operator_name())];
  if (!slot) {
    slot = std::make_unique<OpInfo>(handle);
  }
  return *slot;
}

std::vector<OpInfo*> op_infos() {
  std::lock_guard lock(registry_mutex());
  std::vector<OpInfo*> all;
  for (auto& [name, info] : registry()) {
    all.push_back(info.get());
  }
  return all;
}

}  // namespace neuronx::eager
