// SPDX-License-Identifier: Apache-2.0
// The regularised incomplete gamma functions, with ATen's choice of method for
// each domain (which is SciPy's; see Maddock et al., "Incomplete Gamma
// Functions", Boost).
#include <cmath>

#include "lowering/formula.h"
#include "lowering/loop.h"

namespace neuronx::lowering {
namespace {

using ir::Builder;

// Enough for float32 wherever the method is chosen: where x is near a large a,
// the asymptotic expansion is.
constexpr int kTrips = 64;

// mu - log(1 + mu). Near 0 by log(1 + mu) = 2 atanh(s), s = mu / (2 + mu).
Term log_gap(Term mu) {
  constexpr double c[] = {2 / 3., 2 / 5., 2 / 7., 2 / 9., 2 / 11., 2 / 13.};
  const Term s = mu / (mu + 2), square = s * s;
  const Term near = s * (mu - square * polynomial(square, c));
  return where(abs(mu) < 0.5, near, mu - log1p(mu));
}

// x^a exp(-x) / Gamma(a): directly, or by Stirling's series.
Term factor(Term a, Term x) {
  const Term direct = exp(a * log(x) - x - a.chlo("lgamma"));
  const Term inverse = 1 / a;
  const Term correction = inverse * (1 / 12. - inverse * inverse * (1 / 360.));
  const Term large = sqrt(a * (1 / (2 * M_PI))) *
                     exp(-(a * log_gap((x - a) / a)) - correction);
  return where(a < 10, direct, large);
}

// P by its power series (DLMF 8.11.4).
Term power_series(Term a, Term x, Term scale) {
  const auto results =
      loop(*a.b,
           kTrips,
           {x.like(1), x.like(1), a},
           {x},
           [](Builder& r, Value, const Values& state, const Values& fixed) {
             const Term sum{&r, state[0]}, term{&r, state[1]};
             const Term d = Term{&r, state[2]} + 1;
             const Term next = term * Term{&r, fixed[0]} / d;
             return Values{sum + next, next, d};
           });
  return Term{a.b, results[0]} * scale / a;
}

// Q by its continued fraction (DLMF 8.9.2), after Lentz and Thompson.
Term continued_fraction(Term a, Term x, Term scale) {
  const Term b = x + 1 - a, d = 1 / b;
  const auto results =
      loop(*a.b,
           kTrips,
           {d, d, x.like(1e30), b, x.like(0)},
           {a},
           [](Builder& r, Value, const Values& state, const Values& fixed) {
             const Term h{&r, state[0]}, a{&r, fixed[0]};
             const Term k = Term{&r, state[4]} + 1, b = Term{&r, state[3]} + 2;
             const Term numerator = k * (a - k);
             const Term d = 1 / (numerator * Term{&r, state[1]} + b);
             const Term c = b + numerator / Term{&r, state[2]};
             return Values{h * c * d, d, c, b, k};
           });
  return scale * Term{a.b, results[0]};
}

// Q for small x and a (DLMF 8.7.3, without cancellation).
Term complement_series(Term a, Term x) {
  constexpr int kTerms = 20;
  Term power = x.like(1), sum = x.like(0);
  for (int n = 1; n <= kTerms; ++n) {
    power = power * (-x) * (1. / n);
    sum = sum + power / (a + n);
  }
  const Term size = a * log(x);
  return -expm1(size - (a + 1).chlo("lgamma")) -
         exp(size - a.chlo("lgamma")) * sum;
}

// P or Q by Temme's uniform expansion (DLMF 8.12.3, 8.12.4).
Term uniform(Term a, Term x, double sign) {
  const Term mu = (x - a) / a, gap = log_gap(mu);
  const Term root = sqrt(gap + gap);
  const Term eta = where(mu < 0, -root, root);
  const Term inverse = 1 / a;
  Term sum = x.like(0);
  for (int k = std::size(kTemme); k-- > 0;) {
    sum = sum * inverse + polynomial(eta, kTemme[k]);
  }
  const Term rest = exp(-(a * gap)) * sqrt(inverse * (1 / (2 * M_PI))) * sum;
  const Term main = (eta * sqrt(a * 0.5) * -sign).chlo("erfc") * 0.5;
  return main - sign * rest;
}

struct Incomplete {
  Term lower, upper;
};
Incomplete incomplete_gamma(Term a, Term x) {
  const Term scale = factor(a, x);
  const Term near = (a > 20) & (abs(x - a) < 0.3 * a);
  const Term p = power_series(a, x, scale);
  const Term q = continued_fraction(a, x, scale);
  const Term middling = where(x <= 0.5, -0.4 / log(x) < a, x * 1.1 < a);
  const Term small = where(middling, 1 - p, complement_series(a, x));
  const Term above = where(x > 1.1, where(x < a, 1 - p, q), small);
  const Term upper = where(near, uniform(a, x, -1), above);
  const Term lower =
      where(near, uniform(a, x, 1), where((x > 1) & (x > a), 1 - upper, p));
  return {lower, upper};
}

// At the boundaries; `at_zero` is the value for x = 0.
Term bounded(Term a, Term x, Term value, double at_zero) {
  const Term x_ends =
      where(x == 0, at_zero, where(x == INFINITY, 1 - at_zero, value));
  const Term a_infinite = where(x == INFINITY, x.like(NAN), x.like(at_zero));
  const Term a_zero = where(x > 0, x.like(1 - at_zero), x.like(NAN));
  const Term inside = where(
      a == 0, a_zero, where((x != 0) & (a == INFINITY), a_infinite, x_ends));
  return where((x < 0) | (a < 0), NAN, inside);
}

const bool registered = [] {
  lower_formula(
      "igamma",
      [](Term a, Term x) {
        return bounded(a, x, incomplete_gamma(a, x).lower, 0);
      },
      true);
  lower_formula(
      "igammac",
      [](Term a, Term x) {
        return bounded(a, x, incomplete_gamma(a, x).upper, 1);
      },
      true);
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
