// SPDX-License-Identifier: Apache-2.0
// Mirror: the same pages mapped twice, for strict mode. Host code that
// dereferences a device address faults, as on hardware.
#pragma once

#include <cstddef>
#include <memory>

namespace neuronx::sim {

struct Mirror {
  std::byte* data = nullptr;     // readable and writable
  std::byte* address = nullptr;  // inaccessible
  size_t size = 0;
  ~Mirror();
};

// A part of a mirror, filled with poison unless it is huge.
struct MirrorPart {
  std::shared_ptr<Mirror> mirror;  // null when the host cannot map it
  size_t offset = 0;
};
MirrorPart map_mirrored(size_t size);

// Poisons the part and keeps its mapping for a while, so that a stale pointer
// reads NaN instead of another tensor's values.
void bury(std::shared_ptr<Mirror> mirror, std::byte* data, size_t size);

}  // namespace neuronx::sim
