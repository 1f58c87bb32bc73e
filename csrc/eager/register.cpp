// SPDX-License-Identifier: Apache-2.0
// One boxed kernel per operator that a backend has to provide, and one for
// everything else.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <set>
#include <string>

#include "aten/registered.h"
#include "eager/kernel.h"
#include "lowering/lowering.h"

namespace neuronx::eager {
namespace {

class Fallback final : public c10::OperatorKernel {
 public:
  void operator()(const c10::OperatorHandle& op,
                  c10::DispatchKeySet,
                  torch::jit::Stack* stack) {
    run(op_info(op), stack);
  }
};

bool is_view(const c10::FunctionSchema& schema) {
  for (const auto& argument : schema.arguments()) {
    if (argument.alias_info() != nullptr && !argument.alias_info()->isWrite()) {
      return true;
    }
  }
  return false;
}

bool takes_tensors(const c10::FunctionSchema& schema) {
  for (const auto& argument : schema.arguments()) {
    const auto text = argument.type()->str();
    if (text.find("Tensor") != std::string::npos) {
      return true;
    }
  }
  return false;
}

// "aten::add" of "aten::add_" and "aten::add.Tensor".
std::string base_name(std::string name) {
  name.resize(std::min(name.size(), name.find('.')));
  if (name.ends_with("_") && !name.ends_with("__")) {
    name.pop_back();
  }
  return name;
}

const std::set<std::string>& lowered_bases() {
  static const auto* bases = [] {
    auto* all = new std::set<std::string>;
    for (const auto& name : lowering::lowered_names()) {
      all->insert(base_name(name));
    }
    return all;
  }();
  return *bases;
}

// Needs a kernel of ours: it has a CPU kernel (every backend brings its own),
// or the table has a better one than core's composite.
bool wanted(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  // transpose_ and its like change no element.
  if (is_view(schema) || op.hasTag(at::Tag::inplace_view) ||
      !takes_tensors(schema) ||
      aten::is_registered(full_name(op.operator_name()))) {
    return false;
  }
  return op.hasKernelForDispatchKey(c10::DispatchKey::CPU) ||
         op.hasKernelForDispatchKey(
             c10::DispatchKey::CompositeExplicitAutogradNonFunctional) ||
         (lowered_bases().contains(base_name(schema.name())) &&
          lowering::has_lowering(op_info(op).functional));
}

void register_all() {
  // Leaked: dispatcher entries outlive everything.
  static auto* library = new torch::Library(torch::Library::IMPL,
                                            "aten",
                                            c10::DispatchKey::PrivateUse1,
                                            __FILE__,
                                            __LINE__);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    if (!name.name.starts_with("aten::")) {
      continue;
    }
    const auto op = dispatcher.findSchema(name);
    if (op && wanted(*op)) {
      library->impl(full_name(name).c_str(),
                    torch::CppFunction::makeFromBoxedFunctor(
                        std::make_unique<Kernel>(*op)));
    }
  }
  static auto* everything = new torch::Library(torch::Library::IMPL,
                                               "_",
                                               c10::DispatchKey::PrivateUse1,
                                               __FILE__,
                                               __LINE__);
  everything->fallback(
      torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Fallback>()));
}

}  // namespace

void register_kernels() {
  static const bool once = (register_all(), true);
  (void)once;
}

}  // namespace neuronx::eager
