// SPDX-License-Identifier: Apache-2.0
#include "compiler/executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/env.h"
#include "common/metrics.h"
#include "compiler/neff.h"
#include "nrt/status.h"

namespace neuronx::compiler {
namespace {

std::atomic<uint64_t> epoch{1};

uint32_t next_id() {
  static std::atomic<uint32_t> next{0};
  return next.fetch_add(1);
}

size_t limit(const char* name, size_t unit) {
  static constexpr int64_t kNone = int64_t{1} << 40;
  return static_cast<size_t>(env::integer(name, kNone, 1, kNone)) * unit;
}

}  // namespace

// The executables that are loaded on some core.
class Loaded {
 public:
  void add(Executable* executable) {
    std::lock_guard lock(mutex_);
    if (!std::exchange(executable->listed_, true)) {
      executables_.push_back(executable);
      bytes_ += executable->image().size();
    }
    while (executables_.size() > most_ || bytes_ > most_bytes_) {
      if (!unload_one(executable)) {
        return;  // all others run
      }
    }
  }

  // Makes room on the device for `executable`.
  bool unload_others(const Executable* executable) {
    std::lock_guard lock(mutex_);
    bool any = false;
    while (unload_one(executable)) {
      any = true;
    }
    return any;
  }

  void remove(Executable* executable) {
    std::lock_guard lock(mutex_);
    erase(executable);
  }

 private:
  void erase(Executable* executable) {
    if (std::exchange(executable->listed_, false)) {
      std::erase(executables_, executable);
      bytes_ -= executable->image().size();
    }
  }

  bool unload_one(const Executable* kept) {
    // Launches go on meanwhile: times of use are read once.
    std::vector<std::pair<uint64_t, Executable*>> candidates;
    for (Executable* executable : executables_) {
      if (executable != kept) {
        candidates.emplace_back(executable->used(), executable);
      }
    }
    std::ranges::sort(candidates);
    for (const auto& [used, candidate] : candidates) {
      if (candidate->unload()) {
        metrics::count(metrics::Metric::ProgramUnloads);
        erase(candidate);
        return true;
      }
    }
    return false;
  }

  std::mutex mutex_;
  std::vector<Executable*> executables_;
  size_t bytes_ = 0;
  const size_t most_ = limit("NEURON_COMPILATION_CACHE_MAX_ENTRIES", 1);
  const size_t most_bytes_ =
      limit("NEURON_COMPILATION_CACHE_MAX_SIZE_MB", size_t{1} << 20);
};

namespace {

Loaded& loaded() {
  static auto* instance = new Loaded;
  return *instance;
}

// A launch under way.
struct Running {
  std::atomic<int>& count;
  explicit Running(std::atomic<int>& running) : count(running) {
    count.fetch_add(1);
  }
  ~Running() { count.fetch_sub(1, std::memory_order_release); }
};

}  // namespace

Executable::Executable(std::string name,
                       const ir::Program& program,
                       std::string serialized,
                       std::string neff,
                       int scalar_count)
    : id(next_id()),
      name(std::move(name)),
      operands(describe_operands(program)),
      serialized(std::move(serialized)),
      neff_(std::move(neff)),
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

Executable::~Executable() {
  loaded().remove(this);
  for (auto& model : models_) {
    delete model.load();
  }
}

uint64_t Executable::next_epoch() {
  return epoch.fetch_add(1) + 1;
}

void Executable::execute(int device,
                         nrt::TensorSet& inputs,
                         nrt::TensorSet& outputs) {
  used_.store(epoch.load(std::memory_order_relaxed), std::memory_order_relaxed);
  // Counted before the pointer is read, as unload() takes the pointer before
  // it reads the count: one of the two sees the other.
  const Running running(running_);
  nrt::Model* model = models_[device].load();
  (model != nullptr ? *model : load(device)).execute(inputs, outputs);
}

nrt::Model& Executable::load(int device) {
  nrt::Model* model = nullptr;
  try {
    model = &load_once(device);
  } catch (const nrt::OutOfMemory&) {
    if (!loaded().unload_others(this)) {
      throw;
    }
    model = &load_once(device);
  }
  next_epoch();
  loaded().add(this);
  return *model;
}

nrt::Model& Executable::load_once(int device) {
  std::lock_guard lock(mutex_);
  if (models_[device].load() == nullptr) {
    models_[device].store(new nrt::Model(
        nrt::Model::load(image().data(), image().size(), device)));
  }
  return *models_[device].load();
}

bool Executable::unload() {
  std::lock_guard lock(mutex_);
  std::vector<std::pair<size_t, nrt::Model*>> taken;
  for (size_t device = 0; device < models_.size(); ++device) {
    if (nrt::Model* model = models_[device].exchange(nullptr)) {
      taken.emplace_back(device, model);
    }
  }
  const bool idle = running_.load() == 0;
  for (const auto& [device, model] : taken) {
    if (idle) {
      delete model;
    } else {
      models_[device].store(model);
    }
  }
  return idle;
}

}  // namespace neuronx::compiler
