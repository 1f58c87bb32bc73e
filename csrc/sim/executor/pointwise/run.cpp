// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "sim/executor/pointwise/code.h"

namespace neuronx::sim::pointwise {

// One per instruction set that is built: see csrc/CMakeLists.txt.
namespace baseline {
const Kernels& kernels();
}
#if defined(__x86_64__)
namespace avx2 {
const Kernels& kernels();
}
namespace avx512 {
const Kernels& kernels();
}
#endif

namespace {

// Numbers that one thread takes at least: below, waking another costs more.
constexpr int64_t kGrain = 16 * kBlock;
// Numbers of the rows that the stages of a stack pass on to each other: what a
// core's second-level cache holds of a few values.
constexpr int64_t kChunk = 8 * kBlock;

void convert(float* to, const c10::BFloat16* from, int64_t n) {
  kernels().load_bfloat16(to, from, n);
}

void convert(float* to, const c10::Half* from, int64_t n) {
  kernels().load_float16(to, from, n);
}

template <typename T>
void convert(float* to, const T* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    to[i] = static_cast<float>(from[i]);
}

// Elements of a block that one operand has along rows of an inner dimension.
template <typename T>
void load_strided(
    const Load& load, const T* data, int64_t begin, int64_t n, float* to) {
  const int64_t dims = static_cast<int64_t>(load.size.size());
  int64_t index[16];
  int64_t offset = 0, rest = begin;
  for (int64_t d = dims - 1; d >= 0; --d) {
    index[d] = rest % load.size[d];
    rest /= load.size[d];
    offset += index[d] * load.stride[d];
  }
  const int64_t inner = load.size[dims - 1], stride = load.stride[dims - 1];
  while (n > 0) {
    const int64_t run = std::min(n, inner - index[dims - 1]);
    if (stride == 1)
      convert(to, data + offset, run);
    else if (stride == 0)
      std::fill_n(to, run, static_cast<float>(data[offset]));
    else
      for (int64_t i = 0; i < run; ++i)
        to[i] = static_cast<float>(data[offset + i * stride]);
    to += run;
    n -= run;
    index[dims - 1] += run;
    offset += run * stride;
    for (int64_t d = dims - 1; d > 0 && index[d] == load.size[d]; --d) {
      offset -= index[d] * load.stride[d];
      index[d] = 0;
      ++index[d - 1];
      offset += load.stride[d - 1];
    }
  }
}

template <typename T>
void load_block(
    const Load& load, const void* data, int64_t begin, int64_t n, float* to) {
  const T* elements = static_cast<const T*>(data);
  if (load.size.empty())
    convert(to, elements + begin, n);
  else
    load_strided(load, elements, begin, n, to);
}

// A shifted word is below 2^24.
void shift_words(
    const Load& load, const void* data, int64_t begin, int64_t n, float* to) {
  const uint32_t* words = static_cast<const uint32_t*>(data) + begin;
  for (int64_t i = 0; i < n; ++i)
    to[i] = static_cast<float>(static_cast<int32_t>(words[i] >> load.shift));
}

void load_block(
    const Load& load, const void* data, int64_t begin, int64_t n, float* to) {
  switch (load.dtype) {
    case DType::UInt32:
      return shift_words(load, data, begin, n, to);
    case DType::Float32:
      return load_block<float>(load, data, begin, n, to);
    case DType::BFloat16:
      return load_block<c10::BFloat16>(load, data, begin, n, to);
    case DType::Float16:
      return load_block<c10::Half>(load, data, begin, n, to);
    case DType::Bool:
    case DType::UInt8:
      return load_block<uint8_t>(load, data, begin, n, to);
    case DType::Int8:
      return load_block<int8_t>(load, data, begin, n, to);
    case DType::Int16:
      return load_block<int16_t>(load, data, begin, n, to);
    case DType::Int32:
      return load_block<int32_t>(load, data, begin, n, to);
    default:
      return load_block<int64_t>(load, data, begin, n, to);
  }
}

void store_block(const Store& store,
                 void* data,
                 int64_t begin,
                 int64_t n,
                 const float* from) {
  switch (store.dtype) {
    case DType::Float32:
      std::memcpy(static_cast<float*>(data) + begin, from, n * sizeof(float));
      break;
    case DType::BFloat16:
      kernels().store_bfloat16(
          static_cast<c10::BFloat16*>(data) + begin, from, n);
      break;
    case DType::Float16:
      kernels().store_float16(static_cast<c10::Half*>(data) + begin, from, n);
      break;
    default: {
      auto* to = static_cast<uint8_t*>(data) + begin;
      for (int64_t i = 0; i < n; ++i)
        to[i] = from[i] != 0;
    }
  }
}

// The memory of one thread's slots.
float* scratch(int64_t slots) {
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
  thread_local std::unique_ptr<float, Free> memory;
  thread_local int64_t capacity = 0;
  if (slots > capacity) {
    memory.reset(static_cast<float*>(
        std::aligned_alloc(64, slots * kBlock * sizeof(float))));
    if (!memory) {
      capacity = 0;
      throw std::bad_alloc();
    }
    capacity = slots;
  }
  return memory.get();
}

template <typename T>
void store_number(void* data, int64_t i, float value) {
  static_cast<T*>(data)[i] = static_cast<T>(value);
}

void store_number(const Store& store, void* data, int64_t i, float value) {
  switch (store.dtype) {
    case DType::Float32:
      return store_number<float>(data, i, value);
    case DType::BFloat16:
      return store_number<c10::BFloat16>(data, i, value);
    default:
      return store_number<c10::Half>(data, i, value);
  }
}

// What a row has come to, block by block.
struct Accumulator {
  double sum = 0;
  // Of a variance: of so many numbers, the sum of squared differences from it.
  double count = 0, mean = 0, squares = 0;
  float extreme = 0;
  bool started = false;
};

// One code on one thread. Its memory stays for the next.
class Runner {
 public:
  // `columns` is the length of a row, or 0.
  void start(const Code& code,
             int64_t columns,
             const void* const* operands,
             void* const* results,
             float* memory) {
    code_ = &code;
    columns_ = columns;
    operands_ = operands;
    results_ = results;
    memory_ = memory;
    for (const Constant& constant : code.constants)
      std::fill_n(own(constant.slot), kBlock, constant.value);
    contents_.resize(code.slots);
    for (int16_t slot = 0; slot < code.slots; ++slot)
      contents_[slot] = {own(slot)};
    accumulators_.assign(code.stores.size(), {});
    stores_last_ = code.stores.size() == 1 && !code.instructions.empty() &&
                   code.stores[0].reduction == Reduction::None &&
                   code.stores[0].dtype == DType::Float32 &&
                   code.stores[0].slot == code.instructions.back().result;
  }

