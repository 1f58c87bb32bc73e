// SPDX-License-Identifier: Apache-2.0
// gather and scatter with general dimension numbers.
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <unordered_map>

#include "sim/executor/interpreter.h"

namespace neuronx::sim {
namespace {

using ir::Shape;

bool contains(const Shape& list, int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// [batch..., vector] of int64; uint64 beyond int64 is out of range anyway.
at::Tensor index_vectors(const at::Tensor& indices, int64_t vector) {
  const at::Tensor wide = convert_integer(indices, at::kLong);
  if (vector == wide.dim())
    return wide.unsqueeze(-1);
  return wide.movedim(vector, -1);
}

// Row-major strides of the operand.
Shape steps(const at::Tensor& x) {
  Shape result(x.dim(), 1);
  for (int64_t d = x.dim() - 2; d >= 0; --d)
    result[d] = result[d + 1] * x.size(d + 1);
  return result;
}

// Positions in the operand of each element of each window, [batch, window...]
// where the window has all dimensions of the operand.
struct Positions {
  at::Tensor flat;
  at::Tensor inside;  // undefined if all are
};

Positions positions(const at::Tensor& x,
                    const at::Tensor& vectors,
                    const Shape& map,
                    const Shape& window,
                    bool clamp) {
  const int64_t rank = x.dim();
  const Shape step = steps(x);
  const at::Tensor rows = vectors.reshape({-1, int64_t(map.size())});
  Shape shape(rank + 1, 1);
  shape[0] = vectors.numel() / std::max<int64_t>(1, int64_t(map.size()));
  if (map.empty()) {
    shape[0] = 1;
    for (int64_t d = 0; d + 1 < vectors.dim(); ++d)
      shape[0] *= vectors.size(d);
  }
  at::Tensor flat = at::zeros(shape, at::kLong), inside;
  for (int64_t d = 0; d < rank; ++d) {
    Shape line(rank + 1, 1);
    line[d + 1] = window[d];
    at::Tensor coordinate = at::arange(window[d], at::kLong).reshape(line);
    const auto at = std::find(map.begin(), map.end(), d);
    if (at != map.end()) {
      Shape column(rank + 1, 1);
      column[0] = shape[0];
      at::Tensor start = rows.select(1, at - map.begin()).reshape(column);
      if (clamp)
        start = start.clamp(0, x.size(d) - window[d]);
      coordinate = start.add(coordinate);
      if (!clamp) {
        const at::Tensor fits =
            coordinate.ge(0).logical_and(coordinate.lt(x.size(d)));
        inside = inside.defined() ? inside.logical_and(fits) : fits;
        coordinate = coordinate.clamp(0, std::max<int64_t>(x.size(d) - 1, 0));
      }
    }
    flat = flat.add(coordinate.mul(step[d]));
  }
  return {flat, inside};
}

Shape without(at::IntArrayRef sizes, const Shape& dropped) {
  Shape result;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (!contains(dropped, int64_t(d)))
      result.push_back(sizes[d]);
  return result;
}

// The permutation from [batch..., window...] to a layout whose dimensions
// `window` hold the window.
Shape interleave(const Shape& window, size_t rank) {
  Shape order;
  int64_t batch = 0, next = int64_t(rank - window.size());
  for (size_t d = 0; d < rank; ++d)
    order.push_back(contains(window, int64_t(d)) ? next++ : batch++);
  return order;
}

Tensors gather(const Evaluation& e) {
  const at::Tensor x = carrier(e.in(0)).contiguous();
  const Shape& size = e.ints("slice_sizes");
  const at::Tensor vectors =
      index_vectors(e.in(1), e.integer("index_vector_dim"));
  const Positions p =
      positions(x, vectors, e.ints("start_index_map"), size, true);
  const Shape& offset = e.ints("offset_dims");
  Shape split = vectors.sizes().vec();
  split.pop_back();
  for (int64_t n : without(size, e.ints("collapsed_slice_dims")))
    split.push_back(n);
  Shape window = size;
  window.insert(window.begin(), p.flat.size(0));
  const at::Tensor flat = p.flat.expand(window).reshape({-1});
  const at::Tensor result =
      x.reshape({-1}).index_select(0, flat).reshape(split).permute(
          interleave(offset, split.size()));
  return {from_carrier(result, e.in(0).scalar_type())};
}

Tensors scatter(const Evaluation& e) {
  const at::Tensor &x = e.in(0), &updates = e.in(2);
  const Shape& window_dims = e.ints("update_window_dims");
  const Shape& inserted = e.ints("inserted_window_dims");
  const at::Tensor vectors =
      index_vectors(e.in(1), e.integer("index_vector_dim"));
  Shape window;
  for (int64_t d = 0, w = 0; d < x.dim(); ++d)
    window.push_back(contains(inserted, d) ? 1
                                           : updates.size(window_dims[w++]));
  at::Tensor result = x.clone(at::MemoryFormat::Contiguous);
  if (updates.numel() == 0 || x.numel() == 0)
    return {result};
  const Positions p = positions(
      x, vectors, e.ints("scatter_dims_to_operand_dims"), window, false);
  // Updates as [batch..., window...].
  const Shape layout = interleave(window_dims, updates.dim());
  Shape inverse(layout.size());
  for (size_t d = 0; d < layout.size(); ++d)
    inverse[layout[d]] = int64_t(d);
  at::Tensor values = carrier(updates).permute(inverse).reshape({-1});
  Shape all = window;
  all.insert(all.begin(), p.flat.size(0));
  at::Tensor flat = p.flat.expand(all).reshape({-1});
  if (p.inside.defined()) {
    const at::Tensor inside = p.inside.expand(all).reshape({-1});
    flat = flat.masked_select(inside);
    values = values.masked_select(inside);
  }
  at::Tensor line = result.view({-1});
  scatter_into(e.interpreter,
               e.body(),
               line,
               flat,
               from_carrier(values, x.scalar_type()));
  return {result};
}

constexpr Instruction kInstructions[] = {
    {"stablehlo.gather", gather},
    {"stablehlo.scatter", scatter},
};

// Splits 0..n-1 in rounds in which no index occurs twice.
std::vector<at::Tensor> rounds(const at::Tensor& indices) {
  const at::Tensor dense = indices.contiguous();
  const int64_t* index = dense.const_data_ptr<int64_t>();
  std::unordered_map<int64_t, size_t> seen;
  std::vector<std::vector<int64_t>> members;
  for (int64_t i = 0; i < dense.numel(); ++i) {
    const size_t round = seen[index[i]]++;
    if (round == members.size())
      members.emplace_back();
    members[round].push_back(i);
  }
  std::vector<at::Tensor> result;
  for (const auto& member : members) {
    at::Tensor positions = make_empty(DType::Int64, {int64_t(member.size())});
    std::copy(
        member.begin(), member.end(), positions.mutable_data_ptr<int64_t>());
    result.push_back(positions);
  }
  return result;
}

}  // namespace

void scatter_into(Interpreter& interpreter,
                  const ir::Program& region,
                  at::Tensor& to,
                  const at::Tensor& indices,
                  const at::Tensor& values) {
  const std::string_view name = combiner(region);
  at::Tensor raw = carrier(to);
  const auto type = to.scalar_type();
  if (name == "add" && (type == at::kFloat || type == at::kDouble ||
                        type == at::kLong || type == at::kUInt64)) {
    raw.index_add_(0, indices, carrier(values));
    return;
  }
  for (const at::Tensor& round : rounds(indices)) {
    const at::Tensor at = indices.index_select(0, round);
    at::Tensor value =
        from_carrier(carrier(values).index_select(0, round), type);
    if (name != "second") {
      const at::Tensor old = from_carrier(raw.index_select(0, at), type);
      value = name.empty() ? interpreter.evaluate(region, {old, value})[0]
                           : apply_binary(name, old, value);
    }
    raw.index_copy_(0, at, carrier(value).expand(at.sizes()));
  }
}

std::span<const Instruction> gather_instructions() {
  return kInstructions;
}

}  // namespace neuronx::sim
