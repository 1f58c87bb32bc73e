// SPDX-License-Identifier: Apache-2.0
#include "sim/executor/expand.h"

#include "sim/executor/flat_builder.h"
#include "sim/executor/fusion.h"

namespace neuronx::sim {
namespace {

bool is_narrow(DType dtype) {
  return dtype == DType::Float32 || dtype == DType::BFloat16 ||
         dtype == DType::Float16;
}

class Expander {
 public:
  Expander(const FlatOp& entry, Flat& flat)
      : entry_(entry), flat_(flat), build_(flat) {}

  // Arguments: input, normalized shape, weight, bias, epsilon. Results: output,
  // mean, reciprocal standard deviation. The variance is that of the centred
  // values, in a pass of its own.
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
    const int32_t x = wide(operand(0));
    const int32_t mean = target(1);
    append("aten.mean.dim", {x}, {dims, true}, mean);
    const int32_t centred = full(input.shape);
    append("aten.sub.Tensor", {x, mean}, {}, centred);
    const int32_t square = full(input.shape);
    append("aten.mul.Tensor", {centred, centred}, {}, square);
    const int32_t variance = full(rows);
    append("aten.mean.dim", {square}, {dims, true}, variance);
    const int32_t shifted = full(rows);
    append("aten.add.Scalar", {variance}, {*epsilon}, shifted);
    const int32_t scale = target(2);
    append("aten.rsqrt", {shifted}, {}, scale);
    const int32_t y = target(0);
    int32_t normal = has(2) || has(3) ? full(input.shape) : y;
    append("aten.mul.Tensor", {centred, scale}, {}, normal);
    if (has(2)) {
      const int32_t scaled = has(3) ? full(input.shape) : y;
      append("aten.mul.Tensor", {normal, wide(operand(2))}, {}, scaled);
      normal = scaled;
    }
    if (has(3))
      append("aten.add.Tensor", {normal, wide(operand(3))}, {}, y);
    finish(0, y);
    finish(1, mean);
    finish(2, scale);
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
  // Result i, or a value that finish converts to it.
  int32_t target(size_t i) {
    const int32_t result = entry_.results[i];
    return type(result).dtype == DType::Float32 ? result
                                                : full(type(result).shape);
  }
  void finish(size_t i, int32_t value) {
    if (value != entry_.results[i])
      flat_.ops.push_back(build_.convert(value, entry_.results[i]));
  }

  const FlatOp& entry_;
  Flat& flat_;
  FlatBuilder build_;
};

}  // namespace

bool expands(const ir::Operation& op) {
  return op.name == "aten.native_layer_norm";
}

bool expand(const FlatOp& entry, Flat& flat) {
  return expands(*entry.op) && Expander(entry, flat).layer_norm();
}

}  // namespace neuronx::sim
