// SPDX-License-Identifier: Apache-2.0
// Reasoning about strided views. Sizes and strides count elements; strides
// are not negative, as in PyTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace neuronx {

using Dims = std::vector<int64_t>;
using DimsRef = std::span<const int64_t>;

int64_t numel(DimsRef size);

// Row-major strides.
Dims contiguous_strides(DimsRef size);

// Elements from the first to the last of the view, both included; 0 for an
// empty view.
int64_t extent(DimsRef size, DimsRef stride);

// Row-major without gaps; strides of dimensions of size 1 do not matter.
bool is_contiguous(DimsRef size, DimsRef stride);

// The view's dimensions from outermost to innermost in memory, if the view is
// a permutation of a dense layout. Dimensions of size 1 may be anywhere; an
// empty view is the identity.
std::optional<Dims> dense_permutation(DimsRef size, DimsRef stride);

// As Tensor::is_non_overlapping_and_dense.
bool is_non_overlapping_and_dense(DimsRef size, DimsRef stride);

// Two indices of the view share an element. Exact; enumerates the view only
// if no cheaper argument decides.
bool has_internal_overlap(DimsRef size, DimsRef stride);

struct Layout {
  Dims size, stride;
  bool operator==(const Layout&) const = default;
};

// The same elements in the same order with adjacent dimensions merged and
// dimensions of size 1 dropped.
Layout collapse(DimsRef size, DimsRef stride);

// How to cut a view out of a 1-D extent without an index table. Level by
// level, the trailing dimension (first the whole extent) is padded by `pad`
// at its end, sliced to [start, start + count * stride) and split into
// [count, stride]; at the end, element `rest` of the trailing dimension is
// taken. The result has the sizes of the view's `order` dimensions, where
// adjacent ones are merged; all other dimensions are of size 1 or broadcast.
struct Level {
  int64_t pad, start, count, stride;
  bool operator==(const Level&) const = default;
};
struct NestedView {
  Dims order;
  std::vector<Level> levels;
  int64_t rest = 0;
};

// nullopt if the dimensions interleave (as in unfold with overlap), so that
// only a gather can read the view. The view must not be empty and must lie
// in [0, length).
std::optional<NestedView> nested_view(DimsRef size,
                                      DimsRef stride,
                                      int64_t offset,
                                      int64_t length);

}  // namespace neuronx
