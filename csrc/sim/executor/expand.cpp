// SPDX-License-Identifier: Apache-2.0
#include "sim/executor/expand.h"

#include <algorithm>
#include <utility>

#include "sim/executor/flat_builder.h"
#include "sim/executor/fusion.h"

namespace neuronx::sim {
namespace {

using pointwise::is_narrow;

class Expander {
 public:
  Expander(const FlatOp& entry, Flat& flat)
      : entry_(entry), flat_(flat), build_(flat), first_(flat.ops.size()) {}

  // Arguments: input, normalized shape, weight, bias, epsilon. Results: output,
  // mean, reciprocal standard deviation.
  bool layer_norm() {
    const ir::TensorType input = type(operand(0));
    for (int32_t v : entry_.operands)
      if (!is_narrow(type(v).dtype))
        return false;
    const auto* normalized =
        std::get_if<std::vector<int64_t>>(&entry_.op->arguments.at(1));
    const auto* epsilon = std::get_if<double>(&entry_.op->arguments.at(4));
    if (!normalized || !epsilon)
      return false;
    int64_t columns = 1;
    std::vector<int64_t> dims;
    ir::Shape rows = input.shape;
    for (size_t d = rows.size() - normalized->size(); d < rows.size(); ++d) {
      dims.push_back(static_cast<int64_t>(d));
      columns *= rows[d];
      rows[d] = 1;
    }
    if (!fuses_rows(input.numel(), columns))
      return false;
    const Moments m = normalize(wide(operand(0)), dims, rows, *epsilon);
    affine(m.normal,
           has(2) ? wide(operand(2)) : -1,
           has(3) ? wide(operand(3)) : -1);
    finish(1, m.mean);
    finish(2, m.scale);
    return true;
  }

  // Arguments: input, weight, bias, batches, channels, numbers of a channel,
  // groups, epsilon. Results as above, statistics [batches, groups].
  bool group_norm() {
    const ir::TensorType input = type(operand(0));
    for (int32_t v : entry_.operands)
      if (!is_narrow(type(v).dtype))
        return false;
    int64_t sizes[4];
    for (size_t i = 0; i < 4; ++i) {
      const auto* size = std::get_if<int64_t>(&entry_.op->arguments.at(3 + i));
      if (!size)
        return false;
      sizes[i] = *size;
    }
    const auto [batches, channels, numbers, groups] = sizes;
    const auto* epsilon = std::get_if<double>(&entry_.op->arguments.at(7));
    const int64_t rows = batches * groups;
    if (!epsilon || rows == 0 || is_permuted(operand(0)) ||
        !fuses_rows(input.numel(), input.numel() / rows))
      return false;
    const int32_t x =
        view(wide(operand(0)), {batches, groups, input.numel() / rows});
    const Moments m = normalize(x, {2}, {batches, groups, 1}, *epsilon);
    const ir::Shape each{channels, 1};
    affine(view(m.normal, {batches, channels, numbers}),
           has(1) ? view(wide(operand(1)), each) : -1,
           has(2) ? view(wide(operand(2)), each) : -1);
    finish(1, m.mean);
    finish(2, m.scale);
    return true;
  }

 private:
  const ir::TensorType& type(int32_t v) const { return flat_.types[v]; }
  bool has(size_t i) const {
    return std::holds_alternative<ir::Operand>(entry_.op->arguments.at(i));
  }
  int32_t operand(size_t i) const {
    return entry_.operands.at(
        std::get<ir::Operand>(entry_.op->arguments.at(i)).index);
  }

  struct Moments {
    int32_t mean, scale, normal;
  };

  // (x - mean) * scale over `dims`, which leave `rows`.
  Moments normalize(int32_t x,
                    const std::vector<int64_t>& dims,
                    const ir::Shape& rows,
                    double epsilon) {
    const ir::Shape shape = type(x).shape;
    const int32_t mean = full(rows), variance = full(rows);
    append("aten.mean.dim", {x}, {dims, true}, mean);
    append("aten.var.correction", {x}, {dims, int64_t{0}, true}, variance);
    const int32_t centred = full(shape);
    append("aten.sub.Tensor", {x, mean}, {}, centred);
    const int32_t shifted = full(rows), scale = full(rows);
    append("aten.add.Scalar", {variance}, {epsilon}, shifted);
    append("aten.rsqrt", {shifted}, {}, scale);
    const int32_t normal = full(shape);
    append("aten.mul.Tensor", {centred, scale}, {}, normal);
    return {mean, scale, normal};
  }

  // Result 0: normal * weight + bias, each -1 for none.
  void affine(int32_t normal, int32_t weight, int32_t bias) {
    int32_t y = normal;
    if (weight >= 0) {
      const int32_t scaled = full(type(y).shape);
      append("aten.mul.Tensor", {y, weight}, {}, scaled);
      y = scaled;
    }
    if (bias >= 0) {
      const int32_t shifted = full(type(y).shape);
      append("aten.add.Tensor", {y, bias}, {}, shifted);
      y = shifted;
    }
    finish(0, y);
  }

  // Seen in another order than it lies in memory.
  bool is_permuted(int32_t v) const {
    for (auto op = flat_.ops.rbegin(); op != flat_.ops.rend(); ++op)
      if (std::ranges::count(op->results, v) > 0)
        return (op->aten && op->aten->view) ||
               op->op->name == "neuronx.as_strided";
    return false;
  }

  int32_t view(int32_t v, ir::Shape shape) {
    if (type(v).shape == shape)
      return v;
    const int32_t result = build_.fresh(type(v).dtype, shape);
    append("aten.view", {v}, {std::move(shape)}, result);
    return result;
  }

  void append(const char* name,
              std::vector<int32_t> operands,
              std::initializer_list<ir::Attribute> others,
              int32_t result) {
    flat_.ops.push_back(build_.aten(name, std::move(operands), others, result));
  }
  int32_t wide(int32_t v) {
    if (type(v).dtype == DType::Float32)
      return v;
    const int32_t result = build_.fresh(DType::Float32, type(v).shape);
    flat_.ops.push_back(build_.convert(v, result));
    return result;
  }
  int32_t full(const ir::Shape& shape) {
    return build_.fresh(DType::Float32, shape);
  }
  // Gives the value to result i: the operator that computes it does so there.
  void finish(size_t i, int32_t value) {
    const int32_t result = entry_.results[i];
    if (type(value).shape != type(result).shape) {
      value = view(value, type(result).shape);
    }
    if (type(value).dtype != type(result).dtype) {
      flat_.ops.push_back(build_.convert(value, result));
      return;
    }
    for (size_t k = first_; k < flat_.ops.size(); ++k)
      for (auto* list : {&flat_.ops[k].operands, &flat_.ops[k].results})
        std::ranges::replace(*list, value, result);
  }

  const FlatOp& entry_;
  Flat& flat_;
  FlatBuilder build_;
  size_t first_;  // of the operators that are added
};

}  // namespace

bool expands(const ir::Operation& op) {
  return op.name == "aten.native_layer_norm" ||
         op.name == "aten.native_group_norm";
}

bool expand(const FlatOp& entry, Flat& flat) {
  Expander expander(entry, flat);
  return entry.op->name == "aten.native_layer_norm" ? expander.layer_norm()
                                                    : expander.group_norm();
}

}  // namespace neuronx::sim
