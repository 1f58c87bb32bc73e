// SPDX-License-Identifier: Apache-2.0
// A key seen for the first time: infer the results, build the Program,
// compile, cache. Calls without a device program are remembered as such.
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include "common/metrics.h"
#include "compiler/service.h"
#include "eager/call_builder.h"
#include "eager/kernel.h"
#include "eager/meta.h"
#include "eager/random.h"
#include "lowering/lowering.h"

namespace neuronx::eager {
namespace {

// Constant entries of one structure before its scalars become inputs.
constexpr int kConstantVariants = 4;

// The only operators whose scalars decide the result's size.
bool shape_from_scalars(const OpInfo& info) {
  return info.functional.starts_with("aten::arange") ||
         info.functional.starts_with("aten::range");
}

// x[indices] has a known size as long as no index is a mask.
bool is_data_dependent(const OpInfo& info, const Call& call) {
  if (!info.data_dependent || info.functional != "aten::index.Tensor") {
    return info.data_dependent;
  }
  for (size_t i = 1; i < call.tensors.size(); ++i) {
    const auto dtype = c10::typeMetaToScalarType(call.tensors[i]->dtype());
    if (dtype == at::kBool || dtype == at::kByte) {
      return true;
    }
  }
  return false;
}

}  // namespace

ir::Program trace(OpInfo& info, const torch::jit::Stack& stack) {
  CallScope scope;
  read_call(info, stack, scope.call);
  const Inference inference = infer(info, stack);
  try {
    auto built = build_call(info, scope.call, stack, inference, false, true);
    TORCH_CHECK(built.program,
                "[",
                info.name,
                "] has no program: all results are empty");
    return std::move(*built.program);
  } catch (const Refused& refused) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        false, "[", info.name, "] has no device program: ", refused.what());
  }
}

const Entry& build_entry(OpInfo& info,
                         Call& call,
                         const torch::jit::Stack& stack) {
  metrics::count(metrics::Metric::CacheMisses);
  std::unique_ptr<Entry> entry;
  bool general = false;
  Key general_form;
  if (!call.scalars.empty() && !shape_from_scalars(info)) {
    general_key(call, general_form);
    general = info.constant_variants(general_form.hash()) >= kConstantVariants;
  }
  const auto compile = [&](Built built) {
    entry = std::move(built.entry);
    if (built.program) {
      entry->executable = compiler::compile(
          info.name, std::move(*built.program), built.scalars);
    }
  };
  const auto refuse = [&](std::string reason) {
    entry = std::make_unique<Entry>();
    entry->host = true;
    entry->reason = std::move(reason);
  };
  if (info.draw != nullptr) {
    check_as_cpu(info, stack);
  }
  if (call.host_only) {
    refuse("float64, complex and unsigned types compute on the host");
  } else if (is_data_dependent(info, call)) {
    refuse("the size of its result depends on the data");
  } else {
    try {
      const Inference inference = infer(info, stack);
      for (const at::Tensor& written : inference.written) {
        at::assert_no_internal_overlap(written);
      }
      try {
        compile(build_call(info, call, stack, inference, general));
      } catch (const lowering::NeedsConstant&) {
        general = false;
        compile(build_call(info, call, stack, inference, false));
      }
    } catch (const Refused& refused) {
      refuse(refused.what());
    } catch (const lowering::NeedsConstant& error) {
      refuse(error.what());
    } catch (const c10::NotImplementedError& error) {
      refuse("PyTorch cannot infer its result without data");
    }
  }
  if (general) {
    metrics::count(metrics::Metric::ScalarGeneralizations);
    entry->key.assign(general_form.words(),
                      general_form.words() + general_form.size());
    entry->hash = general_form.hash();
  } else {
    entry->key.assign(call.key.words(), call.key.words() + call.key.size());
    entry->hash = call.key.hash();
  }
  return *info.cache.insert(std::move(entry));
}

}  // namespace neuronx::eager
