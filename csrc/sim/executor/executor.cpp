// SPDX-License-Identifier: Apache-2.0
#include "sim/executor/executor.h"

#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "common/env.h"
#include "ir/serialize.h"
#include "sim/executor/arena.h"
#include "sim/executor/flatten.h"
#include "sim/executor/fusion.h"
#include "sim/executor/plan.h"
#include "sim/executor/widen.h"

namespace neuronx::sim {
namespace {

// Above this, comparing every input with every output costs too much.
constexpr size_t kManyPairs = 128;

bool decomposed() {
  return env::choice<bool>("TORCH_NEURONX_SIM_NUMERICS",
                           false,
                           {{"fast", false}, {"decomposed", true}});
}

// ATen reports some indices out of range as plain errors.
[[noreturn]] void rethrow(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  if (dynamic_cast<const c10::IndexError*>(&error) ||
      text.find("out of range") != std::string::npos ||
      text.find("out of DATA bounds") != std::string::npos ||
      text.find("out of bounds") != std::string::npos)
    throw std::out_of_range(text);
  throw std::runtime_error(text);
}

class PlannedExecutor final : public Executor {
 public:
  PlannedExecutor(ir::Program program, bool decomposed)
      : program_(std::move(program)), interpreter_(decomposed) {
    for (ir::Value v : program_.parameters)
      inputs_.push_back(program_.type(v));
    for (ir::Value v : program_.results)
      outputs_.push_back(program_.type(v));
    c10::InferenceMode guard;
    try {
      flat_ = flatten(program_, interpreter_);
      if (!interpreter_.decomposed()) {
        widen(flat_);
        fuse(flat_);
      }
      make_plan(plan_, flat_, interpreter_);
    } catch (const c10::Error& error) {
      throw std::runtime_error(error.what_without_backtrace());
    }
    for (Buffer& b : plan_.buffers) {
      if (b.kind == Buffer::Kind::Input)
        bindings_.push_back({b.storage.get(), b.number, true});
      else if (b.kind == Buffer::Kind::Output)
        bindings_.push_back({b.storage.get(), b.number, false});
    }
  }

  const std::vector<ir::TensorType>& inputs() const override { return inputs_; }
  const std::vector<ir::TensorType>& outputs() const override {
    return outputs_;
  }

  void run(void* const* inputs, void* const* outputs) override {
    c10::InferenceMode guard;
    if (overlap(inputs, outputs))
      run_apart(inputs, outputs);
    else
      run_steps(inputs, outputs);
  }

 private:
  struct Binding {
    c10::StorageImpl* storage;
    int32_t number;
    bool input;
  };

  void run_steps(void* const* inputs, void* const* outputs) {
    for (const Binding& b : bindings_)
      point(*b.storage, (b.input ? inputs : outputs)[b.number]);
    const Arena arena(plan_.arena_bytes);
    bind(arena.memory());
    try {
      for (const auto& step : plan_.steps)
        step();
    } catch (const c10::Error& error) {
      release();
      rethrow(error);
    } catch (...) {
      release();
      throw;
    }
  }

  void bind(char* arena) {
    if (arena == arena_)
      return;
    for (Buffer& b : plan_.buffers)
      if (b.kind == Buffer::Kind::Arena)
        point(*b.storage, arena + b.offset);
    arena_ = arena;
  }

  void release() {
    for (Buffer& b : plan_.buffers)
      if (b.kind == Buffer::Kind::Dynamic)
        b.held.reset();
  }

  // An output lies over an input that it is not declared to alias.
  bool overlap(void* const* inputs, void* const* outputs) const {
    if (inputs_.size() * outputs_.size() > kManyPairs)
      return overlap_sorted(inputs, outputs);
    for (size_t k = 0; k < outputs_.size(); ++k)
      for (size_t i = 0; i < inputs_.size(); ++i)
        if (overlap(inputs, outputs, i, k))
          return true;
    return false;
  }

  // Outputs are disjoint, so only the last that begins before an input ends
  // can reach into it.
  bool overlap_sorted(void* const* inputs, void* const* outputs) const {
    std::vector<std::pair<void*, size_t>> sorted;
    for (size_t k = 0; k < outputs_.size(); ++k)
      sorted.emplace_back(outputs[k], k);
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i < inputs_.size(); ++i) {
      void* end = static_cast<char*>(inputs[i]) + inputs_[i].bytes();
      const auto after = std::lower_bound(
          sorted.begin(), sorted.end(), std::pair(end, size_t{0}));
      if (after != sorted.begin() &&
          overlap(inputs, outputs, i, std::prev(after)->second))
        return true;
    }
    return false;
  }

  bool overlap(void* const* inputs,
               void* const* outputs,
               size_t i,
               size_t k) const {
    if (flat_.aliases[k] == int32_t(i))
      return false;
    const char* input = static_cast<const char*>(inputs[i]);
    const char* output = static_cast<const char*>(outputs[k]);
    if (input == output && plan_.pointwise &&
        inputs_[i].shape == outputs_[k].shape &&
        itemsize(inputs_[i].dtype) == itemsize(outputs_[k].dtype))
      return false;
    return input < output + outputs_[k].bytes() &&
           output < input + inputs_[i].bytes();
  }

  // Runs on copies of the inputs that outputs lie over.
  void run_apart(void* const* inputs, void* const* outputs) {
    std::vector<void*> apart(inputs, inputs + inputs_.size());
    Tensors copies;
    for (size_t i = 0; i < inputs_.size(); ++i)
      for (size_t k = 0; k < outputs_.size(); ++k)
        if (overlap(inputs, outputs, i, k)) {
          copies.push_back(make_empty(inputs_[i]));
          std::memcpy(
              copies.back().mutable_data_ptr(), inputs[i], inputs_[i].bytes());
          apart[i] = copies.back().mutable_data_ptr();
          break;
        }
    run_steps(apart.data(), outputs);
  }

  ir::Program program_;
  Interpreter interpreter_;
  std::vector<ir::TensorType> inputs_, outputs_;
  Flat flat_;
  Plan plan_;
  std::vector<Binding> bindings_;
  char* arena_ = nullptr;
};

}  // namespace

std::unique_ptr<Executor> from_program(ir::Program program, bool decomposed) {
  return std::make_unique<PlannedExecutor>(std::move(program), decomposed);
}

std::unique_ptr<Executor> Executor::load(const void* bytes, size_t size) {
  return from_program(ir::deserialize(bytes, size), decomposed());
}

}  // namespace neuronx::sim