  // Numbers [begin, end), which are whole rows if there are reductions.
  void run(int64_t begin, int64_t end) {
    while (begin < end) {
      int64_t n = std::min(kBlock, end - begin);
      if (columns_ >= kBlock)
        n = std::min(n, columns_ - begin % columns_);
      else if (columns_ > 0)
        n = std::min(kBlock / columns_ * columns_, end - begin);
      block(begin, n);
      begin += n;
    }
  }

 private:
  // What a slot holds: numbers, or one number over and over (at is null).
  struct Content {
    const float* at = nullptr;
    float number = 0;
  };

  float* own(int16_t slot) const { return memory_ + slot * kBlock; }

  const float* numbers(int16_t slot) {
    Content& content = contents_[slot];
    if (!content.at) {
      std::fill_n(own(slot), kBlock, content.number);
      content.at = own(slot);
    }
    return content.at;
  }

  // float32 operands are read where they lie.
  bool load_in_place(const Load& load, int64_t begin, int64_t n, bool whole) {
    const float* data = static_cast<const float*>(operands_[load.operand]);
    if (load.size.empty()) {
      contents_[load.slot] = {data + begin};
      return begin + (n + kStrip - 1) / kStrip * kStrip <= code_->numel;
    }
    const int64_t inner = load.size.back(), stride = load.stride.back();
    int64_t index = begin % inner;
    if (index + n > inner || !(stride == 0 || (stride == 1 && whole)))
      return false;
    int64_t offset = index * stride;
    index = begin / inner;
    for (size_t d = load.size.size() - 1; d-- > 0;) {
      offset += index % load.size[d] * load.stride[d];
      index /= load.size[d];
    }
    if (stride == 0)
      contents_[load.slot] = {nullptr, data[offset]};
    else
      contents_[load.slot] = {data + offset};
    return true;
  }

