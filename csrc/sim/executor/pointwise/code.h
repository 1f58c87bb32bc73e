// SPDX-License-Identifier: Apache-2.0
// Code: a pointwise region as instructions over blocks of float32 numbers that
// stay in the first-level cache. bfloat16 and float16 values are rounded after
// each operator as ATen rounds them; bool is 0 or 1.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/program.h"

namespace neuronx::sim::pointwise {

// Numbers of one block. With a dozen live blocks this fills 48 KiB.
inline constexpr int64_t kBlock = 1024;

// name, operands
// clang-format off
#define NEURONX_POINTWISE_OPCODES(X)                                        \
  X(Neg, 1) X(Abs, 1) X(Relu, 1) X(Exp, 1) X(Exp2, 1) X(Expm1, 1)           \
  X(Log, 1) X(Log1p, 1) X(Log2, 1) X(Log10, 1) X(Sqrt, 1) X(Rsqrt, 1)       \
  X(Reciprocal, 1) X(Sin, 1) X(Cos, 1) X(Tan, 1) X(Tanh, 1) X(Sigmoid, 1)   \
  X(Silu, 1) X(Gelu, 1) X(GeluTanh, 1) X(Erf, 1) X(Erfc, 1) X(Floor, 1)     \
  X(Ceil, 1) X(Trunc, 1) X(Round, 1) X(Sign, 1) X(Not, 1) X(IsNan, 1)       \
  X(ToBool, 1) X(ToBFloat16, 1) X(ToFloat16, 1)                             \
  X(Add, 2) X(Sub, 2) X(Mul, 2) X(Div, 2) X(Maximum, 2) X(Minimum, 2)       \
  X(Eq, 2) X(Ne, 2) X(Lt, 2) X(Le, 2) X(Gt, 2) X(Ge, 2) X(And, 2) X(Or, 2)  \
  X(Pow, 2) X(ClampMin, 2) X(ClampMax, 2)                                   \
  X(AddScaled, 3) X(Where, 3)
// clang-format on

enum class Opcode : uint8_t {
#define X(name, operands) name,
  NEURONX_POINTWISE_OPCODES(X)
#undef X
};

// result = opcode(a, b, c), slots of one block each.
struct Instruction {
  Opcode opcode;
  int16_t result, a, b = 0, c = 0;
};

// An operand of the region: dense, or seen through strides in the row-major
// order of the results. Strides count elements.
struct Load {
  int32_t operand;
  int16_t slot;
  DType dtype;
  // Dense if empty. A single number has size {n} and stride {0}.
  std::vector<int64_t> size, stride;
  // Instructions before it.
  int32_t position;
};

struct Store {
  int32_t result;
  int16_t slot;
  DType dtype;
};

struct Constant {
  int16_t slot;
  float value;
};

struct Code {
  int64_t numel = 0;
  int16_t slots = 0;
  std::vector<Constant> constants;  // their slots hold nothing else
  std::vector<Load> loads;          // by position
  std::vector<Instruction> instructions;
  std::vector<Store> stores;  // after all instructions
};

// Runs on both cores if there is enough to do. `operands` and `results` are
// addresses of first elements; a result may lie exactly over a dense operand
// of its item size.
void run(const Code& code, const void* const* operands, void* const* results);

using Kernel = void (*)(float* result,
                        const float* a,
                        const float* b,
                        const float* c);
// By opcode, each for a whole block.
const Kernel* kernels();

}  // namespace neuronx::sim::pointwise
