// SPDX-License-Identifier: Apache-2.0
// Integers with XLA's semantics, which C++ and ATen leave undefined or lack:
// division by zero, shifts by too much, unsigned types.
#include <ATen/ExpandUtils.h>
#include <ATen/ops/empty_like.h>

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>
#include <type_traits>

#include "sim/executor/interpreter.h"

namespace neuronx::sim {
namespace {

// Calls f with a value of the C++ type.
template <typename F>
void with_integer(at::ScalarType type, F f) {
  switch (type) {
    case at::kBool:
      return f(bool{});
    case at::kByte:
      return f(uint8_t{});
    case at::kChar:
      return f(int8_t{});
    case at::kUInt16:
      return f(uint16_t{});
    case at::kShort:
      return f(int16_t{});
    case at::kUInt32:
      return f(uint32_t{});
    case at::kInt:
      return f(int32_t{});
    case at::kUInt64:
      return f(uint64_t{});
    case at::kLong:
      return f(int64_t{});
    default:
      throw std::runtime_error("expected an integer dtype");
  }
}

template <typename T>
const T* data(const at::Tensor& x) {
  return static_cast<const T*>(x.const_data_ptr());
}

template <typename T>
T* mutable_data(const at::Tensor& x) {
  return static_cast<T*>(x.mutable_data_ptr());
}

// Operands of one shape, row-major.
std::pair<at::Tensor, at::Tensor> aligned(const at::Tensor& a,
                                          const at::Tensor& b) {
  if (a.sizes() == b.sizes())
    return {a.contiguous(), b.contiguous()};
  const auto shape = at::infer_size(a.sizes(), b.sizes());
  const auto dense = [&](const at::Tensor& x) {
    return from_carrier(carrier(x).expand(shape).contiguous(), x.scalar_type());
  };
  return {dense(a), dense(b)};
}

template <typename T>
struct Ops {
  using U = std::make_unsigned_t<T>;
  // Arithmetic that wraps; small types would be promoted to int otherwise.
  using W = std::conditional_t<(sizeof(T) < 4), uint32_t, U>;
  static constexpr int kBits = sizeof(T) * 8;
  static constexpr bool kSigned = std::is_signed_v<T>;

