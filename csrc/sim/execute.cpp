// SPDX-License-Identifier: Apache-2.0
// Synchronous execution. What is here runs once per operator of an eager
// program: no allocation, one uncontended lock.
#include <fmt/format.h>

#include "sim/core.h"
#include "sim/exports.h"
#include "sim/fault.h"
#include "sim/model.h"

namespace neuronx {

using namespace sim;

namespace sim {
namespace {

NRT_STATUS run_locked(nrt_model_t& model,
                      void* const* inputs,
                      void* const* outputs) noexcept {
  try {
    model.executor->run(inputs, outputs);
    return NRT_SUCCESS;
  } catch (const std::out_of_range& error) {
    return fail(NRT_EXEC_OOB, error.what());
  } catch (const std::bad_alloc&) {
    return fail(NRT_RESOURCE, "the host is out of memory");
  } catch (const std::exception& error) {
    return fail(NRT_EXEC_COMPLETED_WITH_ERR, error.what());
  } catch (...) {
    return fail(NRT_EXEC_COMPLETED_WITH_ERR, "the program failed");
  }
}

NRT_STATUS dead_core(const Core& core) {
  return fail(NRT_EXEC_UNIT_UNRECOVERABLE,
              fmt::format("core {} stopped; restart the runtime", core.index));
}

NRT_STATUS check_aliases(const nrt_model_t& model,
                         const TensorSet& inputs,
                         const TensorSet& outputs) {
  for (const auto& [output, input] : model.aliases) {
    if (outputs.addresses[output] != inputs.addresses[input]) {
      return fail(NRT_EXEC_BAD_INPUT,
                  fmt::format("\"{}\" overwrites \"{}\" and must be the same "
                              "tensor",
                              model.outputs[output].name,
                              model.inputs[input].name));
    }
  }
  return NRT_SUCCESS;
}

}  // namespace

NRT_STATUS bind(const nrt_model_t& model,
                TensorSet& inputs,
                TensorSet& outputs) {
  const uint64_t key = 2 * model.id;
  if (inputs.resolved != key) [[unlikely]] {
    if (const auto status = inputs.resolve(key, *model.core, model.inputs)) {
      return status;
    }
  }
  if (outputs.resolved != key + 1) [[unlikely]] {
    if (const auto status =
            outputs.resolve(key + 1, *model.core, model.outputs)) {
      return status;
    }
  }
  if (strict()) {
    inputs.check_tensors();
    outputs.check_tensors();
  }
  return check_aliases(model, inputs, outputs);
}

NRT_STATUS run(nrt_model_t& model,
               void* const* inputs,
               void* const* outputs,
               const std::vector<nrt_tensor_t*>& written) noexcept {
  Core& core = *model.core;
  std::lock_guard lock(core.execution);
  if (core.dead.load(std::memory_order_relaxed)) [[unlikely]] {
    return dead_core(core);
  }
  NRT_STATUS status = fault(FaultKind::Execute);
  if (status == NRT_SUCCESS) {
    status = run_locked(model, inputs, outputs);
  }
  if (status != NRT_SUCCESS) [[unlikely]] {
    core.dead = status == NRT_EXEC_UNIT_UNRECOVERABLE;
    return status;
  }
  for (nrt_tensor_t* tensor : written) {
    if (tensor != nullptr) {
      // Only this core writes the counter, under its lock.
      const auto count = tensor->completions.load(std::memory_order_relaxed);
      tensor->completions.store(count + 1, std::memory_order_release);
    }
  }
  return NRT_SUCCESS;
}

namespace {

NRT_STATUS check_execute(const nrt_model_t* model,
                         const TensorSet* inputs,
                         const TensorSet* outputs,
                         const char* call) {
  if (const auto status = running(call)) {
    return status;
  }
  if (const auto status = check_handle(model, call)) {
    return status;
  }
  if (const auto status = check_handle(inputs, call)) {
    return status;
  }
  return check_handle(outputs, call);
}

}  // namespace
}  // namespace sim

NRT_STATUS nrt_execute(nrt_model_t* model,
                       const nrt_tensor_set_t* inputs,
                       nrt_tensor_set_t* outputs) {
  return nrt_execute_repeat(model, inputs, outputs, 1);
}

NRT_STATUS nrt_execute_repeat(nrt_model_t* model,
                              const nrt_tensor_set_t* inputs,
                              nrt_tensor_set_t* outputs,
                              int count) {
  TensorSet* in = as_set(inputs);
  TensorSet* out = as_set(outputs);
  if (const auto status = check_execute(model, in, out, "nrt_execute")) {
    return status;
  }
  if (count < 1) {
    return fail(NRT_INVALID, "nrt_execute_repeat: the count is not positive");
  }
  try {
    if (const auto status = bind(*model, *in, *out)) {
      return status;
    }
  } catch (const std::bad_alloc&) {
    return fail(NRT_RESOURCE, "the host is out of memory");
  }
  NRT_STATUS status = NRT_SUCCESS;
  for (int i = 0; i < count && status == NRT_SUCCESS; ++i) {
    status =
        run(*model, in->addresses.data(), out->addresses.data(), out->tensors);
  }
  return status;
}

}  // namespace neuronx
