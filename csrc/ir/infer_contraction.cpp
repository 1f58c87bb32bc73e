// SPDX-License-Identifier: Apache-2.0
// Rules of dot_general, convolution, gather and scatter.
#include <fmt/format.h>

#include <algorithm>

#include "ir/infer.h"

namespace neuronx::ir {
namespace {

bool contains(const Shape& list, int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

void expect_ascending(const Call& c, const char* key) {
  const Shape& list = c.ints(key);
  if (!std::is_sorted(list.begin(), list.end()))
    c.fail(fmt::format(
        "expected {} in ascending order, got {}", key, to_string(list)));
}

Types dot_general(const Call& c) {
  c.expect_operands(2);
  const Shape* batch[2];
  const Shape* contract[2];
  const char* batch_keys[] = {"lhs_batching_dimensions",
                              "rhs_batching_dimensions"};
  const char* contract_keys[] = {"lhs_contracting_dimensions",
                                 "rhs_contracting_dimensions"};
  for (int i : {0, 1}) {
    batch[i] = &c.dimensions(batch_keys[i], c.rank(i));
    contract[i] = &c.dimensions(contract_keys[i], c.rank(i));
    for (int64_t d : *contract[i])
      if (contains(*batch[i], d))
        c.fail(
            fmt::format("dimension {} of operand {} is both batching and "
                        "contracting",
                        d,
                        i));
  }
  const auto expect_equal = [&](const Shape& a, const Shape& b) {
    bool equal = a.size() == b.size();
    for (size_t i = 0; equal && i < a.size(); ++i)
      equal = c.in(0).shape[a[i]] == c.in(1).shape[b[i]];
    if (!equal)
      c.fail(fmt::format("dimensions {} of {} do not match {} of {}",
                         to_string(a),
                         to_string(c.in(0)),
                         to_string(b),
                         to_string(c.in(1))));
  };
  expect_equal(*batch[0], *batch[1]);
  expect_equal(*contract[0], *contract[1]);
  if (c.in(0).dtype != c.in(1).dtype)
    c.fail(fmt::format("expected operands of one dtype, got {} and {}",
                       to_string(c.in(0)),
                       to_string(c.in(1))));
  TensorType result{c.wanted().dtype, {}};
  for (int64_t d : *batch[0])
    result.shape.push_back(c.in(0).shape[d]);
  for (int i : {0, 1})
    for (int64_t d = 0; d < c.rank(i); ++d)
      if (!contains(*batch[i], d) && !contains(*contract[i], d))
        result.shape.push_back(c.in(i).shape[d]);
  return {result};
}

// Positions of the two named and the spatial dimensions, a permutation.
struct Positions {
  int64_t first, second;
  const Shape* spatial;
};

Positions positions(const Call& c,
                    const char* first,
                    const char* second,
                    const char* spatial,
                    int64_t rank) {
  const Positions p{c.dimension(first, rank),
                    c.dimension(second, rank),
                    &c.dimensions(spatial, rank)};
  if (p.first == p.second || contains(*p.spatial, p.first) ||
      contains(*p.spatial, p.second) || int64_t(p.spatial->size()) + 2 != rank)
    c.fail(
        fmt::format("{} {}, {} {}, {} {} are not the dimensions of a "
                    "tensor of rank {}",
                    first,
                    p.first,
                    second,
                    p.second,
                    spatial,
                    to_string(*p.spatial),
                    rank));
  return p;
}

Types convolution(const Call& c) {
  c.expect_operands(2);
  const int64_t rank = c.rank(0);
  if (rank < 2 || c.rank(1) != rank || c.in(0).dtype != c.in(1).dtype)
    c.fail(
        fmt::format("expected operands of one dtype and one rank of at "
                    "least 2, got {} and {}",
                    to_string(c.in(0)),
                    to_string(c.in(1))));
  const Positions in = positions(c,
                                 "input_batch_dimension",
                                 "input_feature_dimension",
                                 "input_spatial_dimensions",
                                 rank);
  const Positions kernel = positions(c,
                                     "kernel_output_feature_dimension",
                                     "kernel_input_feature_dimension",
                                     "kernel_spatial_dimensions",
                                     rank);
  const Positions out = positions(c,
                                  "output_batch_dimension",
                                  "output_feature_dimension",
                                  "output_spatial_dimensions",
                                  rank);
  const size_t n = size_t(rank - 2);
  const Shape& stride = c.ints("window_strides", n, 1);
  const Shape& padding = c.ints("padding", 2 * n, INT64_MIN);
  const Shape& lhs_dilation = c.ints("lhs_dilation", n, 1);
  const Shape& rhs_dilation = c.ints("rhs_dilation", n, 1);
  const int64_t groups = c.integer("feature_group_count");
  const int64_t batch_groups = c.integer("batch_group_count");
  const Shape& x = c.in(0).shape;
  const Shape& w = c.in(1).shape;
  const int64_t features = w[kernel.first];
  if (groups < 1 || batch_groups < 1 || (groups > 1 && batch_groups > 1) ||
      x[in.second] % groups || x[in.second] / groups != w[kernel.second] ||
      x[in.first] % batch_groups || features % groups ||
      features % batch_groups)
    c.fail(fmt::format(
        "kernel {} does not match input {} with feature_group_count {} and "
        "batch_group_count {} (features in dimensions {} and {})",
        to_string(c.in(1)),
        to_string(c.in(0)),
        groups,
        batch_groups,
        kernel.second,
        in.second));
  TensorType result{c.wanted().dtype, Shape(rank)};
  result.shape[out.first] = x[in.first] / batch_groups;
  result.shape[out.second] = features;
  for (size_t i = 0; i < n; ++i) {
    const int64_t size = x[(*in.spatial)[i]];
    const int64_t window = w[(*kernel.spatial)[i]];
    const Wide dilated = size == 0 ? 0 : Wide(size - 1) * lhs_dilation[i] + 1;
    const Wide padded = dilated + padding[2 * i] + padding[2 * i + 1];
    const Wide reach = window == 0 ? 0 : Wide(window - 1) * rhs_dilation[i] + 1;
    if (padded < 0)
      c.fail(fmt::format("padding {} is impossible for {}",
                         to_string(padding),
                         to_string(c.in(0))));
    const Wide count =
        padded < reach ? Wide(0) : (padded - reach) / stride[i] + 1;
    if (count > INT64_MAX)
      c.fail("result is too large");
    result.shape[(*out.spatial)[i]] = int64_t(count);
  }
  return {result};
}

// Shape of `type` without dimension `vector`, which may be one past the last
// for an index vector of length 1.
Shape batch_shape(const Call& c, const TensorType& type, int64_t vector) {
  Shape shape = type.shape;
  if (vector < 0 || vector > int64_t(shape.size()))
    c.fail(fmt::format("index_vector_dim {} out of range for indices {}",
                       vector,
                       to_string(type)));
  if (vector < int64_t(shape.size()))
    shape.erase(shape.begin() + vector);
  return shape;
}

void expect_indices(const Call& c, const char* map_key) {
  const TensorType& indices = c.in(1);
  const int64_t vector = c.integer("index_vector_dim");
  batch_shape(c, indices, vector);
  const int64_t length =
      vector == c.rank(1) ? 1 : indices.shape[size_t(vector)];
  const Shape& map = c.dimensions(map_key, c.rank(0));
  if (!is_integral(indices.dtype) || indices.dtype == DType::Bool ||
      int64_t(map.size()) != length)
    c.fail(
        fmt::format("indices {} do not match {} {} with "
                    "index_vector_dim {}",
                    to_string(indices),
                    map_key,
                    to_string(map),
                    vector));
}

Types gather(const Call& c) {
  c.expect_operands(2);
  expect_indices(c, "start_index_map");
  c.flag("indices_are_sorted");
  const Shape batch = batch_shape(c, c.in(1), c.integer("index_vector_dim"));
  const Shape& collapsed = c.dimensions("collapsed_slice_dims", c.rank(0));
  const Shape& sizes = c.ints("slice_sizes", size_t(c.rank(0)), 0);
  expect_ascending(c, "collapsed_slice_dims");
  expect_ascending(c, "offset_dims");
  Shape window;
  for (int64_t d = 0; d < c.rank(0); ++d) {
    const bool dropped = contains(collapsed, d);
    if (sizes[d] > c.in(0).shape[d] || (dropped && sizes[d] > 1))
      c.fail(
          fmt::format("slice_sizes {} do not fit {} with "
                      "collapsed_slice_dims {}",
                      to_string(sizes),
                      to_string(c.in(0)),
                      to_string(collapsed)));
    if (!dropped)
      window.push_back(sizes[d]);
  }
  const Shape& offset =
      c.dimensions("offset_dims", int64_t(batch.size() + window.size()));
  if (offset.size() != window.size())
    c.fail(fmt::format(
        "expected {} offset_dims, got {}", window.size(), to_string(offset)));
  TensorType result{c.in(0).dtype, {}};
  size_t w = 0, b = 0;
  for (size_t d = 0; d < batch.size() + window.size(); ++d)
    result.shape.push_back(contains(offset, int64_t(d)) ? window[w++]
                                                        : batch[b++]);
  return {result};
}

Types scatter(const Call& c) {
  c.expect_operands(3);
  c.expect_bodies(1);
  expect_indices(c, "scatter_dims_to_operand_dims");
  c.flag("indices_are_sorted");
  c.flag("unique_indices");
  const Shape batch = batch_shape(c, c.in(1), c.integer("index_vector_dim"));
  const Shape& inserted = c.dimensions("inserted_window_dims", c.rank(0));
  const Shape& window = c.dimensions("update_window_dims", c.rank(2));
  expect_ascending(c, "inserted_window_dims");
  expect_ascending(c, "update_window_dims");
  Shape limit;
  for (int64_t d = 0; d < c.rank(0); ++d)
    if (!contains(inserted, d))
      limit.push_back(c.in(0).shape[d]);
  bool fits = c.in(2).dtype == c.in(0).dtype && window.size() == limit.size() &&
              c.in(2).shape.size() == batch.size() + window.size();
  size_t w = 0, b = 0;
  for (int64_t d = 0; fits && d < c.rank(2); ++d)
    fits = contains(window, d) ? c.in(2).shape[d] <= limit[w++]
                               : c.in(2).shape[d] == batch[b++];
  if (!fits)
    c.fail(
        fmt::format("updates {} do not fit operand {} and indices {} with "
                    "update_window_dims {} and inserted_window_dims {}",
                    to_string(c.in(2)),
                    to_string(c.in(0)),
                    to_string(c.in(1)),
                    to_string(window),
                    to_string(inserted)));
  const TensorType element{c.in(0).dtype, {}};
  c.expect_body(0, {element, element}, {element});
  return {c.in(0)};
}

constexpr Rule kRules[] = {
    {"stablehlo.dot_general", dot_general},
    {"stablehlo.convolution", convolution},
    {"stablehlo.gather", gather},
    {"stablehlo.scatter", scatter, true},
};

}  // namespace

std::span<const Rule> contraction_rules() {
  return kRules;
}

}  // namespace neuronx::ir
