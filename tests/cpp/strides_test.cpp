// SPDX-License-Identifier: Apache-2.0
// Every claim about strides, against a list of the positions that a view
// visits, for all small views.
#include "common/strides.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

namespace neuronx {
namespace {

// Positions in row-major order.
Dims positions(DimsRef size, DimsRef stride, int64_t offset = 0) {
  Dims result{offset};
  for (size_t d = 0; d < size.size(); ++d) {
    Dims next;
    for (int64_t base : result)
      for (int64_t i = 0; i < size[d]; ++i)
        next.push_back(base + i * stride[d]);
    result = next;
  }
  return result;
}

void for_each_view(size_t rank,
                   int64_t max_size,
                   int64_t max_stride,
                   const std::function<void(const Dims&, const Dims&)>& f) {
  Dims size(rank, 0), stride(rank, 0);
  const std::function<void(size_t)> choose = [&](size_t d) {
    if (d == rank)
      return f(size, stride);
    for (size[d] = 0; size[d] <= max_size; ++size[d])
      for (stride[d] = 0; stride[d] <= max_stride; ++stride[d])
        choose(d + 1);
  };
  choose(0);
}

// All views of up to three dimensions that the other tests look at.
void for_each_small_view(
    const std::function<void(const Dims&, const Dims&)>& f) {
  for_each_view(0, 0, 0, f);
  for_each_view(1, 4, 5, f);
  for_each_view(2, 4, 9, f);
  for_each_view(3, 3, 7, f);
}

std::string show(DimsRef size, DimsRef stride) {
  std::string text = "size";
  for (int64_t s : size)
    text += " " + std::to_string(s);
  text += ", stride";
  for (int64_t s : stride)
    text += " " + std::to_string(s);
  return text;
}

TEST(Strides, ExtentSpansTheView) {
  for_each_small_view([](const Dims& size, const Dims& stride) {
    const Dims at = positions(size, stride);
    const int64_t expected =
        at.empty() ? 0 : *std::max_element(at.begin(), at.end()) + 1;
    ASSERT_EQ(extent(size, stride), expected) << show(size, stride);
    ASSERT_EQ(numel(size), int64_t(at.size()));
  });
}

TEST(Strides, ContiguousMeansPositionsCountUp) {
  for_each_small_view([](const Dims& size, const Dims& stride) {
    const Dims at = positions(size, stride);
    Dims up(at.size());
    std::iota(up.begin(), up.end(), 0);
    ASSERT_EQ(is_contiguous(size, stride), at == up) << show(size, stride);
    ASSERT_EQ(positions(size, contiguous_strides(size)), up);
  });
}

TEST(Strides, DensePermutationSortsThePositions) {
  for_each_small_view([](const Dims& size, const Dims& stride) {
    const Dims at = positions(size, stride);
    Dims up(at.size());
    std::iota(up.begin(), up.end(), 0);
    Dims sorted = at;
    std::sort(sorted.begin(), sorted.end());
    const auto order = dense_permutation(size, stride);
    ASSERT_EQ(order.has_value(), sorted == up) << show(size, stride);
    ASSERT_EQ(is_non_overlapping_and_dense(size, stride), sorted == up);
    if (!order)
      return;
    Dims outer_size, outer_stride;
    for (int64_t d : *order) {
      outer_size.push_back(size[d]);
      outer_stride.push_back(stride[d]);
    }
    ASSERT_EQ(positions(outer_size, outer_stride), up) << show(size, stride);
  });
}

TEST(Strides, InternalOverlapIsExact) {
  for_each_small_view([](const Dims& size, const Dims& stride) {
    const Dims at = positions(size, stride);
    const bool overlaps = std::set(at.begin(), at.end()).size() != at.size();
    ASSERT_EQ(has_internal_overlap(size, stride), overlaps)
        << show(size, stride);
  });
}

TEST(Strides, CollapseKeepsThePositions) {
  for_each_small_view([](const Dims& size, const Dims& stride) {
    const Layout merged = collapse(size, stride);
    ASSERT_EQ(positions(merged.size, merged.stride), positions(size, stride))
        << show(size, stride);
    ASSERT_LE(merged.size.size(), size.size());
    for (int64_t s : merged.size)
      ASSERT_NE(s, 1);
  });
}

TEST(Strides, CollapseMergesWhatIsAdjacent) {
  EXPECT_EQ(collapse(Dims{2, 3, 4}, Dims{12, 4, 1}), (Layout{{24}, {1}}));
  EXPECT_EQ(collapse(Dims{2, 1, 3, 4}, Dims{24, 7, 4, 1}),
            (Layout{{2, 12}, {24, 1}}));
  EXPECT_EQ(collapse(Dims{2, 3}, Dims{1, 2}), (Layout{{2, 3}, {1, 2}}));
}

// What NestedView describes, done to a list of positions. -1 is padding.
Dims cut(const NestedView& view, int64_t length) {
  Dims data(length);
  std::iota(data.begin(), data.end(), 0);
  int64_t rows = 1, width = length;
  for (const Level& level : view.levels) {
    Dims next;
    EXPECT_LE(level.start + level.count * level.stride, width + level.pad);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < level.count * level.stride; ++i)
        next.push_back(
            level.start + i < width ? data[r * width + level.start + i] : -1);
    data = next;
    rows *= level.count;
    width = level.stride;
  }
  Dims result;
  for (int64_t r = 0; r < rows; ++r)
    result.push_back(data[r * width + view.rest]);
  return result;
}

TEST(Strides, NestedViewCutsOutTheView) {
  size_t nested = 0, total = 0;
  for_each_small_view([&](const Dims& size, const Dims& stride) {
    const int64_t least = extent(size, stride);
    if (least == 0)
      return;
    for (int64_t offset : {0, 1, 4})
      for (int64_t behind : {0, 1, 2, 7}) {
        const int64_t length = offset + least + behind;
        const auto view = nested_view(size, stride, offset, length);
        ++total;
        if (!view)
          continue;
        ++nested;
        Dims outer_size, outer_stride;
        for (int64_t d : view->order) {
          outer_size.push_back(size[d]);
          outer_stride.push_back(stride[d]);
        }
        for (size_t d = 0; d < size.size(); ++d) {
          const bool ordered =
              std::count(view->order.begin(), view->order.end(), int64_t(d));
          ASSERT_EQ(ordered, size[d] != 1 && stride[d] != 0);
        }
        ASSERT_EQ(cut(*view, length),
                  positions(outer_size, outer_stride, offset))
            << show(size, stride) << ", offset " << offset << ", length "
            << length;
      }
  });
  EXPECT_GT(nested, total / 4);
}

TEST(Strides, SlicesOfAnOuterTensorNeedNoPadding) {
  // x of size [6, 8, 10], all of x[a:b, c:d, e:f] and its transposes.
  const Dims outer{6, 8, 10};
  for (int64_t a : {0, 1, 5})
    for (int64_t b : {0, 3, 7})
      for (int64_t c : {0, 2, 9}) {
        const Dims size{outer[0] - a, outer[1] - b, outer[2] - c};
        const auto view =
            nested_view(size, Dims{80, 10, 1}, a * 80 + b * 10 + c, 480);
        ASSERT_TRUE(view);
        for (const Level& level : view->levels)
          EXPECT_EQ(level.pad, 0) << a << " " << b << " " << c;
      }
}

TEST(Strides, OverlappingWindowsInterleave) {
  EXPECT_FALSE(nested_view(Dims{4, 3}, Dims{1, 1}, 0, 6));
  EXPECT_FALSE(nested_view(Dims{3, 4}, Dims{2, 1}, 0, 8));
  EXPECT_TRUE(nested_view(Dims{3, 2}, Dims{2, 1}, 0, 6));
}

}  // namespace
}  // namespace neuronx
