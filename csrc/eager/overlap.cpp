// SPDX-License-Identifier: Apache-2.0
#include "eager/overlap.h"

#include <ATen/MemoryOverlap.h>

#include <algorithm>

#include "common/strides.h"

namespace neuronx::eager {
namespace {

// Every element between the first and the last location belongs to the view.
bool without_gaps(DimsRef size, DimsRef stride) {
  std::vector<bool> found(static_cast<size_t>(extent(size, stride)));
  Dims index(size.size(), 0);
  int64_t position = 0;
  for (int64_t n = numel(size); n > 0; --n) {
    found[static_cast<size_t>(position)] = true;
    for (size_t d = size.size(); d-- > 0;) {
      position += stride[d];
      if (++index[d] < size[d]) {
        break;
      }
      position -= stride[d] * size[d];
      index[d] = 0;
    }
  }
  return std::ranges::all_of(found, [](bool x) { return x; });
}

}  // namespace

bool fills_shared_memory(const OpInfo& info, const Call& call) {
  if (info.name != "aten::fill_.Scalar" && info.name != "aten::zero_") {
    return false;
  }
  const c10::TensorImpl* self = call.tensors.at(call.written.at(0));
  return has_internal_overlap(self->sizes(), self->strides());
}

at::Tensor each_location(const at::Tensor& self) {
  at::Tensor view = self;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (self.stride(d) == 0) {
      view = view.narrow(d, 0, 1);
    }
  }
  if (!has_internal_overlap(view.sizes(), view.strides())) {
    return view;
  }
  TORCH_CHECK(without_gaps(view.sizes(), view.strides()),
              "unsupported operation: elements of the written-to tensor share "
              "memory, with gaps between them. Please clone() the tensor "
              "before performing the operation.");
  return view.as_strided({extent(view.sizes(), view.strides())}, {1});
}

}  // namespace neuronx::eager
