// SPDX-License-Identifier: Apache-2.0
// Formulas as they are written: operators on values, and numbers that become
// constants of the other operand's type. For functions that are mostly
// arithmetic, such as approximations.
#pragma once

#include "lowering/math.h"
#include "lowering/special_tables.h"

namespace neuronx::lowering {

// A value and the builder that it is of. Comparisons give one of Bool.
struct Term {
  ir::Builder* b;
  Value value;
  operator Value() const { return value; }

  Term like(double number) const { return {b, fill_like(*b, value, number)}; }
  Term unary(const char* op) const { return {b, b->unary(op, value)}; }
  Term chlo(const char* op) const { return {b, b->chlo(op, value)}; }
};

#define NEURONX_BINARY(symbol, method)            \
  inline Term operator symbol(Term x, Term y) {   \
    return {x.b, x.b->method(x.value, y.value)};  \
  }                                               \
  inline Term operator symbol(Term x, double y) { \
    return x symbol x.like(y);                    \
  }                                               \
  inline Term operator symbol(double x, Term y) { \
    return y.like(x) symbol y;                    \
  }
NEURONX_BINARY(+, add)
NEURONX_BINARY(-, sub)
NEURONX_BINARY(*, mul)
NEURONX_BINARY(/, div)
#undef NEURONX_BINARY

#define NEURONX_COMPARE(symbol, direction)                                \
  inline Term operator symbol(Term x, Term y) {                           \
    return {x.b, x.b->compare(ir::Compare::direction, x.value, y.value)}; \
  }                                                                       \
  inline Term operator symbol(Term x, double y) {                         \
    return x symbol x.like(y);                                            \
  }
NEURONX_COMPARE(<, LT)
NEURONX_COMPARE(<=, LE)
NEURONX_COMPARE(>, GT)
NEURONX_COMPARE(>=, GE)
NEURONX_COMPARE(==, EQ)
NEURONX_COMPARE(!=, NE)
#undef NEURONX_COMPARE

inline Term operator-(Term x) {
  return {x.b, x.b->neg(x.value)};
}
inline Term operator&(Term x, Term y) {
  return {x.b, x.b->logical_and(x.value, y.value)};
}
inline Term operator|(Term x, Term y) {
  return {x.b, x.b->logical_or(x.value, y.value)};
}
inline Term operator!(Term x) {
  return {x.b, x.b->logical_not(x.value)};
}

inline Term where(Term predicate, Term x, Term y) {
  return {x.b, x.b->select(predicate.value, x.value, y.value)};
}
inline Term where(Term predicate, Term x, double y) {
  return where(predicate, x, x.like(y));
}
inline Term where(Term predicate, double x, Term y) {
  return where(predicate, y.like(x), y);
}

inline Term abs(Term x) {
  return x.unary("abs");
}
inline Term exp(Term x) {
  return x.unary("exponential");
}
inline Term expm1(Term x) {
  return x.unary("exponential_minus_one");
}
inline Term log(Term x) {
  return x.unary("log");
}
inline Term log1p(Term x) {
  return x.unary("log_plus_one");
}
inline Term sqrt(Term x) {
  return x.unary("sqrt");
}
inline Term sin(Term x) {
  return x.unary("sine");
}
inline Term cos(Term x) {
  return x.unary("cosine");
}
inline Term floor(Term x) {
  return x.unary("floor");
}
inline Term maximum(Term x, double y) {
  return {x.b, x.b->max(x.value, x.like(y).value)};
}
inline Term minimum(Term x, double y) {
  return {x.b, x.b->min(x.value, x.like(y).value)};
}

// sum c[i] x^i.
Term polynomial(Term x, std::span<const double> c);
// The series at x, by Clenshaw's recurrence.
Term chebyshev(Term x, const Series& series);

// Registers f of one or two operands, computed in float32 (float64 for such).
// Unless `half`, 16-bit operands are refused: the CPU has no kernel for them,
// and the host says so.
void lower_formula(const std::string& name, Term (*f)(Term), bool half);
void lower_formula(const std::string& name, Term (*f)(Term, Term), bool half);

}  // namespace neuronx::lowering
