// SPDX-License-Identifier: Apache-2.0
#include "sim/executor/step.h"

#include <stdexcept>

namespace neuronx::sim {
namespace {

bool shares_memory(const at::Tensor& result, const Tensors& operands) {
  for (const at::Tensor& operand : operands)
    if (result.is_alias_of(operand))
      return true;
  return false;
}

// Dense row-major memory that no operand owns.
at::Tensor own(at::Tensor result, bool shared) {
  if (result.is_conj())
    result = result.resolve_conj();
  if (result.is_neg())
    result = result.resolve_neg();
  if (shared)
    return result.clone(at::MemoryFormat::Contiguous);
  return result.contiguous();
}

}  // namespace

void store(const std::string& op,
           const std::vector<Sink>& sinks,
           Tensors results,
           const Tensors& operands) {
  if (results.size() < sinks.size())
    throw std::runtime_error(c10::str("[",
                                      op,
                                      "] returned ",
                                      results.size(),
                                      " results, expected ",
                                      sinks.size()));
  for (size_t i = 0; i < sinks.size(); ++i) {
    const Sink& sink = sinks[i];
    at::Tensor& result = results[i];
    if (sink.shell.numel() == 0)
      continue;
    if (!result.defined() || result.sizes() != sink.shell.sizes() ||
        result.scalar_type() != sink.shell.scalar_type())
      throw std::runtime_error(c10::str("[",
                                        op,
                                        "] result ",
                                        i,
                                        " is ",
                                        describe(result),
                                        ", expected ",
                                        describe(sink.shell)));
    const bool shared = shares_memory(result, operands);
    if (!sink.dynamic) {
      copy(sink.shell, shared ? own(result, shared) : result);
      continue;
    }
    sink.dynamic->held = own(std::move(result), shared);
    point(*sink.dynamic->storage, sink.dynamic->held.mutable_data_ptr());
  }
}

void AtenStep::bind() {
  Tensors outs;
  if (form == Form::Out)
    for (const Sink& sink : sinks)
      outs.push_back(sink.shell);
  call->bind(form, operands, outs);
}

void AtenStep::operator()() {
  if (form == Form::Functional)
    store(name, sinks, call->results(), operands);
  else if (checked)
    call->write();
  else
    first_write();
}

// An out form may find that its result has another shape or dtype than the
// program says, or refuse what the functional form accepts.
void AtenStep::first_write() {
  if (form == Form::InPlace) {
    call->write();
    checked = true;
    return;
  }
  std::vector<at::Tensor> shells;
  for (const Sink& sink : sinks)
    shells.push_back(sink.shell.detach());
  bool written = false;
  try {
    call->write();
    written = true;
    for (size_t i = 0; i < sinks.size(); ++i)
      written &= sinks[i].shell.sizes() == shells[i].sizes() &&
                 sinks[i].shell.strides() == shells[i].strides();
  } catch (const c10::Error&) {
  }
  if (written) {
    checked = true;
    return;
  }
  for (size_t i = 0; i < sinks.size(); ++i)
    sinks[i].shell = std::move(shells[i]);
  form = Form::Functional;
  bind();
  try {
    store(name, sinks, call->results(), operands);
  } catch (...) {
    form = Form::Out;
    bind();
    throw;
  }
}

}  // namespace neuronx::sim
