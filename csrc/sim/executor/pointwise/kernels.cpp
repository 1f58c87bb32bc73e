// SPDX-License-Identifier: Apache-2.0
// Functions and chains on one block. Compiled once per instruction set with
// ATen's own vector classes, so that results are those of ATen's kernels; of
// tanh they differ by a few units in the last place.
#include <ATen/cpu/vec/vec.h>

#include <algorithm>
#include <cmath>

#include "sim/executor/pointwise/code.h"

namespace neuronx::sim::pointwise::NEURONX_ISA {
namespace {

using V = at::vec::Vectorized<float>;

// Vectors of a chain that are in registers at once: half of AVX2's.
constexpr int64_t kLanes = 8;
static_assert(kBlock % kStrip == 0 && kStrip % (kLanes * V::size()) == 0);

template <typename F>
void map(float* o, int64_t n, F&& f) {
  for (int64_t i = 0; i < n; i += V::size())
    f(i).store(o + i);
}

V load(const float* p, int64_t i) {
  return V::loadu(p + i);
}

// ATen's comparisons give all bits or none; values are 0 or 1 here.
inline V truth(V mask) {
  return mask & V(1.0f);
}

// The rational approximation of XLA and Eigen (coefficients: Eigen 3.3,
// MathFunctionsImpl.h), a third of the time of Sleef's tanh. Within 4e-7 of
// tanh, relatively; odd, and x itself where |x| is small.
inline V tanh(V a) {
  const V x =
      at::vec::clamp(a, V(-7.90531110763549805f), V(7.90531110763549805f));
  const V s = x * x;
  V p = at::vec::fmadd(s, V(-2.76076847742355e-16f), V(2.00018790482477e-13f));
  p = at::vec::fmadd(s, p, V(-8.60467152213735e-11f));
  p = at::vec::fmadd(s, p, V(5.12229709037114e-08f));
  p = at::vec::fmadd(s, p, V(1.48572235717979e-05f));
  p = at::vec::fmadd(s, p, V(6.37261928875436e-04f));
  p = at::vec::fmadd(s, p, V(4.89352455891786e-03f));
  V q = at::vec::fmadd(s, V(1.19825839466702e-06f), V(1.18534705686654e-04f));
  q = at::vec::fmadd(s, q, V(2.26843463243900e-03f));
  q = at::vec::fmadd(s, q, V(4.89352518554385e-03f));
  return V::blendv(x * p / q, a, a.abs() < V(4e-4f));
}

inline V to_bfloat16(V a) {
  return std::get<0>(
      at::vec::convert_bfloat16_float(at::vec::convert_float_bfloat16(a, a)));
}

inline V to_float16(V a) {
  return std::get<0>(
      at::vec::convert_half_float(at::vec::convert_float_half(a, a)));
}

#define UNARY(name, expression)                                   \
  void name(float* o, const float* pa, const float*, int64_t n) { \
    map(o, n, [=](int64_t i) {                                    \
      const V a = load(pa, i);                                    \
      return V(expression);                                       \
    });                                                           \
  }

UNARY(Exp, a.exp())
UNARY(Exp2, a.exp2())
UNARY(Expm1, a.expm1())
UNARY(Log, a.log())
UNARY(Log1p, a.log1p())
UNARY(Log2, a.log2())
UNARY(Log10, a.log10())
UNARY(Sin, a.sin())
UNARY(Cos, a.cos())
UNARY(Tan, a.tan())
// As ATen's sigmoid_kernel, silu_kernel and GeluKernel.cpp.
UNARY(Sigmoid, (V(1.0f) + (V(0.0f) - a).exp()).reciprocal())
UNARY(Silu, a / (V(1.0f) + a.neg().exp()))
UNARY(Gelu, a* V(0.5f) * (V(1.0f) + (a * V(float(M_SQRT1_2))).erf()))
// x sigmoid(2u) is x (1 + tanh u) / 2 without its cancellation.
UNARY(GeluTanh,
      a / (V(1.0f) +
           (V(float(-M_SQRT2 * M_2_SQRTPI)) * (a + V(0.044715f) * a * a * a))
               .exp()))
UNARY(Erf, a.erf())
UNARY(Erfc, a.erfc())

void Pow(float* o, const float* pa, const float* pb, int64_t n) {
  map(o, n, [=](int64_t i) { return load(pa, i).pow(load(pb, i)); });
}

constexpr Kernels::Function kFunctions[] = {
#define X(name, operands) &name,
    NEURONX_POINTWISE_FUNCTIONS(X)
#undef X
};

// The values of a chain that are in registers. Named, not an array: an array
// would be in memory.
struct Values {
  V v0, v1, v2, v3, v4, v5, v6, v7;