  void load(const Load& load, int64_t begin, int64_t n, bool whole) {
    if (load.dtype == DType::Float32 && load_in_place(load, begin, n, whole))
      return;
    load_block(load, operands_[load.operand], begin, n, own(load.slot));
    contents_[load.slot] = {own(load.slot)};
  }

  Step step(const Link& link) {
    Step step{link.opcode, link.number, link.second, nullptr, nullptr, nullptr};
    if (link.keep >= 0) {
      step.keep = own(link.keep);
      contents_[link.keep] = {step.keep};
    }
    const bool pair = is_pair(link.opcode);
    const auto operand = [&](int16_t slot, const float*& at, float& number) {
      if (slot < 0)
        return;
      // Two operands of one step are both numbers of their own.
      if (link.c >= 0 && !pair)
        numbers(slot);
      at = contents_[slot].at;
      if (!at)
        number = contents_[slot].number;
    };
    operand(link.b, step.b, step.number);
    operand(link.c, step.c, step.second);
    return step;
  }

  void block(int64_t begin, int64_t n) {
    const int64_t rounded = (n + kStrip - 1) / kStrip * kStrip;
    auto next = code_->loads.begin();
    auto link = code_->links.begin();
    const size_t count = code_->instructions.size();
    float* last = nullptr;
    if (stores_last_ && n == rounded)
      last = static_cast<float*>(results_[code_->stores[0].result]) + begin;
    for (size_t k = 0; k <= count; ++k) {
      for (; next != code_->loads.end() && next->position == int32_t(k); ++next)
        load(*next, begin, n, n == rounded);
      if (k == count)
        break;
      const Instruction& i = code_->instructions[k];
      float* result = last && k == count - 1 ? last : own(i.result);
      if (i.links == 0) {
        kernels_.functions[size_t(i.opcode)](
            result, numbers(i.a), numbers(i.b), rounded);
      } else {
        steps_.clear();
        for (const auto end = link + i.links; link != end; ++link)
          steps_.push_back(step(*link));
        kernels_.chain(result, numbers(i.a), steps_.data(), i.links, rounded);
      }
      contents_[i.result] = {result};
    }
    if (last)
      return;
    for (size_t k = 0; k < code_->stores.size(); ++k) {
      const Store& store = code_->stores[k];
      if (store.reduction == Reduction::None)
        store_block(
            store, results_[store.result], begin, n, numbers(store.slot));
      else
        reduce(store, accumulators_[k], begin, n);
    }
  }

  void reduce(const Store& store,
              Accumulator& accumulator,
              int64_t begin,
              int64_t n) {
    const float* values = numbers(store.slot);
    const int64_t columns = columns_;
    for (int64_t i = 0; i < n; i += columns) {
      const int64_t count = std::min(columns, n - i);
      add(store.reduction, accumulator, values + i, count);
      const int64_t after = begin + i + count;
      if (after % columns != 0)
        continue;
      store_number(store,
                   results_[store.result],
                   after / columns - 1,
                   total(store.reduction, accumulator));
      accumulator = {};
    }
  }