  static T add(T a, T b) { return T(W(a) + W(b)); }
  static T subtract(T a, T b) { return T(W(a) - W(b)); }
  static T multiply(T a, T b) { return T(W(a) * W(b)); }
  static bool overflows(T a, T b) {
    return kSigned && a == std::numeric_limits<T>::min() && b == T(-1);
  }
  static T divide(T a, T b) {
    return b == 0 ? T(-1) : overflows(a, b) ? a : T(a / b);
  }
  static T remainder(T a, T b) {
    return b == 0 ? a : overflows(a, b) ? T(0) : T(a % b);
  }
  static T maximum(T a, T b) { return a > b ? a : b; }
  static T minimum(T a, T b) { return a < b ? a : b; }
  static T bit_and(T a, T b) { return T(a & b); }
  static T bit_or(T a, T b) { return T(a | b); }
  static T bit_xor(T a, T b) { return T(a ^ b); }
  static bool in_range(T b) { return U(b) < U(kBits); }
  static T shift_left(T a, T b) { return in_range(b) ? T(W(a) << b) : T(0); }
  static T shift_right_logical(T a, T b) {
    return in_range(b) ? T(U(a) >> b) : T(0);
  }
  static T shift_right_arithmetic(T a, T b) {
    using S = std::make_signed_t<T>;
    return in_range(b) ? T(S(a) >> b) : T(S(a) < 0 ? -1 : 0);
  }
  // Exponents below zero round towards zero.
  static T power(T a, T b) {
    if constexpr (kSigned)
      if (b < 0)
        return a == 1 ? T(1) : a == T(-1) ? (b & 1 ? T(-1) : T(1)) : T(0);
    W result = 1, base = W(a);
    for (U n = U(b); n; n >>= 1) {
      if (n & 1)
        result *= base;
      base *= base;
    }
    return T(result);
  }
  static T abs(T a, T) { return a < 0 ? T(W(0) - W(a)) : a; }
  static T negate(T a, T) { return T(W(0) - W(a)); }
  static T sign(T a, T) { return a > 0 ? T(1) : a < 0 ? T(-1) : T(0); }
  static T bit_not(T a, T) { return T(~a); }
  static T popcnt(T a, T) { return T(std::popcount(U(a))); }
  static T count_leading_zeros(T a, T) { return T(std::countl_zero(U(a))); }
};

template <typename T>
using Function = T (*)(T, T);

template <typename T>
Function<T> find(std::string_view name) {
  using O = Ops<T>;
  static const std::map<std::string_view, Function<T>> kTable{
      {"add", O::add},
      {"subtract", O::subtract},
      {"multiply", O::multiply},
      {"divide", O::divide},
      {"remainder", O::remainder},
      {"maximum", O::maximum},
      {"minimum", O::minimum},
      {"and", O::bit_and},
      {"or", O::bit_or},
      {"xor", O::bit_xor},
      {"shift_left", O::shift_left},
      {"shift_right_logical", O::shift_right_logical},
      {"shift_right_arithmetic", O::shift_right_arithmetic},
      {"power", O::power},
      {"abs", O::abs},
      {"negate", O::negate},
      {"sign", O::sign},
      {"not", O::bit_not},
      {"popcnt", O::popcnt},
      {"count_leading_zeros", O::count_leading_zeros},
  };
  return kTable.at(name);
}

template <>
Function<bool> find<bool>(std::string_view name) {
  static const std::map<std::string_view, Function<bool>> kTable{
      {"add", [](bool a, bool b) { return a || b; }},
      {"or", [](bool a, bool b) { return a || b; }},
      {"maximum", [](bool a, bool b) { return a || b; }},
      {"multiply", [](bool a, bool b) { return a && b; }},
      {"and", [](bool a, bool b) { return a && b; }},
      {"minimum", [](bool a, bool b) { return a && b; }},
      {"xor", [](bool a, bool b) { return a != b; }},
      {"not", [](bool a, bool) { return !a; }},
  };
  return kTable.at(name);
}

template <typename T>
bool compare(std::string_view direction, T a, T b) {
  switch (direction[0]) {
    case 'E':
      return a == b;
    case 'N':
      return a != b;
    case 'L':
      return direction[1] == 'T' ? a < b : a <= b;
    default:
      return direction[1] == 'T' ? a > b : a >= b;
  }
}

// Saturates, NaN becomes 0.
template <typename To>
To from_double(double x) {
  if (std::isnan(x))
    return To(0);
  constexpr double low = double(std::numeric_limits<To>::min());
  constexpr double high = double(std::numeric_limits<To>::max());
  if (x <= low)
    return std::numeric_limits<To>::min();
  if (x >= high)
    return std::numeric_limits<To>::max();
  return To(x);
}

// From float64, float32 or an integer to anything of those.
template <typename To, typename From>
To convert_one(From x) {
  if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>)
    return from_double<To>(double(x));
  else
    return To(x);
}

template <typename From, typename To>
void convert_all(const at::Tensor& from, const at::Tensor& to) {
  const From* source = data<From>(from);
  To* target = mutable_data<To>(to);
  for (int64_t i = 0; i < to.numel(); ++i)
    target[i] = convert_one<To>(source[i]);
}

template <typename From>
void convert_from(const at::Tensor& from, const at::Tensor& to) {
  if (to.scalar_type() == at::kFloat)
    return convert_all<From, float>(from, to);
  if (to.scalar_type() == at::kDouble)
    return convert_all<From, double>(from, to);
  with_integer(to.scalar_type(),
               [&](auto zero) { convert_all<From, decltype(zero)>(from, to); });
}

}  // namespace

at::Tensor integer_binary(std::string_view name,
                          const at::Tensor& a,
                          const at::Tensor& b) {
  const auto [x, y] = aligned(a, b);
  at::Tensor result = at::empty_like(x);
  with_integer(x.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const Function<T> f = find<T>(name);
    const T *p = data<T>(x), *q = data<T>(y);
    T* r = mutable_data<T>(result);
    for (int64_t i = 0; i < result.numel(); ++i)
      r[i] = f(p[i], q[i]);
  });
  return result;
}

at::Tensor integer_compare(std::string_view direction,
                           const at::Tensor& a,
                           const at::Tensor& b) {
  const auto [x, y] = aligned(a, b);
  at::Tensor result = at::empty_like(x, x.options().dtype(at::kBool));
  with_integer(x.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const T *p = data<T>(x), *q = data<T>(y);
    bool* r = mutable_data<bool>(result);
    for (int64_t i = 0; i < result.numel(); ++i)
      r[i] = compare<T>(direction, p[i], q[i]);
  });
  return result;
}

at::Tensor convert_integer(const at::Tensor& x, at::ScalarType dtype) {
  // Rounding twice is harmless only from types that float64 holds exactly,
  // which all but 64-bit integers are.
  if (dtype != at::kFloat && dtype != at::kDouble &&
      !c10::isIntegralType(dtype, true)) {
    const auto middle =
        x.scalar_type() == at::kUInt64 ? at::kFloat : at::kDouble;
    if (x.scalar_type() == at::kLong || c10::isComplexType(dtype))
      return x.to(dtype);
    return convert_integer(x, middle).to(dtype);
  }
  const at::Tensor from = widen(x).contiguous();
  at::Tensor to = at::empty_like(from, from.options().dtype(dtype));
  if (from.scalar_type() == at::kFloat)
    convert_from<float>(from, to);
  else if (from.scalar_type() == at::kDouble)
    convert_from<double>(from, to);
  else
    with_integer(from.scalar_type(),
                 [&](auto zero) { convert_from<decltype(zero)>(from, to); });
  return to;
}

}  // namespace neuronx::sim
