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
      bytes_ += executable->image_bytes_;
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
      bytes_ -= executable->image_bytes_;
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
                       Image image,
                       int scalar_count)
    : id(next_id()),
      name(std::move(name)),
      operands(describe_operands(program)),
      serialized(std::move(serialized)),
      image_bytes_(image.neff.empty() ? this->serialized.size()
                                      : image.neff.size()),
      aliases_(program.aliases),
      scalar_count_(scalar_count),
      image_(std::move(image)) {
  for (ir::Value v : program.parameters) {
    input_bytes_.push_back(static_cast<size_t>(program.type(v).bytes()));
  }
  for (ir::Value v : program.results) {
    output_bytes_.push_back(static_cast<size_t>(program.type(v).bytes()));
  }
  aliases_.resize(output_bytes_.size(), -1);
}

Executable::~Executable() {
  loaded().remove(this);
  for (auto& model : models_) {
    delete model.load();
  }
  delete ports_.load();
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
  bool freed = false;
  {
    std::lock_guard lock(mutex_);
    if (nrt::Model* model = models_[device].load()) {
      return *model;
    }
    freed = image_.again != nullptr && image_.neff.empty();
  }
  // With no lock: this may compile.
  const std::string again = freed ? image_.again(*this) : std::string();
  std::lock_guard lock(mutex_);
  if (models_[device].load() == nullptr) {
    const std::string& image = !again.empty()         ? again
                               : !image_.neff.empty() ? image_.neff
                                                      : serialized;
    auto model = std::make_unique<nrt::Model>(
        nrt::Model::load(image.data(), image.size(), device));
    if (ports_.load() == nullptr) {
      ports_.store(new Ports(read_ports(*model)));
    }
    models_[device].store(model.release());
    if (image_.again != nullptr) {
      image_.neff = std::string();
    }
  }
  return *models_[device].load();
}

const Executable::Ports& Executable::ports(int device) {
  if (ports_.load() == nullptr) {
    load(device);
  }
  return *ports_.load();
}

// The compiler renames an input that it was told to overwrite. One that keeps
// its name is read only, whatever it was told.
Executable::Ports Executable::read_ports(const nrt::Model& model) const {
  const auto tensors = model.tensors();
  const auto find = [&](bool output, const std::string& name) {
    const auto it = std::ranges::find_if(tensors, [&](const auto& tensor) {
      return tensor.output == output && tensor.name == name;
    });
    return it == tensors.end() ? nullptr : &*it;
  };
  const auto check = [&](const nrt::TensorInfo* tensor, const Port& port) {
    if (tensor != nullptr && tensor->bytes != port.bytes) {
      throw nrt::LoadError(
          NRT_INVALID,
          fmt::format("[{}] on ({}): the compiled program's \"{}\" has {} "
                      "bytes, the program's {}",
                      name,
                      operands,
                      port.name,
                      tensor->bytes,
                      port.bytes));
    }
  };
  Ports ports;
  for (size_t i = 0; i < input_bytes_.size(); ++i) {
    const std::string plain = fmt::format("input{}", i);
    Port port{plain + ".must_alias_input", input_bytes_[i]};
    const bool overwritten =
        std::ranges::find(aliases_, static_cast<int32_t>(i)) != aliases_.end();
    const auto* tensor = find(false, port.name);
    // Without information, as it is documented.
    port.in_place = tensor != nullptr || (tensors.empty() && overwritten);
    if (!port.in_place) {
      port.name = plain;
      tensor = find(false, plain);
    }
    check(tensor, port);
    ports.inputs.push_back(std::move(port));
  }
  for (size_t k = 0; k < output_bytes_.size(); ++k) {
    Port port{fmt::format("output{}", k), output_bytes_[k]};
    port.in_place = aliases_[k] >= 0 && ports.inputs[aliases_[k]].in_place;
    check(find(true, port.name), port);
    ports.outputs.push_back(std::move(port));
  }
  return ports;
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
