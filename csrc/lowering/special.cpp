// SPDX-License-Identifier: Apache-2.0
// The error function's relatives, and the parts of a float.
#include <cmath>

#include "lowering/formula.h"

namespace neuronx::lowering {
namespace {

// exp(x^2) erfc(x)
Term erfcx(Term x) {
  const Term a = abs(x);
  // Of (a - 3.75) / (a + 3.75), written so that infinity gives 1.
  const Term t = 1 - 7.5 / (a + 3.75);
  const Term value = chebyshev(t, kErfcx) / (2 * a + 1);
  return where(x < 0, 2 * exp(x * x) - value, value);
}

// The logarithm of the normal distribution's cumulative function.
Term log_ndtr(Term x) {
  const Term t = x * M_SQRT1_2;
  const Term below = log(erfcx(-t) * 0.5) - t * t;
  return where(x < -1, below, log1p(-(t.chlo("erfc") * 0.5)));
}

// The normal distribution's quantile; p near 1 by the tail of 1 - p.
Term ndtri(Term p) {
  constexpr double kTail = 0.13;
  const Term u = p - 0.5;
  const Term middle = u * chebyshev(u * u, kQuantileMiddle);
  const Term upper = p > 0.5;
  const Term tail = where(upper, 1 - p, p);
  const Term s = sqrt(-2 * log(tail)), z = 1 / s;
  const Term size = s - log(s) * z - z * chebyshev(z, kQuantileTail);
  const Term outer = where(upper, size, -size);
  const Term value = where(tail > kTail, middle, outer);
  const Term ends = where(
      p == 0, p.like(-INFINITY), where(p == 1, p.like(INFINITY), p.like(NAN)));
  return where((p > 0) & (p < 1), value, ends);
}

// The n-th derivative of cot(t) as a polynomial of cot(t), lowest power first:
// that of cot is -1 - cot^2.
std::vector<double> cotangent_derivative(int64_t n) {
  std::vector<double> p{0, 1};
  for (; n > 0; --n) {
    std::vector<double> next(p.size() + 1);
    for (size_t i = 1; i < p.size(); ++i) {
      next[i - 1] -= static_cast<double>(i) * p[i];
      next[i + 1] -= static_cast<double>(i) * p[i];
    }
    p = std::move(next);
  }
  return p;
}

// XLA's has no value at the pole in zero, whose side its sign tells.
Term digamma(Term x) {
  return where(x == 0, -1 / x, x.chlo("digamma"));
}

// The n-th derivative of digamma. XLA's holds for x > 0; below, by reflection:
// d^n/dx^n of psi(1 - x) - psi(x) = pi cot(pi x).
Values polygamma(Op& op) {
  auto& b = op.b;
  const int64_t n = op.integer(0);
  const Term x{&b, op.in(1, float_math(op.type(1).dtype))};
  if (n == 0) {
    return {digamma(x)};
  }
  const Term negative = x < 0;
  const Term size = where(negative, 1 - x, x);
  const Term above{&b,
                   b.chlo("polygamma", x.like(static_cast<double>(n)), size)};
  const Term t = (x - floor(x + 0.5)) * M_PI;
  const Term reflection = polynomial(cos(t) / sin(t), cotangent_derivative(n)) *
                          std::pow(M_PI, static_cast<double>(n + 1));
  const Term sign = x.like(n % 2 ? -1 : 1);
  return {where(negative, sign * above - reflection, above)};
}

Term angle(Term x) {
  return where(x != x, x, where(x < 0, x.like(M_PI), x.like(0)));
}

// Mantissa of magnitude [0.5, 1) and exponent, by the bits of float32. Zeros,
// infinities and NaN are their own mantissa.
Values frexp(Op& op) {
  auto& b = op.b;
  if (op.type(0).dtype == DType::Float64) {
    throw Unsupported("the bits of float64");
  }
  const Value x = op.in(0, DType::Float32);
  const Term bits{&b, b.bitcast(x, DType::Int32)};
  const auto with = [&](const char* op, Term y, int64_t mask) {
    const Value other = b.constant(DType::Int32, mask, b.shape(y));
    return Term{&b, b.binary(op, y, other)};
  };
  const auto exponent = [&](Term y) {
    return with("and", with("shift_right_logical", y, 23), 0xff);
  };
  // A denormal number is its last 23 bits, times 2^-149.
  const Term sign = with("and", bits, INT32_MIN);
  const Term size{&b, b.convert(with("and", bits, 0x7fffff), DType::Float32)};
  const Term scaled{&b, b.binary("or", b.bitcast(size, DType::Int32), sign)};
  const Term denormal = exponent(bits) == 0;
  const Term normal = where(denormal, scaled, bits);
  const Term fraction =
      with("or", with("and", normal, ~int64_t{0x7f800000}), 0x3f000000);
  const Term number{&b, x};
  const Term zero = with("and", bits, INT32_MAX) == 0;
  const Term plain = zero | (exponent(bits) == 255);
  const Term mantissa{&b, b.bitcast(fraction, DType::Float32)};
  const Term power =
      where(denormal, exponent(normal) - (126 + 149), exponent(normal) - 126);
  return {where(plain, number, mantissa), where(plain, 0, power)};
}

const bool registered = [] {
  lower_formula("special_erfcx", &erfcx, false);
  lower_formula("special_log_ndtr", &log_ndtr, false);
  lower_formula("special_ndtri", &ndtri, false);
  lower_formula("angle", &angle, true);
  lower_formula("digamma", &digamma, true);
  lower("aten::frexp.Tensor", &frexp);
  lower("aten::polygamma", &polygamma);
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
