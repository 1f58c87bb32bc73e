// SPDX-License-Identifier: Apache-2.0
#include "sim/executor/body.h"

#include <algorithm>

#include "sim/executor/executor.h"
#include "sim/executor/interpreter.h"

namespace neuronx::sim {
namespace {

std::vector<ir::TensorType> parameter_types(const ir::Program& region) {
  std::vector<ir::TensorType> types;
  for (ir::Value v : region.parameters)
    types.push_back(region.type(v));
  return types;
}

at::Tensor contiguous(const at::Tensor& x) {
  return from_carrier(carrier(x).contiguous(), x.scalar_type());
}

at::Tensor copied(const at::Tensor& x) {
  return from_carrier(carrier(x).clone(at::MemoryFormat::Contiguous),
                      x.scalar_type());
}

}  // namespace

Body::Body(const ir::Program& region, Kind kind, bool decomposed)
    : types_(parameter_types(region)) {
  ir::Program program = region;
  program.results.clear();
  program.aliases.clear();
  for (size_t k = 0; k < region.results.size(); ++k) {
    const ir::Value v = region.results[k];
    const auto it = kind == Kind::Step
                        ? region.parameters.begin() + std::ptrdiff_t(k)
                        : std::ranges::find(region.parameters, v);
    const bool same = it != region.parameters.end() && *it == v;
    same_.push_back(same ? int32_t(it - region.parameters.begin()) : -1);
    if (!same) {
      program.results.push_back(v);
      program.aliases.push_back(kind == Kind::Step ? int32_t(k) : -1);
    }
  }
  executor_ = from_program(std::move(program), decomposed);
}

bool Body::takes(const Tensors& operands) const {
  return std::ranges::equal(
      operands, types_, [](const at::Tensor& x, const ir::TensorType& type) {
        return x.sizes() == at::IntArrayRef(type.shape);
      });
}

Tensors Body::run(const Tensors& operands) {
  Tensors inputs, results;
  inputs_.clear();
  outputs_.clear();
  for (const at::Tensor& x : operands) {
    inputs.push_back(contiguous(x));
    inputs_.push_back(inputs.back().mutable_data_ptr());
  }
  for (size_t k = 0; k < same_.size(); ++k) {
    if (same_[k] >= 0) {
      results.push_back(operands[same_[k]]);
      continue;
    }
    results.push_back(make_empty(executor_->outputs()[outputs_.size()]));
    outputs_.push_back(results.back().mutable_data_ptr());
  }
  executor_->run(inputs_.data(), outputs_.data());
  return results;
}

Tensors Body::state(const Tensors& operands) const {
  Tensors state;
  for (size_t k = 0; k < operands.size(); ++k)
    state.push_back(same_[k] >= 0 ? contiguous(operands[k])
                                  : copied(operands[k]));
  return state;
}

void Body::advance(Tensors& state) {
  inputs_.clear();
  outputs_.clear();
  for (size_t k = 0; k < state.size(); ++k) {
    inputs_.push_back(state[k].mutable_data_ptr());
    if (same_[k] < 0)
      outputs_.push_back(inputs_.back());
  }
  executor_->run(inputs_.data(), outputs_.data());
}

}  // namespace neuronx::sim
