// SPDX-License-Identifier: Apache-2.0
// The boxed kernel: key, cached entry, outputs, launch.
#pragma once

#include <ATen/core/boxing/OperatorKernel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <atomic>
#include <functional>
#include <string>

#include "eager/call.h"
#include "eager/op_info.h"
#include "ir/program.h"

namespace neuronx::eager {

class Kernel final : public c10::OperatorKernel {
 public:
  explicit Kernel(const c10::OperatorHandle& op) : op_(op) {}
  void operator()(const c10::OperatorHandle& op,
                  c10::DispatchKeySet keys,
                  torch::jit::Stack* stack);

 private:
  const c10::OperatorHandle op_;
  // Made at the first call: there are some two thousand kernels.
  std::atomic<OpInfo*> info_{nullptr};
};

// Runs one operator call on the device or, where no program exists, on the
// host. Consumes the arguments and pushes the results.
void run(OpInfo& info, torch::jit::Stack* stack);

// The entry that serves every value of the call's scalars, or nullptr.
const Entry* find_general(const OpInfo& info, const Call& call);

// Builds, compiles and caches the entry for a call whose key is new.
const Entry& build_entry(OpInfo& info,
                         Call& call,
                         const torch::jit::Stack& stack);

// The Program that a call with these arguments compiles, scalars baked in.
// Throws Refused where there is none.
ir::Program trace(OpInfo& info, const torch::jit::Stack& stack);

// The reason of fallbacks by dtype.
inline constexpr char kHostDtypes[] =
    "float64, complex and unsigned types compute on the host";

// Runs the call on the host: counted, attributed, warned about once per
// operator; an error under TORCH_NEURONX_FALLBACK=error.
void run_on_host(OpInfo& info,
                 torch::jit::Stack* stack,
                 const std::string& reason);

// Registers a kernel for every operator, once; the library must be loaded.
void register_kernels();

enum class FallbackMode { Warn, Silent, Error };
void set_fallback_mode(FallbackMode mode);
// Called on the first fallback of each operator with its name and the reason.
void set_fallback_callback(
    std::function<void(const std::string&, const std::string&)> callback);

}  // namespace neuronx::eager
