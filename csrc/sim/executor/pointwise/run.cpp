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

// Blocks that one thread takes at least: below, waking another costs more.
constexpr int64_t kGrain = 16;

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

void load_block(
    const Load& load, const void* data, int64_t begin, int64_t n, float* to) {
  switch (load.dtype) {
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
    case DType::BFloat16: {
      auto* to = static_cast<uint16_t*>(data) + begin;
      // The value is rounded already.
      for (int64_t i = 0; i < n; ++i)
        to[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(from[i]) >> 16);
      break;
    }
    case DType::Float16: {
      auto* to = static_cast<c10::Half*>(data) + begin;
      for (int64_t i = 0; i < n; ++i)
        to[i] = from[i];
      break;
    }
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

void run_blocks(const Code& code,
                const void* const* operands,
                void* const* results,
                int64_t first,
                int64_t last) {
  const Kernels& kernel = kernels();
  float* memory = scratch(code.slots);
  const auto own = [&](int16_t slot) { return memory + slot * kBlock; };
  for (const Constant& constant : code.constants)
    std::fill_n(own(constant.slot), kBlock, constant.value);
  // Where the content of each slot is: dense float32 operands are read where
  // they lie.
  thread_local std::vector<const float*> at;
  thread_local std::vector<Step> steps;
  at.resize(code.slots);
  for (int16_t slot = 0; slot < code.slots; ++slot)
    at[slot] = own(slot);
  for (int64_t block = first; block < last; ++block) {
    const int64_t begin = block * kBlock;
    const int64_t n = std::min(kBlock, code.numel - begin);
    auto next = code.loads.begin();
    auto link = code.links.begin();
    for (size_t k = 0; k <= code.instructions.size(); ++k) {
      for (; next != code.loads.end() && next->position == int32_t(k); ++next) {
        const void* data = operands[next->operand];
        if (next->dtype == DType::Float32 && next->size.empty() &&
            n == kBlock) {
          at[next->slot] = static_cast<const float*>(data) + begin;
          continue;
        }
        load_block(*next, data, begin, n, own(next->slot));
        at[next->slot] = own(next->slot);
      }
      if (k == code.instructions.size())
        break;
      const Instruction& i = code.instructions[k];
      if (i.links == 0) {
        kernel.functions[size_t(i.opcode)](own(i.result), at[i.a], at[i.b]);
      } else {
        steps.clear();
        for (const auto end = link + i.links; link != end; ++link) {
          if (link->keep >= 0)
            at[link->keep] = own(link->keep);
          steps.push_back({link->opcode,
                           link->number,
                           link->b < 0 ? nullptr : at[link->b],
                           link->c < 0 ? nullptr : at[link->c],
                           link->keep < 0 ? nullptr : own(link->keep)});
        }
        kernel.chain(own(i.result), at[i.a], steps.data(), i.links);
      }
      at[i.result] = own(i.result);
    }
    for (const Store& store : code.stores)
      store_block(store, results[store.result], begin, n, at[store.slot]);
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

void run(const Code& code, const void* const* operands, void* const* results) {
  const int64_t blocks = (code.numel + kBlock - 1) / kBlock;
  if (blocks <= kGrain) {
    run_blocks(code, operands, results, 0, blocks);
    return;
  }
  at::parallel_for(0, blocks, kGrain, [&](int64_t first, int64_t last) {
    run_blocks(code, operands, results, first, last);
  });
}

}  // namespace neuronx::sim::pointwise