  // Sets each value to f(value, offset from the first).
  template <typename F>
  [[gnu::always_inline]] void each(F&& f) {
    constexpr int64_t n = V::size();
    v0 = f(v0, 0), v1 = f(v1, n), v2 = f(v2, 2 * n), v3 = f(v3, 3 * n);
    v4 = f(v4, 4 * n), v5 = f(v5, 5 * n), v6 = f(v6, 6 * n), v7 = f(v7, 7 * n);
  }
};

// values = second(first(values, b), c), each of b and c numbers or one number.
template <typename F, typename G>
[[gnu::always_inline]] inline void pair(
    Values& values, const Step& step, int64_t i, F&& first, G&& second) {
  const float *pb = step.b, *pc = step.c;
  const V number(step.number), last(step.second);
  if (pb && pc)
    values.each([&](V a, int64_t k) {
      return second(first(a, load(pb, i + k)), load(pc, i + k));
    });
  else if (pb)
    values.each([&](V a, int64_t k) {
      return second(first(a, load(pb, i + k)), last);
    });
  else if (pc)
    values.each([&](V a, int64_t k) {
      return second(first(a, number), load(pc, i + k));
    });
  else
    values.each([&](V a, int64_t) { return second(first(a, number), last); });
}

void chain(float* result,
           const float* first,
           const Step* steps,
           int32_t count,
           int64_t n) {
  const Step* end = steps + count;
  for (int64_t i = 0; i < n; i += kLanes * V::size()) {
    Values values;
    values.each([&](V, int64_t k) { return load(first, i + k); });
    for (const Step* step = steps; step != end; ++step) {
      const float *pb = step->b, *pc = step->c;
      switch (step->opcode) {
#define CASE_1(expression) \
  values.each([&](V a, int64_t) { return expression; });
#define CASE_2(expression)                                 \
  if (pb) {                                                \
    values.each([&](V a, int64_t k) {                      \
      const V b = load(pb, i + k);                         \
      return expression;                                   \
    });                                                    \
  } else {                                                 \
    const V b(step->number);                               \
    values.each([&](V a, int64_t) { return expression; }); \
  }
#define CASE_3(expression)                            \
  values.each([&](V a, int64_t k) {                   \
    const V b = load(pb, i + k), c = load(pc, i + k); \
    return expression;                                \
  });
#define X(name, operands, expression) \
  case Opcode::name:                  \
    CASE_##operands(expression) break;
        NEURONX_POINTWISE_STEPS(X)
#undef X
#define PAIR(name, first, second)                          \
  case Opcode::name:                                       \
    pair(                                                  \
        values,                                            \
        *step,                                             \
        i,                                                 \
        [](V a, V b) { return first; },                    \
        [](V a, [[maybe_unused]] V b) { return second; }); \
    break;
#define X(add, sub, mul, relu, first) \
  PAIR(add, first, a + b)             \
  PAIR(sub, first, a - b)             \
  PAIR(mul, first, a* b)              \
  PAIR(relu, first, at::vec::clamp_min(a, V(0.0f)))
        NEURONX_POINTWISE_PAIRS(X)
#undef X
        default:
          __builtin_unreachable();
      }
      if (float* keep = step->keep)
        values.each([&](V a, int64_t k) {
          a.store(keep + i + k);
          return a;
        });
    }
    values.each([&](V a, int64_t k) {
      a.store(result + i + k);
      return a;
    });
  }
}

// Of `map` of each number: four accumulators of vectors, then their lanes, then
// the rest.
template <typename F, typename G, typename Map>
float reduce(
    const float* a, int64_t n, float start, F&& vector, G&& number, Map&& map) {
  V sums[4] = {V(start), V(start), V(start), V(start)};
  int64_t i = 0;
  for (; i + 4 * V::size() <= n; i += 4 * V::size())
    for (int64_t k = 0; k < 4; ++k)
      sums[k] = vector(sums[k], map(load(a, i + k * V::size())));
  float lanes[V::size()];
  vector(vector(sums[0], sums[1]), vector(sums[2], sums[3])).store(lanes);
  float result = start;
  for (float lane : lanes)
    result = number(result, lane);
  for (; i < n; ++i)
    result = number(result, map(a[i]));
  return result;
}

constexpr auto kPlus = [](auto x, auto y) { return x + y; };
constexpr auto kSame = [](auto x) { return x; };

float sum(const float* a, int64_t n) {
  return reduce(a, n, 0, kPlus, kPlus, kSame);
}

// In two passes over what the first-level cache holds. Relative to a number of
// theirs, equal numbers have that mean exactly.
void moments(const float* a, int64_t n, double* mean, double* squares) {
  const float first = a[0];
  const float sum = reduce(
      a, n, 0, kPlus, kPlus, [&](auto x) { return x - decltype(x)(first); });
  *mean = double(first) + double(sum) / double(n);
  const auto middle = static_cast<float>(*mean);
  const float total = reduce(a, n, 0, kPlus, kPlus, [&](auto x) {
    const auto apart = x - decltype(x)(middle);
    return apart * apart;
  });
  // Less what the mean's rounding adds; NaN stays.
  const double rest = *mean - double(middle);
  const double less = double(total) - double(n) * rest * rest;
  *squares = less < 0 ? 0 : less;
}

// NaN is greater and less than all.
float maximum(const float* a, int64_t n) {
  return reduce(
      a,
      n,
      -INFINITY,
      [](V x, V y) { return at::vec::maximum(x, y); },
      [](float x, float y) { return y > x || y != y ? y : x; },
      kSame);
}

float minimum(const float* a, int64_t n) {
  return reduce(
      a,
      n,
      INFINITY,
      [](V x, V y) { return at::vec::minimum(x, y); },
      [](float x, float y) { return y < x || y != y ? y : x; },
      kSame);
}

auto widen(const at::vec::Vectorized<c10::BFloat16>& x) {
  return at::vec::convert_bfloat16_float(x);
}
auto widen(const at::vec::Vectorized<c10::Half>& x) {
  return at::vec::convert_half_float(x);
}

template <typename T>
void load_as(float* o, const void* from, int64_t n) {
  using Narrow = at::vec::Vectorized<T>;
  const T* p = static_cast<const T*>(from);
  int64_t i = 0;
  for (; i + Narrow::size() <= n; i += Narrow::size()) {
    const auto [a, b] = widen(Narrow::loadu(p + i));
    a.store(o + i);
    b.store(o + i + V::size());
  }
  if (i == n)
    return;
  const auto [a, b] = widen(Narrow::loadu(p + i, n - i));
  const int64_t first = std::min<int64_t>(n - i, V::size());
  a.store(o + i, first);
  if (first < n - i)
    b.store(o + i + first, n - i - first);
}

// The numbers are rounded to T already.
template <typename T, typename F>
void store_as(void* to, const float* p, int64_t n, F&& narrow) {
  T* o = static_cast<T*>(to);
  constexpr int64_t size = at::vec::Vectorized<T>::size();
  int64_t i = 0;
  for (; i + size <= n; i += size)
    narrow(load(p, i), load(p, i + V::size())).store(o + i);
  for (; i < n; ++i)
    o[i] = static_cast<T>(p[i]);
}

void store_bfloat16(void* to, const float* p, int64_t n) {
  store_as<c10::BFloat16>(
      to, p, n, [](V a, V b) { return at::vec::convert_float_bfloat16(a, b); });
}

void store_float16(void* to, const float* p, int64_t n) {
  store_as<c10::Half>(
      to, p, n, [](V a, V b) { return at::vec::convert_float_half(a, b); });
}

}  // namespace

const Kernels& kernels() {
  static constexpr Kernels all{kFunctions,
                               &chain,
                               &sum,
                               &moments,
                               &maximum,
                               &minimum,
                               &load_as<c10::BFloat16>,
                               &load_as<c10::Half>,
                               &store_bfloat16,
                               &store_float16};
  return all;
}

}  // namespace neuronx::sim::pointwise::NEURONX_ISA
