// SPDX-License-Identifier: Apache-2.0
// Graph: a compiled function of tensors, one executable for each combination
// of argument shapes that it has been called with.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <variant>
#include <vector>

#include "compiler/executable.h"

namespace neuronx::graph {

// monostate is None or what no program reads.
using Argument =
    std::variant<std::monostate, at::Tensor, int64_t, double, at::Generator>;
using Arguments = std::vector<Argument>;

// What an argument must be for a variant to serve the call.
struct Input {
  enum class Kind : uint8_t { Tensor, Number, Integer, Ignored } kind;
  // Tensor: on the device. Number: a float, an integer that changes, or a
  // 0-dim tensor on the CPU.
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  c10::SmallVector<int64_t, 5> sizes = {}, strides = {};
  bool contiguous = true;
  int64_t value = 0;  // Integer
};

struct Output {
  enum class Kind : uint8_t {
    New,
    View,
    Argument,
    ArgumentView,
    Integer,
    None,
  } kind;
  // View: the output whose memory it shows. Of arguments: the position. Views
  // of arguments count their offset from the argument's first element.
  int32_t index = -1;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  // Empty strides: row-major.
  c10::SmallVector<int64_t, 5> sizes = {}, strides = {};
  int64_t offset = 0;
  size_t bytes = 0;
  int64_t value = 0;  // Integer
  int32_t stage = 0;  // that writes it
};

// One of the programs that a call runs, in order; see ir/stages.h.
struct Stage {
  std::shared_ptr<compiler::Executable> executable;
  struct Address {
    enum class Kind : uint8_t { Argument, Output, Handed } kind;
    int32_t index;
    bool operator==(const Address&) const = default;
  };
  // Operands and then results that overwrite no operand.
  std::vector<Address> addresses;
  std::vector<int32_t> scalars;  // of the variant's
  // Bytes of the values that it hands on, in the order of their numbers.
  std::vector<size_t> handed;
  // What no later stage reads, but for the last stage: arguments and handed
  // values.
  std::vector<int32_t> last_arguments, last_handed;
};

// What a call takes from one generator: an argument, or -1 for the device's
// own.
struct Draws {
  int32_t generator;
  uint64_t blocks;  // of Philox numbers
  // Scalars that say how many more blocks: those of padded tensors.
  std::vector<int32_t> numbers;
};

struct Variant {
  std::vector<Input> inputs;
  // Arguments that are the program's scalars.
  std::vector<int32_t> numbers;
  // Arguments that are its tensors; they name the device.
  std::vector<int32_t> tensors;
  std::vector<Output> outputs;
  // None if there is nothing to compute.
  std::vector<Stage> stages;
  // Their seeds and offsets are the last scalars.
  std::vector<Draws> draws;
  c10::DeviceIndex device = 0;  // of graphs without a tensor argument
};

class Graph {
 public:
  // nullptr: no variant fits these arguments.
  const Variant* find(const Arguments& arguments) const;
  void add(std::unique_ptr<Variant> variant);
  size_t size() const;

 private:
  // The one that fit last is tried first.
  mutable std::atomic<const Variant*> last_{nullptr};
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<const Variant>> variants_;
};

// Queues the call on the current stream and returns its outputs in order;
// Argument and Integer outputs are there too. Lets go of arguments as soon as
// no stage reads them.
Arguments launch(const Variant& variant, Arguments arguments);

}  // namespace neuronx::graph
