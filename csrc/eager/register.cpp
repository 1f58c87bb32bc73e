// SPDX-License-Identifier: Apache-2.0
// One boxed kernel per operator that a backend has to provide, and one for
// everything else.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <set>
#include <string>

#include "aten/composites.h"
#include "eager/kernel.h"
#include "eager/random.h"
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

// squeeze_ and its like change the view, never the data.
bool changes_view(const c10::OperatorHandle& op) {
  const auto tags = op.getTags();
  return std::find(tags.begin(), tags.end(), at::Tag::inplace_view) !=
         tags.end();
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

// Its derivative is that of the operators it is composed of: a kernel of ours
// would hide them from autograd.
bool differentiates_by_parts(const c10::OperatorHandle& op) {
  using c10::DispatchKey;
  return op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd) &&
         !op.hasKernelForDispatchKey(DispatchKey::Autograd) &&
         !op.hasKernelForDispatchKey(DispatchKey::AutogradPrivateUse1);
}

// Needs a kernel of ours: it has a CPU kernel (every backend brings its own),
// or the table has a better one than core's composite.
bool wanted(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  if (is_view(schema) || changes_view(op) || !takes_tensors(schema) ||
      differentiates_by_parts(op) ||
      op.hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1) ||
      aten::is_composite(full_name(op.operator_name()))) {
    return false;
  }
  return op.hasKernelForDispatchKey(c10::DispatchKey::CPU) ||
         find_random_op(full_name(op.operator_name())) != nullptr ||
         op.hasKernelForDispatchKey(
             c10::DispatchKey::CompositeExplicitAutogradNonFunctional) ||
         (lowered_bases().contains(base_name(schema.name())) &&
          lowering::has_lowering(op_info(op).functional));
}

// Leaked: dispatcher entries outlive everything.
torch::Library& library(const char* name_space) {
  return *new torch::Library(torch::Library::IMPL,
                             name_space,
                             c10::DispatchKey::PrivateUse1,
                             __FILE__,
                             __LINE__);
}

void register_all() {
  torch::Library& aten = library("aten");
  torch::Library& bounded = library("neuronx_bounded");
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    const bool ours = name.name.starts_with("neuronx_bounded::");
    if (!ours && !name.name.starts_with("aten::")) {
      continue;
    }
    const auto op = dispatcher.findSchema(name);
    if (op && (ours || wanted(*op))) {
      (ours ? bounded : aten)
          .impl(full_name(name).c_str(),
                torch::CppFunction::makeFromBoxedFunctor(
                    std::make_unique<Kernel>(*op)));
    }
  }
  library("_").fallback(
      torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Fallback>()));
}

}  // namespace

void register_kernels() {
  static const bool once = (register_all(), true);
  (void)once;
}

}  // namespace neuronx::eager
