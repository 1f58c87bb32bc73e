// SPDX-License-Identifier: Apache-2.0
// The instructions on one block. Compiled once per instruction set with ATen's
// own vector classes, so that results are those of ATen's kernels.
#include <ATen/cpu/vec/vec.h>
#include <c10/util/Half.h>

#include <bit>
#include <cmath>

#include "sim/executor/pointwise/code.h"

namespace neuronx::sim::pointwise::NEURONX_ISA {
namespace {

using V = at::vec::Vectorized<float>;

template <typename F>
void map(float* o, F&& f) {
  for (int64_t i = 0; i < kBlock; i += V::size())
    f(i).store(o + i);
}

V load(const float* p, int64_t i) {
  return V::loadu(p + i);
}

// ATen's comparisons give all bits or none; values are 0 or 1 here.
V truth(V mask) {
  return mask & V(1.0f);
}

#define UNARY(name, expression)                                      \
  void name(float* o, const float* pa, const float*, const float*) { \
    map(o, [=](int64_t i) {                                          \
      const V a = load(pa, i);                                       \
      return V(expression);                                          \
    });                                                              \
  }
#define BINARY(name, expression)                                        \
  void name(float* o, const float* pa, const float* pb, const float*) { \
    map(o, [=](int64_t i) {                                             \
      const V a = load(pa, i), b = load(pb, i);                         \
      return V(expression);                                             \
    });                                                                 \
  }
#define TERNARY(name, expression)                                          \
  void name(float* o, const float* pa, const float* pb, const float* pc) { \
    map(o, [=](int64_t i) {                                                \
      const V a = load(pa, i), b = load(pb, i), c = load(pc, i);           \
      return V(expression);                                                \
    });                                                                    \
  }

UNARY(Neg, a.neg())
UNARY(Abs, a.abs())
UNARY(Relu, at::vec::clamp_min(a, V(0.0f)))
UNARY(Exp, a.exp())
UNARY(Exp2, a.exp2())
UNARY(Expm1, a.expm1())
UNARY(Log, a.log())
UNARY(Log1p, a.log1p())
UNARY(Log2, a.log2())
UNARY(Log10, a.log10())
UNARY(Sqrt, a.sqrt())
UNARY(Rsqrt, a.rsqrt())
UNARY(Reciprocal, a.reciprocal())
UNARY(Sin, a.sin())
UNARY(Cos, a.cos())
UNARY(Tan, a.tan())
UNARY(Tanh, a.tanh())
// As ATen's sigmoid_kernel, silu_kernel and GeluKernel.cpp.
UNARY(Sigmoid, (V(1.0f) + (V(0.0f) - a).exp()).reciprocal())
UNARY(Silu, a / (V(1.0f) + a.neg().exp()))
UNARY(Gelu, a* V(0.5f) * (V(1.0f) + (a * V(float(M_SQRT1_2))).erf()))
UNARY(GeluTanh,
      V(0.5f) * a *
          (V(1.0f) + (V(float(M_SQRT2 * M_2_SQRTPI * 0.5)) *
                      (a + V(0.044715f) * a * a * a))
                         .tanh()))
UNARY(Erf, a.erf())
UNARY(Erfc, a.erfc())
UNARY(Floor, a.floor())
UNARY(Ceil, a.ceil())
UNARY(Trunc, a.trunc())
UNARY(Round, a.round())
UNARY(Sign, truth(V(0.0f) < a) - truth(a < V(0.0f)))
UNARY(Not, truth(a == V(0.0f)))
UNARY(IsNan, truth(a != a))
UNARY(ToBool, truth(a != V(0.0f)))
BINARY(Add, a + b)
BINARY(Sub, a - b)
BINARY(Mul, a* b)
BINARY(Div, a / b)
BINARY(Maximum, at::vec::maximum(a, b))
BINARY(Minimum, at::vec::minimum(a, b))
BINARY(Eq, truth(a == b))
BINARY(Ne, truth(a != b))
BINARY(Lt, truth(a < b))
BINARY(Le, truth(a <= b))
BINARY(Gt, truth(a > b))
BINARY(Ge, truth(a >= b))
BINARY(And, truth(a != V(0.0f)) * truth(b != V(0.0f)))
BINARY(Or, at::vec::maximum(truth(a != V(0.0f)), truth(b != V(0.0f))))
BINARY(Pow, a.pow(b))
BINARY(ClampMin, at::vec::clamp_min(a, b))
BINARY(ClampMax, at::vec::clamp_max(a, b))
TERNARY(AddScaled, at::vec::fmadd(b, c, a))
TERNARY(Where, V::blendv(c, b, a != V(0.0f)))

// Round to nearest even, NaN to the quiet one, as c10::BFloat16 does.
void ToBFloat16(float* o, const float* a, const float*, const float*) {
  for (int64_t i = 0; i < kBlock; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(a[i]);
    const uint32_t rounded =
        (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    o[i] = std::bit_cast<float>(nan ? 0x7fc00000u : rounded);
  }
}

void ToFloat16(float* o, const float* a, const float*, const float*) {
  for (int64_t i = 0; i < kBlock; ++i)
    o[i] = static_cast<float>(c10::Half(a[i]));
}

constexpr Kernel kKernels[] = {
#define X(name, operands) &name,
    NEURONX_POINTWISE_OPCODES(X)
#undef X
};

}  // namespace

const Kernel* kernels() {
  return kKernels;
}

}  // namespace neuronx::sim::pointwise::NEURONX_ISA
