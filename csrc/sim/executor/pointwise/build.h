// SPDX-License-Identifier: Apache-2.0
// Builds the Code of a region, operator by operator; schedule.cpp orders it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/executor/flatten.h"
#include "sim/executor/pointwise/code.h"

namespace neuronx::sim::pointwise {

// The floating-point dtypes that a region computes.
inline bool is_narrow(DType dtype) {
  return dtype == DType::Float32 || dtype == DType::BFloat16 ||
         dtype == DType::Float16;
}
// The dtypes that a region stores.
inline bool is_register_dtype(DType dtype) {
  return is_narrow(dtype) || dtype == DType::Bool;
}
// Every value of the dtype is a float32.
inline bool is_exact(DType dtype) {
  return is_register_dtype(dtype) || dtype == DType::UInt8 ||
         dtype == DType::Int8 || dtype == DType::Int16;
}

// The Code of a region whose operands have no layout yet.
struct Region {
  Code code;
  // For each load the shape over which its operand is broadcast.
  std::vector<ir::Shape> shapes;
};

// A Stack of regions: its operands and results are those of the FlatOp.
struct RegionStack {
  int64_t rows = 0, columns = 0;
  std::vector<Region> stages;
};

// What a region stores: a value, or what its rows are reduced to.
struct Output {
  int32_t value;
  DType dtype;
  Reduction reduction = Reduction::None;
};

// An elementwise StableHLO operation that Builder may know.
bool is_primitive(const std::string& name);

class Builder {
 public:
  explicit Builder(const Flat& flat) : flat_(flat) {}

  // Adds the operator; false, with nothing changed, if it has no instruction.
  bool add(const FlatOp& op);
  // The value of `result` is that of `of`, in the same order.
  void alias(int32_t result, int32_t of) { values_[result] = values_.at(of); }
  bool has(int32_t value) const { return values_.contains(value); }
  // A value that every number of is the same.
  void constant(int32_t value, double number);
  // A value that the region reads as it is; false if it cannot.
  bool take(int32_t value);

  // Values that the region reads, in the order of Load::operand.
  const std::vector<int32_t>& operands() const { return operands_; }
  size_t size() const { return instructions_.size(); }
  // Ends with the values to store. `columns` is 0 without reductions.
  Region finish(const std::vector<Output>& outputs,
                int64_t numel,
                int64_t columns);

 private:
  friend class Arguments;
  friend class Schedule;
  using Register = int32_t;
  struct Virtual {
    Opcode opcode;
    Register result, a, b, c;  // -1 for none
  };

  const ir::TensorType& type(int32_t value) const { return flat_.types[value]; }
  Register fresh() { return registers_++; }
  Register number(float value);
  // `shift` drops the lower bits of unsigned words.
  Register read(int32_t value, const ir::Shape& shape, int8_t shift = 0);
  // The instructions of a StableHLO operation.
  std::optional<Register> primitive(const FlatOp& op);
  std::optional<double> number_of(int32_t value) const;
  Register emit(Opcode opcode, Register a, Register b = -1, Register c = -1);

  const Flat& flat_;
  Register registers_ = 0;
  std::map<int32_t, Register> values_;
  std::map<float, Register> numbers_;
  std::map<std::tuple<int32_t, ir::Shape, int8_t>, Register> loads_;
  struct Read {
    int32_t operand;
    Register result;
    DType dtype;
    ir::Shape shape;
    int8_t shift;
  };
  std::vector<Read> reads_;
  std::vector<int32_t> operands_;
  std::vector<Virtual> instructions_;
};

// Gives the load the layout of its operand, broadcast to `shape`. Strides count
// elements.
void set_layout(Load& load,
                const ir::Shape& size,
                const ir::Shape& stride,
                const ir::Shape& shape);

}  // namespace neuronx::sim::pointwise
