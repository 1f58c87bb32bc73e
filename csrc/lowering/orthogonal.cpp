// SPDX-License-Identifier: Apache-2.0
// Orthogonal polynomials of degree n at x, both tensors; the degree is n cut
// to an integer, and below 0 the value is 0.
#include <cmath>

#include "lowering/formula.h"

namespace neuronx::lowering {
namespace {

using ir::Builder;

// As C's conversion to int64, which has no other numbers than these.
Term degree(Term n) {
  const Term whole{n.b, truncate(*n.b, n)};
  return where((whole >= 0) & (whole < 0x1p63), whole, -1);
}

Term odd(Term n) {
  return n - 2 * floor(n * 0.5) == 1;
}

enum class Kind { T, U, V, W };

// Above this degree by the angle, as ATen; for |x| > 1, where ATen goes on with
// the recurrence, by the hyperbolic angle.
constexpr int kRecurrence = 8;

// By theta = acos x: T cos n theta; U sin (n + 1) theta / sin theta; V
// cos (n + 1/2) theta / cos theta/2; W sin (n + 1/2) theta / sin theta/2.
Term by_angle(Kind kind, Term x, Term n) {
  const Term theta = x.chlo("acos");
  switch (kind) {
    case Kind::T:
      return cos(n * theta);
    case Kind::U:
      return sin((n + 1) * theta) / sin(theta);
    case Kind::V:
      return cos((n + 0.5) * theta) / cos(theta * 0.5);
    default:
      return sin((n + 0.5) * theta) / sin(theta * 0.5);
  }
}

// The same for |x| > 1, of the angle i u, u = acosh |x|; for x < 0 V and W
// change places, and odd degrees the sign.
Term by_hyperbolic_angle(Kind kind, Term x, Term n) {
  const Term a = abs(x);
  const Term u = log1p((a - 1) + sqrt((a - 1) * (a + 1)));
  // Halves of exponentials, so that only the result overflows.
  const auto ratio = [](Term top, Term bottom, double sign) {
    return exp(top - bottom) * (1 + sign * exp(-2 * top)) /
           (1 + sign * exp(-2 * bottom));
  };
  const Term cosines = ratio((n + 0.5) * u, u * 0.5, 1);
  const Term sines = ratio((n + 0.5) * u, u * 0.5, -1);
  Term value = x;
  switch (kind) {
    case Kind::T:
      value = exp(n * u) * (1 + exp(-2 * (n * u))) * 0.5;
      break;
    case Kind::U:
      value = ratio((n + 1) * u, u, -1);
      break;
    case Kind::V:
      value = where(x > 0, cosines, sines);
      break;
    case Kind::W:
      value = where(x > 0, sines, cosines);
      break;
  }
  return where((x < 0) & odd(n), -value, value);
}

// At x = 1 and, but for the sign of odd degrees, at -1.
Term at_one(Kind kind, Term n, bool negative) {
  switch (kind) {
    case Kind::T:
      return n.like(1);
    case Kind::U:
      return n + 1;
    case Kind::V:
      return negative ? n + n + 1 : n.like(1);
    default:
      return negative ? n.like(1) : n + n + 1;
  }
}

template <Kind kind>
Term chebyshev_polynomial(Term x, Term given) {
  const Term n = degree(given);
  Term p = x.like(1), q = kind == Kind::T ? x : x + x;
  if (kind == Kind::V) {
    q = q - 1;
  } else if (kind == Kind::W) {
    q = q + 1;
  }
  Term value = where(n == 0, p, q);
  for (int k = 2; k <= kRecurrence; ++k) {
    const Term r = (x + x) * q - p;
    p = q;
    q = r;
    value = where(n == k, q, value);
  }
  const Term angle =
      where(abs(x) < 1, by_angle(kind, x, n), by_hyperbolic_angle(kind, x, n));
  value = where(n > kRecurrence, angle, value);
  const Term at_minus = at_one(kind, n, true);
  value = where(x == 1, at_one(kind, n, false), value);
  value = where(x == -1, where(odd(n), -at_minus, at_minus), value);
  return where(n < 0, 0, value);
}

template <Kind kind>
Term shifted_chebyshev_polynomial(Term x, Term n) {
  return chebyshev_polynomial<kind>(x + x - 1, n);
}

// P(k + 1) of x, k, P(k) and P(k - 1).
using Recurrence = Term (*)(Term x, Term k, Term q, Term p);

// P(n) of P(0) = 1 and P(1) = first: a loop to the largest n, or until all
// elements of that degree are NaN. float32 counts no further than 2^24.
Term recurrence(Term x, Term degree, Term first, Recurrence next) {
  const Term n = minimum(degree, 0x1p24);
  const auto unfinished = [](Builder& r, const Values& v) {
    const Term k{&r, v[0]}, n{&r, v[2]}, q{&r, v[3]};
    return (Term{&r, r.broadcast(k, r.shape(n))} < n) & (q == q);
  };
  const Values results = x.b->while_loop(
      {x.b->constant(DType::Float32, 1), x, n, first, x.like(1)},
      [&](Builder& r, const Values& v) -> Values {
        return {
            r.reduce(unfinished(r, v), ir::Reduce::Or, range(0, r.rank(v[2])))};
      },
      [&](Builder& r, const Values& v) -> Values {
        const Term k{&r, r.broadcast(v[0], r.shape(v[1]))};
        const Term q{&r, v[3]}, p{&r, v[4]};
        const Term more = unfinished(r, v);
        return {Term{&r, v[0]} + 1,
                v[1],
                v[2],
                where(more, next({&r, v[1]}, k, q, p), q),
                where(more, q, p)};
      });
  const Term value{x.b, results[3]};
  return where(n == 0, 1, where(n < 0, 0, value));
}

// ATen gives up on Hermite polynomials of a higher degree in float32.
constexpr int kHermiteLimit = 128;

Term limited(Term n) {
  return where(n > kHermiteLimit, 1, n);
}

Term hermite_h(Term x, Term given) {
  const Term n = degree(given);
  const Term value =
      recurrence(x, limited(n), x + x, [](Term x, Term k, Term q, Term p) {
        return (x + x) * q - (k + k) * p;
      });
  return where(n > kHermiteLimit, NAN, value);
}

Term hermite_he(Term x, Term given) {
  const Term n = degree(given);
  const Term value =
      recurrence(x, limited(n), x, [](Term x, Term k, Term q, Term p) {
        return x * q - k * p;
      });
  return where(n > kHermiteLimit, NAN, value);
}

Term laguerre(Term x, Term given) {
  const Term n = degree(given);
  const Term value = recurrence(
      x, where(x == 0, 1, n), 1 - x, [](Term x, Term k, Term q, Term p) {
        return ((k + k + (1 - x)) * q - k * p) / (k + 1);
      });
  return where(n < 0, 0, where((x == 0) | (n == 0), 1, value));
}

Term legendre(Term x, Term given) {
  const Term n = degree(given);
  const Term value = recurrence(
      x, where(abs(x) == 1, 1, n), x, [](Term x, Term k, Term q, Term p) {
        return ((k + k + 1) * x * q - k * p) / (k + 1);
      });
  const Term sign = where((x < 0) & odd(n), x.like(-1), x.like(1));
  const Term inside = where(n == 0, 1, value);
  return where(n < 0, 0, where(abs(x) == 1, sign, inside));
}

template <Kind kind>
void lower_chebyshev(const std::string& letter) {
  const std::string name = "chebyshev_polynomial_" + letter;
  lower_formula("special_" + name, &chebyshev_polynomial<kind>, false);
  lower_formula(
      "special_shifted_" + name, &shifted_chebyshev_polynomial<kind>, false);
}

const bool registered = [] {
  lower_chebyshev<Kind::T>("t");
  lower_chebyshev<Kind::U>("u");
  lower_chebyshev<Kind::V>("v");
  lower_chebyshev<Kind::W>("w");
  lower_formula("special_hermite_polynomial_h", &hermite_h, false);
  lower_formula("special_hermite_polynomial_he", &hermite_he, false);
  lower_formula("special_laguerre_polynomial_l", &laguerre, false);
  lower_formula("special_legendre_polynomial_p", &legendre, false);
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
