// SPDX-License-Identifier: Apache-2.0
#include "compiler/executable.h"

#include <fmt/format.h>

namespace neuronx::compiler {
namespace {

uint32_t next_id() {
  static std::atomic<uint32_t> next{0};
  return next.fetch_add(1);
}

std::string describe_operands(const ir::Program& program) {
  std::string text;
  for (ir::Value parameter : program.parameters) {
    text += (text.empty() ? "" : ", ") + ir::to_string(program.type(parameter));
  }
  return text;
}

}  // namespace

Executable::Executable(std::string name,
                       const ir::Program& program,
                       std::string image,
                       int scalar_count)
    : id(next_id()),
      name(std::move(name)),
      operands(describe_operands(program)),
      image_(std::move(image)),
      aliases_(program.aliases),
      scalar_count_(scalar_count) {
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    inputs_.push_back(
        {fmt::format("input{}", i),
         static_cast<size_t>(program.type(program.parameters[i]).bytes())});
  }
  for (size_t i = 0; i < program.results.size(); ++i) {
    outputs_.push_back(
        {fmt::format("output{}", i),
         static_cast<size_t>(program.type(program.results[i]).bytes())});
  }
  aliases_.resize(outputs_.size(), -1);
}

nrt::Model& Executable::model(int device) {
  if (nrt::Model* loaded = models_[device].load(std::memory_order_acquire)) {
    return *loaded;
  }
  auto model = std::make_unique<nrt::Model>(
      nrt::Model::load(image_.data(), image_.size(), device));
  std::lock_guard lock(mutex_);
  if (models_[device].load() == nullptr) {
    models_[device].store(model.get(), std::memory_order_release);
    owned_.push_back(std::move(model));
  }
  return *models_[device].load();
}

}  // namespace neuronx::compiler
