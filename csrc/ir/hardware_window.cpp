// SPDX-License-Identifier: Apache-2.0
// Windows, convolutions and indices in the forms that the compiler takes.
#include <fmt/format.h>

#include <algorithm>

#include "ir/hardware_rewrites.h"

namespace neuronx::ir::hardware {
namespace {

// Positions of a window, each of which becomes a slice.
constexpr int64_t kMaxPositions = 4096;

// What a component of the index vector counts: positions of `type` along
// `dimension`, if they are an iota, reshaped or repeated.
std::optional<int64_t> iota_length(const Site& site, Value v) {
  for (const Operation* op = site.defined_by[v.id]; op;
       op = site.defined_by[op->operands[0].id]) {
    if (op->name == "stablehlo.iota") {
      const auto d = std::get<int64_t>(*op->attribute("iota_dimension"));
      return site.program.type(op->results[0]).shape[d];
    }
    if (op->name != "stablehlo.reshape" && op->name != "stablehlo.convert" &&
        op->name != "stablehlo.broadcast_in_dim" &&
        op->name != "stablehlo.transpose")
      return std::nullopt;
  }
  return std::nullopt;
}

// The values that make up the index vector, one per component.
Values components(const Site& site, int64_t count) {
  const Value indices = site.op.operands[1];
  if (count == 1)
    return {indices};
  const Operation* op = site.defined_by[indices.id];
  const bool joined = op && op->name == "stablehlo.concatenate" &&
                      int64_t(op->operands.size()) == count &&
                      std::get<int64_t>(*op->attribute("dimension")) ==
                          site.integer("index_vector_dim");
  return joined ? op->operands : Values{};
}

// The last index of each component that stays inside.
Shape last_indices(const Site& site) {
  const bool gather = site.is("stablehlo.gather");
  const Shape& map =
      site.ints(gather ? "start_index_map" : "scatter_dims_to_operand_dims");
  Shape window;  // by dimension of the operand
  if (gather) {
    window = site.ints("slice_sizes");
  } else {
    const Shape& inserted = site.ints("inserted_window_dims");
    const Shape& updates = site.ints("update_window_dims");
    for (size_t d = 0, w = 0; d < site.in(0).shape.size(); ++d)
      window.push_back(std::find(inserted.begin(), inserted.end(), d) !=
                               inserted.end()
                           ? 1
                           : site.in(2).shape[updates[w++]]);
  }
  Shape last;
  for (int64_t d : map)
    last.push_back(site.in(0).shape[d] - window[d]);
  return last;
}

}  // namespace

bool reaches_outside(const Site& site) {
  const Shape last = last_indices(site);
  const Values parts = components(site, int64_t(last.size()));
  for (size_t i = 0; i < parts.size(); ++i)
    if (const auto length = iota_length(site, parts[i]))
      if (*length - 1 > last[i])
        return true;
  return false;
}

// A gather clamps what leaves its operand; so does this.
Values rewrite_gather(Builder& b, const Site& site, const Values& operands) {
  const Shape last = last_indices(site);
  const Value indices = operands[1];
  const DType dtype = b.dtype(indices);
  const int64_t vector = site.integer("index_vector_dim");
  Values limits;
  for (int64_t limit : last)
    limits.push_back(b.constant(dtype, limit, {1}));
  const Value limit =
      vector == b.rank(indices)
          ? b.broadcast(b.reshape(limits[0], {}), b.shape(indices))
          : b.broadcast_in_dim(
                b.concatenate(limits, 0), b.shape(indices), {vector});
  Operation op = site.op;
  op.operands = {
      operands[0],
      b.clamp(b.constant(dtype, 0, b.shape(indices)), indices, limit)};
  op.results.clear();
  return b.append(std::move(op));
}

// The padded inputs, sliced once per position of the window.
Values rewrite_window(Builder& b, const Site& site, const Values& operands) {
  const size_t n = operands.size() / 2;
  const Shape& size = site.ints("window_dimensions");
  const Shape& stride = site.ints("window_strides");
  const Shape& dilation = site.ints("window_dilations");
  const Shape& padding = site.ints("padding");
  const Shape shape = site.out().shape;
  int64_t positions = 1;
  for (int64_t s : size)
    positions *= s;
  if (positions > kMaxPositions)
    throw Inexpressible(
        fmt::format("its window has {} positions, more than the {} that can "
                    "be written out",
                    positions,
                    kMaxPositions));
  Values results;
  for (size_t i = 0; i < n; ++i)
    results.push_back(b.broadcast(operands[n + i], shape));
  if (TensorType{DType::Bool, shape}.numel() == 0)
    return results;
  Shape low, high;
  for (size_t d = 0; d < size.size(); ++d) {
    low.push_back(padding[2 * d]);
    high.push_back(padding[2 * d + 1]);
  }
  Values padded;
  for (size_t i = 0; i < n; ++i)
    padded.push_back(
        b.pad(operands[i], operands[n + i], low, high, Shape(low.size(), 0)));
  Shape position(size.size(), 0);
  for (int64_t k = 0; k < positions; ++k) {
    Shape start, limit;
    for (size_t d = 0; d < size.size(); ++d) {
      start.push_back(position[d] * dilation[d]);
      limit.push_back(start[d] + (shape[d] - 1) * stride[d] + 1);
    }
    for (Value x : padded)
      results.push_back(b.slice(x, start, limit, stride));
    results = lift(b, *site.op.bodies[0], results, shape);
    for (size_t d = size.size(); d-- > 0 && ++position[d] == size[d];)
      position[d] = 0;
  }
  return results;
}

// The input dilated with zeros.
Values rewrite_dilation(Builder& b, const Site& site, const Values& operands) {
  Operation op = site.op;
  Shape none(site.in(0).shape.size(), 0), interior = none;
  const Shape& spatial = site.ints("input_spatial_dimensions");
  for (auto& [key, value] : op.attributes)
    if (key == "lhs_dilation") {
      Shape& dilation = std::get<Shape>(value);
      for (size_t i = 0; i < spatial.size(); ++i)
        interior[spatial[i]] = dilation[i] - 1;
      dilation.assign(dilation.size(), 1);
    }
  op.operands = {
      b.pad(operands[0], b.constant(site.in(0).dtype, 0), none, none, interior),
      operands[1]};
  op.results.clear();
  return b.append(std::move(op), {site.out()});
}

}  // namespace neuronx::ir::hardware
