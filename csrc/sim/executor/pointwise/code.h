// SPDX-License-Identifier: Apache-2.0
// Code: a pointwise region as instructions over blocks of float32 numbers that
// stay in the first-level cache, and within chains of cheap operators in
// registers. bfloat16 and float16 values are rounded after each operator as
// ATen rounds them; bool is 0 or 1.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/program.h"

namespace neuronx::sim::pointwise {

// Numbers of one block. With a dozen live blocks this fills 48 KiB.
inline constexpr int64_t kBlock = 1024;
// Functions and chains work on multiples of it: a chain's registers of AVX-512.
inline constexpr int64_t kStrip = 128;

// Functions: each a kernel of its own over a block. name, operands
// clang-format off
#define NEURONX_POINTWISE_FUNCTIONS(X)                                      \
  X(Exp, 1) X(Exp2, 1) X(Expm1, 1) X(Log, 1) X(Log1p, 1) X(Log2, 1)         \
  X(Log10, 1) X(Sin, 1) X(Cos, 1) X(Tan, 1) X(Sigmoid, 1) X(Silu, 1)        \
  X(Gelu, 1) X(GeluTanh, 1) X(Erf, 1) X(Erfc, 1) X(Pow, 2)
// Steps of a chain, in which a value goes from one to the next in registers.
// name, operands, expression of the value `a` that is passed on, `b` and `c`
#define NEURONX_POINTWISE_STEPS(X)                                          \
  X(Neg, 1, a.neg())                                                        \
  X(Abs, 1, a.abs())                                                        \
  X(Relu, 1, at::vec::clamp_min(a, V(0.0f)))                                \
  X(Sqrt, 1, a.sqrt())                                                      \
  X(Rsqrt, 1, a.rsqrt())                                                    \
  X(Reciprocal, 1, a.reciprocal())                                          \
  X(Square, 1, a * a)                                                       \
  X(Tanh, 1, tanh(a))                                                       \
  X(Floor, 1, a.floor())                                                    \
  X(Ceil, 1, a.ceil())                                                      \
  X(Trunc, 1, a.trunc())                                                    \
  X(Round, 1, a.round())                                                    \
  X(Sign, 1, truth(V(0.0f) < a) - truth(a < V(0.0f)))                       \
  X(Not, 1, truth(a == V(0.0f)))                                            \
  X(IsNan, 1, truth(a != a))                                                \
  X(ToBool, 1, truth(a != V(0.0f)))                                         \
  X(ToBFloat16, 1, to_bfloat16(a))                                          \
  X(ToFloat16, 1, to_float16(a))                                            \
  X(Add, 2, a + b)                                                          \
  X(Sub, 2, a - b)                                                          \
  X(SubFrom, 2, b - a)                                                      \
  X(Mul, 2, a * b)                                                          \
  X(Div, 2, a / b)                                                          \
  X(DivInto, 2, b / a)                                                      \
  X(Maximum, 2, at::vec::maximum(a, b))                                     \
  X(Minimum, 2, at::vec::minimum(a, b))                                     \
  X(ClampMin, 2, at::vec::clamp_min(a, b))                                  \
  X(ClampMax, 2, at::vec::clamp_max(a, b))                                  \
  X(Eq, 2, truth(a == b))                                                   \
  X(Ne, 2, truth(a != b))                                                   \
  X(Lt, 2, truth(a < b))                                                    \
  X(Le, 2, truth(a <= b))                                                   \
  X(Gt, 2, truth(a > b))                                                    \
  X(Ge, 2, truth(a >= b))                                                   \
  X(And, 2, truth(a != V(0.0f)) * truth(b != V(0.0f)))                      \
  X(Or, 2, at::vec::maximum(truth(a != V(0.0f)), truth(b != V(0.0f))))      \
  X(AddScaled, 3, at::vec::fmadd(b, c, a))                                  \
  X(ScaleAdd, 3, at::vec::fmadd(a, b, c))                                   \
  X(Where, 3, V::blendv(c, b, a != V(0.0f)))                                \
  X(WhereThen, 3, V::blendv(c, a, b != V(0.0f)))                            \
  X(WhereElse, 3, V::blendv(a, c, b != V(0.0f)))
// Two steps in one, which are half of all in layers and optimizers: the second
// takes `c` where the first takes `b`, and adds, subtracts, multiplies, or is
// Relu. names, expression of the first
#define NEURONX_POINTWISE_PAIRS(X)                                          \
  X(AddAdd, AddSub, AddMul, AddRelu, a + b)                                 \
  X(SubAdd, SubSub, SubMul, SubRelu, a - b)                                 \
  X(MulAdd, MulSub, MulMul, MulRelu, a * b)
// clang-format on

enum class Opcode : uint8_t {
#define X(name, ...) name,
  NEURONX_POINTWISE_FUNCTIONS(X) NEURONX_POINTWISE_STEPS(X)
#undef X
#define X(add, sub, mul, relu, ...) add, sub, mul, relu,
      NEURONX_POINTWISE_PAIRS(X)
#undef X
};

constexpr bool is_function(Opcode opcode) {
  return opcode < Opcode::Neg;
}

constexpr bool is_pair(Opcode opcode) {
  return opcode >= Opcode::AddAdd;
}

// One step of a chain. Slots that are not needed are -1.
struct Link {
  Opcode opcode;
  bool is_number;  // b is `number` and not a slot
  int16_t b, c;
  int16_t keep;  // where the value is stored besides
  float number;
  float second = 0;  // of a pair without slot c
};

// A function: result = opcode(a, b). A chain: the value of slot a goes through
// the links that follow those of the chain before, the last value to result.
struct Instruction {
  Opcode opcode;  // of functions
  int16_t result, a, b;
  int32_t links = 0;  // of chains
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
  // Lower bits of an unsigned word that are dropped.
  int8_t shift = 0;
};

// Of a row.
// Variance: of the population.
enum class Reduction : uint8_t { None, Sum, Mean, Variance, Max, Min };

struct Store {
  int32_t result;
  int16_t slot;
  DType dtype;
  Reduction reduction = Reduction::None;
};

struct Constant {
  int16_t slot;
  float value;
};

struct Code {
  int64_t numel = 0;
  // Numbers of one row, which reductions reduce to one; 0 without reductions.
  int64_t columns = 0;
  int16_t slots = 0;
  std::vector<Constant> constants;  // their slots hold nothing else
  std::vector<Load> loads;          // by position
  std::vector<Instruction> instructions;
  std::vector<Link> links;
  std::vector<Store> stores;  // after all instructions
};

// Codes that run one after the other on some rows at a time, so that what one
// writes is in the cache when the next reads it. A code has as many numbers as
// there are rows, or `columns` for each.
struct Stack {
  int64_t rows = 0, columns = 0;
  std::vector<Code> stages;
};

// Runs on all cores if there is enough to do. `operands` and `results` are
// addresses of first elements. A result may lie exactly over a dense operand of
// its item size, each number of which is read for the one in its place alone,
// and not by a later stage.
void run(const Stack& stack, const void* const* operands, void* const* results);

// A link on one block.
struct Step {
  Opcode opcode;
  float number, second;
  const float *b, *c;  // null: `number`; of a pair `second`
  float* keep;         // or null
};

// What one instruction set has to offer. n is a multiple of kStrip in functions
// and chains. `result` may be an operand; what is kept may not.
struct Kernels {
  using Function = void (*)(float* result,
                            const float* a,
                            const float* b,
                            int64_t n);
  const Function* functions;  // by opcode
  void (*chain)(float* result,
                const float* a,
                const Step* steps,
                int32_t count,
                int64_t n);
  float (*sum)(const float* a, int64_t n);
  // The mean, and the sum of the squared differences from it.
  void (*moments)(const float* a, int64_t n, double* mean, double* squares);
  float (*maximum)(const float* a, int64_t n);
  float (*minimum)(const float* a, int64_t n);
  // Any n.
  void (*load_bfloat16)(float* result, const void* from, int64_t n);
  void (*load_float16)(float* result, const void* from, int64_t n);
  void (*store_bfloat16)(void* result, const float* from, int64_t n);
  void (*store_float16)(void* result, const float* from, int64_t n);
};
const Kernels& kernels();

}  // namespace neuronx::sim::pointwise
