// SPDX-License-Identifier: Apache-2.0
#include "common/strides.h"

#include <algorithm>
#include <cstddef>

namespace neuronx {
namespace {

// Dimensions with more than one element, by decreasing stride.
Dims by_decreasing_stride(DimsRef size, DimsRef stride) {
  Dims order;
  for (size_t d = 0; d < size.size(); ++d)
    if (size[d] != 1)
      order.push_back(int64_t(d));
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return stride[a] > stride[b];
  });
  return order;
}

Layout select(DimsRef size, DimsRef stride, DimsRef order) {
  Layout layout;
  for (int64_t d : order) {
    layout.size.push_back(size[d]);
    layout.stride.push_back(stride[d]);
  }
  return layout;
}

// Every dimension steps over all of the next: no two indices collide.
bool is_nested(const Layout& layout) {
  int64_t inner = 1;
  for (size_t d = layout.size.size(); d-- > 0;) {
    if (layout.stride[d] < inner)
      return false;
    inner += (layout.size[d] - 1) * layout.stride[d];
  }
  return true;
}

}  // namespace

int64_t numel(DimsRef size) {
  int64_t n = 1;
  for (int64_t s : size)
    n *= s;
  return n;
}

Dims contiguous_strides(DimsRef size) {
  Dims stride(size.size());
  int64_t step = 1;
  for (size_t d = size.size(); d-- > 0;) {
    stride[d] = step;
    step *= std::max<int64_t>(size[d], 1);
  }
  return stride;
}

int64_t extent(DimsRef size, DimsRef stride) {
  int64_t n = 1;
  for (size_t d = 0; d < size.size(); ++d) {
    if (size[d] == 0)
      return 0;
    n += (size[d] - 1) * stride[d];
  }
  return n;
}

bool is_contiguous(DimsRef size, DimsRef stride) {
  if (numel(size) == 0)
    return true;
  int64_t expected = 1;
  for (size_t d = size.size(); d-- > 0;) {
    if (size[d] == 1)
      continue;
    if (stride[d] != expected)
      return false;
    expected *= size[d];
  }
  return true;
}

std::optional<Dims> dense_permutation(DimsRef size, DimsRef stride) {
  Dims order;
  for (size_t d = 0; d < size.size(); ++d)
    order.push_back(int64_t(d));
  if (is_contiguous(size, stride))
    return order;
  // Dimensions of size 1 go outermost, where their strides do not matter.
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    if (size[a] == 1 || size[b] == 1)
      return size[a] == 1 && size[b] != 1;
    return stride[a] > stride[b];
  });
  const Layout layout = select(size, stride, order);
  if (!is_contiguous(layout.size, layout.stride))
    return std::nullopt;
  return order;
}

bool is_non_overlapping_and_dense(DimsRef size, DimsRef stride) {
  return dense_permutation(size, stride).has_value();
}

bool has_internal_overlap(DimsRef size, DimsRef stride) {
  const int64_t count = numel(size);
  if (count <= 1)
    return false;
  const Layout layout =
      select(size, stride, by_decreasing_stride(size, stride));
  if (layout.stride.back() == 0)
    return true;
  if (is_nested(layout))
    return false;
  const int64_t length = extent(size, stride);
  if (count > length)
    return true;
  std::vector<bool> seen(length);
  Dims index(layout.size.size());
  int64_t position = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (seen[position])
      return true;
    seen[position] = true;
    for (size_t d = index.size(); d-- > 0;) {
      position += layout.stride[d];
      if (++index[d] < layout.size[d])
        break;
      position -= layout.size[d] * layout.stride[d];
      index[d] = 0;
    }
  }
  return false;
}

Layout collapse(DimsRef size, DimsRef stride) {
  Layout merged;
  for (size_t d = 0; d < size.size(); ++d) {
    if (size[d] == 1)
      continue;
    if (!merged.size.empty() && merged.stride.back() == size[d] * stride[d]) {
      merged.size.back() *= size[d];
      merged.stride.back() = stride[d];
    } else {
      merged.size.push_back(size[d]);
      merged.stride.push_back(stride[d]);
    }
  }
  return merged;
}

std::optional<NestedView> nested_view(DimsRef size,
                                      DimsRef stride,
                                      int64_t offset,
                                      int64_t length) {
  NestedView view;
  for (int64_t d : by_decreasing_stride(size, stride))
    if (stride[d] != 0)
      view.order.push_back(d);
  const Layout all = select(size, stride, view.order);
  if (!is_nested(all))
    return std::nullopt;
  const Layout layout = collapse(all.size, all.stride);
  int64_t inner = extent(layout.size, layout.stride);
  for (size_t d = 0; d < layout.size.size(); ++d) {
    const int64_t count = layout.size[d], step = layout.stride[d];
    const int64_t missing = offset + count * step - length;
    inner -= (count - 1) * step;
    // Starting the first block earlier saves the padding, if the inner
    // dimensions then still stay within their block.
    const int64_t early = std::max<int64_t>(missing, 0);
    const bool fits = early <= offset && early + inner <= step;
    const int64_t shift = fits ? early : 0;
    view.levels.push_back({fits ? 0 : early, offset - shift, count, step});
    offset = shift;
    length = step;
  }
  view.rest = offset;
  return view;
}

}  // namespace neuronx
