// SPDX-License-Identifier: Apache-2.0
// Bessel and Airy functions. How the domains are split follows Cephes (S. L.
// Moshier, netlib.org/cephes), as ATen does.
#include <cmath>

#include "lowering/formula.h"

namespace neuronx::lowering {
namespace {

constexpr double kTwoOverPi = 2 / M_PI;

Term i0e(Term x) {
  const Term a = abs(x);
  const Term large = chebyshev(8 / a, kI0Large) / sqrt(a);
  return where(a <= 8, chebyshev(a, kI0Small), large);
}

Term i1e(Term x) {
  const Term a = abs(x);
  const Term large = chebyshev(8 / a, kI1Large) / sqrt(a);
  const Term value = where(a <= 8, chebyshev(a, kI1Small) * a, large);
  return where(x < 0, -value, value);
}

Term i0(Term x) {
  return exp(abs(x)) * i0e(x);
}

Term i1(Term x) {
  return exp(abs(x)) * i1e(x);
}

// At 0 infinite, below it undefined.
Term of_positive(Term x, Term value, double at_zero) {
  return where(x == 0, at_zero, where(x < 0, NAN, value));
}

Term k0(Term x, bool scaled) {
  const Term small = chebyshev(x * x, kK0Small) - log(x * 0.5) * i0(x);
  const Term large = chebyshev(2 / x, kK0Large) / sqrt(x);
  const Term value = scaled ? where(x <= 2, small * exp(x), large)
                            : where(x <= 2, small, large * exp(-x));
  return of_positive(x, value, INFINITY);
}

Term k1(Term x, bool scaled) {
  const Term small = chebyshev(x * x, kK1Small) / x + log(x * 0.5) * i1(x);
  const Term large = chebyshev(2 / x, kK1Large) / sqrt(x);
  const Term value = scaled ? where(x <= 2, small * exp(x), large)
                            : where(x <= 2, small, large * exp(-x));
  return of_positive(x, value, INFINITY);
}

// Hankel's form for x > 5, and a series in x^2 below.
struct Hankel {
  Term sine, cosine, p, q, scale;
};
Hankel hankel(Term x, double shift, const Series& p, const Series& q) {
  const Term z = 25 / (x * x), c = x - shift;
  return {sin(c),
          cos(c),
          chebyshev(z, p),
          chebyshev(z, q) / x,
          sqrt(kTwoOverPi / x)};
}

Term j0(Term x) {
  const Term a = abs(x);
  const auto h = hankel(a, M_PI_4, kP0, kQ0);
  const Term large = h.scale * (h.p * h.cosine - h.q * h.sine);
  return where(a <= 5, chebyshev(x * x, kJ0Small), large);
}

Term j1(Term x) {
  const Term a = abs(x);
  const auto h = hankel(a, 3 * M_PI_4, kP1, kQ1);
  const Term large = h.scale * (h.p * h.cosine - h.q * h.sine);
  return where(
      a <= 5, chebyshev(x * x, kJ1Small) * x, where(x < 0, -large, large));
}

Term y0(Term x) {
  const auto h = hankel(x, M_PI_4, kP0, kQ0);
  const Term large = h.scale * (h.p * h.sine + h.q * h.cosine);
  const Term small = chebyshev(x * x, kY0Small) +
                     kTwoOverPi * log(x) * chebyshev(x * x, kJ0Small);
  return of_positive(x, where(x <= 5, small, large), -INFINITY);
}

Term y1(Term x) {
  const auto h = hankel(x, 3 * M_PI_4, kP1, kQ1);
  const Term large = h.scale * (h.p * h.sine + h.q * h.cosine);
  const Term j = chebyshev(x * x, kJ1Small) * x;
  const Term small =
      chebyshev(x * x, kY1Small) * x + kTwoOverPi * (log(x) * j - 1 / x);
  return of_positive(x, where(x <= 5, small, large), -INFINITY);
}

Term spherical_j0(Term x) {
  constexpr double c[] = {1, -1 / 6., 1 / 120., -1 / 5040., 1 / 362880.};
  const Term a = abs(x);
  const Term value = where(a < 0.5, polynomial(x * x, c), sin(x) / x);
  return where(a == INFINITY, 0, value);
}

// Undefined at infinity, as ATen's.
Term airy_ai(Term x) {
  const Term a = abs(x);
  const Term root = sqrt(a), zeta = a * root * (2 / 3.);
  const Term size = 1 / sqrt(root), inverse = 1 / zeta;
  const Term c = zeta + M_PI_4, w = inverse * inverse;
  const Term wave =
      chebyshev(w, kAiryP) * sin(c) - chebyshev(w, kAiryQ) * inverse * cos(c);
  const Term below = size * wave * (1 / std::sqrt(M_PI));
  const Term above = size * chebyshev(inverse, kAiryPositive) * exp(-zeta);
  const Term outside = where(x < 0, below, above);
  const Term value = where(a <= 2.09, chebyshev(x, kAiryMiddle), outside);
  return where(a == INFINITY, NAN, value);
}

const bool registered = [] {
  lower_formula("i0", &i0, true);
  lower_formula("special_i0e", &i0e, true);
  lower_formula("special_i1", &i1, false);
  lower_formula("special_i1e", &i1e, false);
  lower_formula("special_modified_bessel_i0", &i0, false);
  lower_formula("special_modified_bessel_i1", &i1, false);
  lower_formula(
      "special_modified_bessel_k0", [](Term x) { return k0(x, false); }, false);
  lower_formula(
      "special_modified_bessel_k1", [](Term x) { return k1(x, false); }, false);
  lower_formula(
      "special_scaled_modified_bessel_k0",
      [](Term x) { return k0(x, true); },
      false);
  lower_formula(
      "special_scaled_modified_bessel_k1",
      [](Term x) { return k1(x, true); },
      false);
  lower_formula("special_bessel_j0", &j0, false);
  lower_formula("special_bessel_j1", &j1, false);
  lower_formula("special_bessel_y0", &y0, false);
  lower_formula("special_bessel_y1", &y1, false);
  lower_formula("special_spherical_bessel_j0", &spherical_j0, false);
  lower_formula("special_airy_ai", &airy_ai, false);
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
