// SPDX-License-Identifier: Apache-2.0
#include "sim/executor/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

namespace neuronx::sim {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kHugePage = int64_t{2} << 20;

int64_t round_up(int64_t bytes, int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

struct Free {
  void operator()(char* memory) const { std::free(memory); }
};

struct Memory {
  std::unique_ptr<char, Free> memory;
  int64_t bytes = 0;
};

}  // namespace

int64_t layout_arena(std::deque<Buffer>& buffers) {
  std::vector<Buffer*> waiting, placed;
  for (Buffer& b : buffers)
    if (b.kind == Buffer::Kind::Arena && b.first >= 0)
      waiting.push_back(&b);
  std::sort(waiting.begin(), waiting.end(), [](Buffer* a, Buffer* b) {
    return a->first < b->first;
  });
  int64_t total = 0;
  for (Buffer* b : waiting) {
    std::erase_if(placed, [&](Buffer* p) { return p->last < b->first; });
    const int64_t bytes = round_up(b->bytes, kAlignment);
    // The smallest gap that fits; `placed` is in order of offset.
    int64_t end = 0, best = -1, best_gap = 0;
    for (Buffer* p : placed) {
      const int64_t gap = p->offset - end;
      if (gap >= bytes && (best < 0 || gap < best_gap)) {
        best = end;
        best_gap = gap;
      }
      end = std::max(end, p->offset + round_up(p->bytes, kAlignment));
    }
    b->offset = best < 0 ? end : best;
    total = std::max(total, b->offset + bytes);
    placed.insert(std::lower_bound(placed.begin(),
                                   placed.end(),
                                   b,
                                   [](Buffer* a, Buffer* c) {
                                     return a->offset < c->offset;
                                   }),
                  b);
  }
  return total;
}

namespace {

// By depth; references stay valid while deeper runs add more.
thread_local std::deque<Memory> memories;
thread_local size_t depth = 0;

char* grown(Memory& arena, int64_t bytes) {
  if (bytes <= arena.bytes)
    return arena.memory.get();
  arena.memory.reset();
  arena.bytes = 0;
  const bool huge = bytes >= kHugePage;
  bytes = round_up(bytes, huge ? kHugePage : 4096);
  void* memory = std::aligned_alloc(huge ? kHugePage : kAlignment, bytes);
  if (!memory)
    throw std::bad_alloc();
  if (huge)
    madvise(memory, bytes, MADV_HUGEPAGE);
  arena.memory.reset(static_cast<char*>(memory));
  arena.bytes = bytes;
  return arena.memory.get();
}

}  // namespace

Arena::Arena(int64_t bytes) {
  if (memories.size() <= depth)
    memories.emplace_back();
  memory_ = bytes > 0 ? grown(memories[depth], bytes) : nullptr;
  ++depth;
}

Arena::~Arena() {
  --depth;
}

}  // namespace neuronx::sim
