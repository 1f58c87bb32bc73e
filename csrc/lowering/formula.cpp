// SPDX-License-Identifier: Apache-2.0
#include "lowering/formula.h"

#include <fmt/format.h>

namespace neuronx::lowering {
namespace {

void expect_wide(DType dtype, bool half) {
  if (!half && is_floating_point(dtype) && itemsize(dtype) < 4) {
    throw Unsupported(fmt::format("no kernel for {}", name(dtype)));
  }
}

}  // namespace

Term polynomial(Term x, std::span<const double> c) {
  Term sum = x.like(c.back());
  for (size_t i = c.size() - 1; i-- > 0;) {
    sum = sum * x + c[i];
  }
  return sum;
}

Term chebyshev(Term x, const Series& series) {
  const double half = (series.high - series.low) / 2;
  const double middle = (series.high + series.low) / 2;
  const Term t = x * (1 / half) - middle / half, twice = t + t;
  Term last = x.like(0), sum = x.like(series.c.back());
  for (size_t i = series.c.size() - 1; i-- > 1;) {
    const Term next = twice * sum - last + series.c[i];
    last = sum;
    sum = next;
  }
  return t * sum - last + series.c[0];
}

void lower_formula(const std::string& name, Term (*f)(Term), bool half) {
  lower("aten::" + name, [f, half](Op& op) -> Values {
    const DType dtype = op.type(0).dtype;
    expect_wide(dtype, half);
    return {f({&op.b, op.in(0, float_math(dtype))})};
  });
}

void lower_formula(const std::string& name, Term (*f)(Term, Term), bool half) {
  lower("aten::" + name, [f, half](Op& op) -> Values {
    const DType dtype = op.promoted({0, 1});
    expect_wide(dtype, half);
    const Value x = op.scalar(0, float_math(dtype));
    const Value y = op.scalar(1, float_math(dtype));
    const auto [a, c] = broadcast_pair(op.b, x, y);
    return {f({&op.b, a}, {&op.b, c})};
  });
}

}  // namespace neuronx::lowering
