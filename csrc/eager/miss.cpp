// SPDX-License-Identifier: Apache-2.0
// A key seen for the first time: infer the results, build the Program,
// compile, cache. Calls without a device program are remembered as such.
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>

#include "common/metrics.h"
#include "compiler/service.h"
#include "eager/call_builder.h"
#include "eager/decompose.h"
#include "eager/kernel.h"
#include "eager/masks.h"
#include "eager/meta.h"
#include "eager/overlap.h"
#include "eager/random.h"
#include "lowering/lowering.h"

namespace neuronx::eager {
namespace {

// Constant entries of one structure before its scalars become inputs. Those of
// optimizers' lists change with every step: soon, or at once where each tensor
// has its own.
int constant_variants(const OpInfo& info) {
  if (!info.each) {
    return 4;
  }
  const bool own = std::ranges::any_of(info.arguments, [](const auto& a) {
    return a.kind == ArgumentKind::ScalarList;
  });
  return own ? 0 : 1;
}

constexpr char kNoInference[] = "PyTorch cannot infer its result without data";

// The only operators whose scalars decide the result's size.
bool shape_from_scalars(const OpInfo& info) {
  return info.functional.starts_with("aten::arange") ||
         info.functional.starts_with("aten::range");
}

}  // namespace

ir::Program trace(OpInfo& info, const torch::jit::Stack& stack) {
  CallScope scope;
  read_call(info, stack, scope.call);
  std::string reason;
  try {
    auto built =
        build_call(info, scope.call, stack, infer(info, stack), false, true);
    if (built.program) {
      return std::move(*built.program);
    }
    reason = "all its results are empty";
  } catch (const Refused& refused) {
    reason = refused.what();
  } catch (const NoKernel&) {
    throw;
  } catch (const c10::NotImplementedError&) {
    reason = kNoInference;
  }
  throw Refused(
      fmt::format("[{}] has no device program: {}", info.name, reason));
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
    general =
        info.constant_variants(general_form.hash()) >= constant_variants(info);
  }
  const auto compile = [&](Built built) {
    entry = std::move(built.entry);
    if (built.program) {
      entry->executable = compiler::compile(
          info.name, std::move(*built.program), built.scalars);
    }
  };
  const auto refuse = [&](std::string reason, bool provisional = false) {
    entry = std::make_unique<Entry>();
    entry->route = provisional ? Entry::Route::HostForNow : Entry::Route::Host;
    entry->reason = std::move(reason);
  };
  if (info.draw != nullptr) {
    check_numbers_as_cpu(info, stack);
  }
  if (call.host_only && info.functional == "aten::clone") {
    entry = std::make_unique<Entry>();
    entry->route = Entry::Route::Clone;
  } else if (call.host_only) {
    refuse(kHostDtypes);
  } else if (is_masked_index(info, stack)) {
    entry = std::make_unique<Entry>();
    entry->route = Entry::Route::Masked;
  } else if (fills_shared_memory(info, call)) {
    entry = std::make_unique<Entry>();
    entry->route = Entry::Route::Overlapping;
  } else if (info.data_dependent && info.functional != "aten::index.Tensor") {
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
      refuse(refused.what(), refused.provisional);
    } catch (const lowering::NeedsConstant& error) {
      refuse(error.what());
    } catch (const NoKernel&) {
      throw;
    } catch (const c10::NotImplementedError&) {
      refuse(can_decompose()
                 ? kNoInference
                 : "it has no lowering, and decompositions need Python",
             !can_decompose());
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