  void add(Reduction reduction,
           Accumulator& accumulator,
           const float* values,
           int64_t n) const {
    if (reduction == Reduction::Sum || reduction == Reduction::Mean) {
      accumulator.sum += kernels_.sum(values, n);
      return;
    }
    if (reduction == Reduction::Variance) {
      add_moments(accumulator, values, n);
      return;
    }
    const bool max = reduction == Reduction::Max;
    const auto kernel = max ? kernels_.maximum : kernels_.minimum;
    float both[2] = {accumulator.extreme, kernel(values, n)};
    accumulator.extreme = accumulator.started ? kernel(both, 2) : both[1];
    accumulator.started = true;
  }

  // Chan, Golub, LeVeque 1983: moments of the union of two sets.
  void add_moments(Accumulator& accumulator,
                   const float* values,
                   int64_t n) const {
    double mean, squares;
    kernels_.moments(values, n, &mean, &squares);
    const auto more = static_cast<double>(n);
    const double count = accumulator.count + more;
    const double apart = mean - accumulator.mean;
    accumulator.squares +=
        squares + apart * apart * accumulator.count * more / count;
    accumulator.mean += apart * more / count;
    accumulator.count = count;
  }

  float total(Reduction reduction, const Accumulator& accumulator) const {
    const auto n = static_cast<double>(columns_);
    switch (reduction) {
      case Reduction::Sum:
        return static_cast<float>(accumulator.sum);
      case Reduction::Mean:
        return static_cast<float>(accumulator.sum / n);
      case Reduction::Variance:
        return static_cast<float>(accumulator.squares / n);
      default:
        return accumulator.extreme;
    }
  }

  const Code* code_ = nullptr;
  int64_t columns_ = 0;
  // The last instruction writes the result itself.
  bool stores_last_ = false;
  const void* const* operands_ = nullptr;
  void* const* results_ = nullptr;
  float* memory_ = nullptr;
  const Kernels& kernels_ = kernels();
  std::vector<Content> contents_;
  std::vector<Step> steps_;
  std::vector<Accumulator> accumulators_;
};

void run_rows(const Stack& stack,
              const void* const* operands,
              void* const* results,
              int64_t first,
              int64_t last) {
  int64_t slots = 0;
  for (const Code& code : stack.stages)
    slots += code.slots;
  float* memory = scratch(slots);
  thread_local std::vector<Runner> runners;
  const size_t count = stack.stages.size();
  if (runners.size() < count)
    runners.resize(count);
  for (size_t k = 0; k < count; ++k) {
    const Code& code = stack.stages[k];
    const bool wide = stack.columns > 1 && code.numel > stack.rows;
    runners[k].start(code, wide ? stack.columns : 0, operands, results, memory);
    memory += code.slots * kBlock;
  }
  // One code has nothing to pass on.
  const int64_t all = last - first;
  const int64_t step =
      count == 1 ? all : std::max<int64_t>(1, kChunk / stack.columns);
  for (int64_t row = first; row < last; row += step) {
    const int64_t end = std::min(last, row + step);
    for (size_t k = 0; k < count; ++k) {
      const int64_t columns = stack.stages[k].numel / stack.rows;
      runners[k].run(row * columns, end * columns);
    }
  }
}

}  // namespace

const Kernels& kernels() {
#if defined(__x86_64__)
  static const Kernels& chosen =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512vl") &&
              __builtin_cpu_supports("avx512dq")
          ? avx512::kernels()
      : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
              __builtin_cpu_supports("f16c")
          ? avx2::kernels()
          : baseline::kernels();
  return chosen;
#else
  return baseline::kernels();
#endif
}

void run(const Stack& stack,
         const void* const* operands,
         void* const* results) {
  const int64_t grain = std::max<int64_t>(1, kGrain / stack.columns);
  if (stack.rows <= grain) {
    run_rows(stack, operands, results, 0, stack.rows);
    return;
  }
  at::parallel_for(0, stack.rows, grain, [&](int64_t first, int64_t last) {
    run_rows(stack, operands, results, first, last);
  });
}

}  // namespace neuronx::sim::pointwise
