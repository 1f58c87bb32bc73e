// SPDX-License-Identifier: Apache-2.0
// Interpreter: StableHLO, one function per operation, on ATen CPU tensors.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/program.h"
#include "sim/executor/shell.h"

namespace neuronx::sim {

class AtenCall;
class Body;
class Interpreter;

// One operation with its operands. Where a region of rank-0 values is lifted,
// operands are whole tensors and result types hold the dtype only.
struct Evaluation {
  Interpreter& interpreter;
  const ir::Operation& op;
  const Tensors& operands;
  const std::vector<ir::TensorType>& types;

  const at::Tensor& in(size_t i) const { return operands[i]; }
  DType dtype(size_t result = 0) const { return types[result].dtype; }
  int64_t integer(const char* key) const;
  const ir::Shape& ints(const char* key) const;
  const std::string& string(const char* key) const;
  const ir::Program& body(size_t i = 0) const { return *op.bodies[i]; }
};

class Interpreter {
 public:
  // With `decomposed`, composites run by their bodies, else by ATen if it
  // has them.
  explicit Interpreter(bool decomposed);
  ~Interpreter();

  bool decomposed() const { return decomposed_; }
  // Throws std::runtime_error if `op` or its regions cannot run.
  void check(const ir::Operation& op) const;
  Tensors evaluate(const ir::Program& program, const Tensors& arguments);
  // Regions of control flow, each planned at its first use.
  Body& branch(const ir::Program& region);
  Body& step(const ir::Program& region);
  Tensors operation(const ir::Operation& op,
                    const Tensors& operands,
                    const std::vector<ir::TensorType>& types);

 private:
  Tensors composite(const ir::Operation& op, const Tensors& operands);

  bool decomposed_;
  std::unordered_map<const ir::Operation*, std::unique_ptr<AtenCall>> calls_;
  std::unordered_map<const ir::Program*, std::unique_ptr<Body>> branches_;
  std::unordered_map<const ir::Program*, std::unique_ptr<Body>> steps_;
};

struct Instruction {
  std::string_view name;
  Tensors (*run)(const Evaluation&);
};

std::span<const Instruction> elementwise_instructions();
std::span<const Instruction> shape_instructions();
std::span<const Instruction> reduce_instructions();
std::span<const Instruction> control_instructions();
std::span<const Instruction> contraction_instructions();
std::span<const Instruction> gather_instructions();

// What instructions share.

// The same bytes as a dtype that ATen moves around everywhere.
at::Tensor carrier(const at::Tensor& x);
inline at::Tensor from_carrier(const at::Tensor& x, at::ScalarType dtype) {
  return x.scalar_type() == dtype ? x : x.view(dtype);
}
// float16, bfloat16 and float8 as float32, all others as they are.
at::Tensor widen(const at::Tensor& x);
// StableHLO's convert.
at::Tensor convert_to(const at::Tensor& x, DType dtype);
// A binary operation by StableHLO's name without "stablehlo.".
at::Tensor apply_binary(std::string_view name,
                        const at::Tensor& a,
                        const at::Tensor& b);
// The result dtype is the operands'; integers and bool only.
at::Tensor integer_binary(std::string_view name,
                          const at::Tensor& a,
                          const at::Tensor& b);
at::Tensor integer_compare(std::string_view direction,
                           const at::Tensor& a,
                           const at::Tensor& b);
at::Tensor convert_integer(const at::Tensor& x, at::ScalarType dtype);
at::Tensor padded(const at::Tensor& x,
                  const at::Tensor& value,
                  const ir::Shape& low,
                  const ir::Shape& high,
                  const ir::Shape& interior);
// "add" for a region that returns stablehlo.add of its two parameters, in
// any order; "second" if it returns parameter 1; else empty.
std::string_view combiner(const ir::Program& region);
// Reduces dimensions 0 of `xs` with the region, which gets (left, right).
Tensors fold(Interpreter& interpreter,
             const ir::Program& region,
             const Tensors& xs,
             const Tensors& inits);
// Combines values[i] into the 1-D `to` at indices[i], in order, in place.
// The region gets (old, value); all are 1-D.
void scatter_into(Interpreter& interpreter,
                  const ir::Program& region,
                  at::Tensor& to,
                  const at::Tensor& indices,
                  const at::Tensor& values);

}  // namespace neuronx::sim
