// SPDX-License-Identifier: Apache-2.0
#include "sim/mirror.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <mutex>

namespace neuronx::sim {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kAlignment = 64;

// As a float NaN, as an integer -1.
constexpr int kPoison = 0xFF;
// Larger storages are not filled: a huge allocation stays free of charge.
constexpr size_t kPoisonLimit = size_t{64} << 20;

// Small storages share a mirror: a process may have only some 65,000 mappings.
constexpr size_t kSmall = size_t{64} << 10;
constexpr size_t kSharedSize = size_t{4} << 20;

constexpr size_t kBuriedBytes = size_t{256} << 20;
constexpr size_t kBuriedCount = 512;

size_t round_up(size_t size, size_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

std::shared_ptr<Mirror> map(size_t size) {
  const int fd = memfd_create("libnrt_sim", MFD_CLOEXEC);
  if (fd < 0) {
    return nullptr;
  }
  void* address = MAP_FAILED;
  void* data = MAP_FAILED;
  if (ftruncate(fd, static_cast<off_t>(size)) == 0) {
    address = mmap(nullptr, size, PROT_NONE, MAP_SHARED, fd, 0);
    data = mmap(nullptr,
                size,
                PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_NORESERVE,
                fd,
                0);
  }
  close(fd);
  auto mirror = std::make_shared<Mirror>();
  mirror->size = size;
  if (address != MAP_FAILED) {
    mirror->address = static_cast<std::byte*>(address);
  }
  if (data != MAP_FAILED) {
    mirror->data = static_cast<std::byte*>(data);
  }
  return mirror->address && mirror->data ? mirror : nullptr;
}

// The mirror that small storages are cut from, never twice from one place.
struct Shared {
  std::mutex mutex;
  std::shared_ptr<Mirror> mirror;
  size_t used = 0;
};

struct Grave {
  std::mutex mutex;
  std::deque<std::shared_ptr<Mirror>> mirrors;
  size_t bytes = 0;
};

Shared& shared() {
  static auto* instance = new Shared;
  return *instance;
}

Grave& grave() {
  static auto* instance = new Grave;
  return *instance;
}

MirrorPart cut_small(size_t size) {
  Shared& pool = shared();
  std::lock_guard lock(pool.mutex);
  if (!pool.mirror || pool.used + size > kSharedSize) {
    pool.mirror = map(kSharedSize);
    pool.used = 0;
  }
  const size_t offset = pool.used;
  pool.used += size;
  return {pool.mirror, offset};
}

}  // namespace

Mirror::~Mirror() {
  if (data != nullptr) {
    munmap(data, size);
  }
  if (address != nullptr) {
    munmap(address, size);
  }
}

MirrorPart map_mirrored(size_t size) {
  MirrorPart part = size < kSmall ? cut_small(round_up(size, kAlignment))
                                  : MirrorPart{map(round_up(size, kPage)), 0};
  if (part.mirror && size <= kPoisonLimit) {
    std::memset(part.mirror->data + part.offset, kPoison, size);
  }
  return part;
}

void bury(std::shared_ptr<Mirror> mirror, std::byte* data, size_t size) {
  if (size > kPoisonLimit) {
    return;
  }
  std::memset(data, kPoison, size);
  if (size < kSmall) {
    return;  // the shared mirror lives on
  }
  Grave& buried = grave();
  std::lock_guard lock(buried.mutex);
  buried.bytes += mirror->size;
  buried.mirrors.push_back(std::move(mirror));
  while (buried.bytes > kBuriedBytes || buried.mirrors.size() > kBuriedCount) {
    buried.bytes -= buried.mirrors.front()->size;
    buried.mirrors.pop_front();
  }
}

}  // namespace neuronx::sim
