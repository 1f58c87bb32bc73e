// SPDX-License-Identifier: Apache-2.0
// Distributions by rejection. Every element makes its attempts at once and
// takes the first that is accepted, so that a program has no loop whose length
// depends on luck; that none of them is has a probability under 1e-8.
#include <cmath>

#include "lowering/random.h"

namespace neuronx::lowering {
namespace {

using ir::Compare;

constexpr int64_t kAttempts = 16;
// Inversion adds up to so many terms. Its mean is below 10: P(X > 64) < 1e-27.
constexpr int64_t kTerms = 64;

// Arithmetic that reads like the papers': operands broadcast, numbers too.
struct Term {
  Term(Builder& b, Value value) : builder(&b), value(value) {}
  Builder* builder;
  Value value;
};

Term apply(const char* op, Term x, Term y) {
  auto& b = *x.builder;
  const auto [left, right] = broadcast_pair(b, x.value, y.value);
  return {b, b.binary(op, left, right)};
}
Term number(Term like, double x) {
  return {*like.builder, fill_like(*like.builder, like.value, x)};
}
Term operator+(Term x, Term y) {
  return apply("add", x, y);
}
Term operator-(Term x, Term y) {
  return apply("subtract", x, y);
}
Term operator*(Term x, Term y) {
  return apply("multiply", x, y);
}
Term operator/(Term x, Term y) {
  return apply("divide", x, y);
}
Term operator+(Term x, double y) {
  return x + number(x, y);
}
Term operator-(Term x, double y) {
  return x - number(x, y);
}
Term operator*(Term x, double y) {
  return x * number(x, y);
}
Term operator/(Term x, double y) {
  return x / number(x, y);
}
Term operator+(double x, Term y) {
  return number(y, x) + y;
}
Term operator-(double x, Term y) {
  return number(y, x) - y;
}
Term operator*(double x, Term y) {
  return number(y, x) * y;
}
Term operator/(double x, Term y) {
  return number(y, x) / y;
}
Term operator&&(Term x, Term y) {
  return apply("and", x, y);
}
Term operator||(Term x, Term y) {
  return apply("or", x, y);
}
Term operator!(Term x) {
  return {*x.builder, x.builder->logical_not(x.value)};
}
Term unary(const char* op, Term x) {
  return {*x.builder, x.builder->unary(op, x.value)};
}
Term log(Term x) {
  return unary("log", x);
}
Term log1p(Term x) {
  return unary("log_plus_one", x);
}
Term exp(Term x) {
  return unary("exponential", x);
}
Term sqrt(Term x) {
  return unary("sqrt", x);
}
Term abs(Term x) {
  return unary("abs", x);
}
Term floor(Term x) {
  return unary("floor", x);
}

Term compare(Compare direction, Term x, Term y) {
  auto& b = *x.builder;
  const auto [left, right] = broadcast_pair(b, x.value, y.value);
  return {b, b.compare(direction, left, right)};
}
Term operator<(Term x, Term y) {
  return compare(Compare::LT, x, y);
}
Term operator<=(Term x, Term y) {
  return compare(Compare::LE, x, y);
}
Term operator<(Term x, double y) {
  return x < number(x, y);
}
Term operator<=(Term x, double y) {
  return x <= number(x, y);
}
Term operator>=(Term x, double y) {
  return number(x, y) <= x;
}
Term operator>(Term x, double y) {
  return number(x, y) < x;
}

Term select(Term predicate, Term x, Term y) {
  auto& b = *predicate.builder;
  const Shape shape =
      broadcast_shape(b.shape(predicate.value),
                      broadcast_shape(b.shape(x.value), b.shape(y.value)));
  return {b,
          b.select(b.broadcast(predicate.value, shape),
                   b.broadcast(x.value, shape),
                   b.broadcast(y.value, shape))};
}
Term at_least(Term x, double low) {
  return apply("maximum", x, number(x, low));
}

// Tensor argument i as float32[n, 1] over the result's elements.
Term column(Op& op, int i) {
  auto& b = op.b;
  const Value x = b.broadcast(op.in(i, DType::Float32), op.result().shape);
  return {b, b.reshape(x, {op.result().numel(), 1})};
}

// Words [begin, end) of each element.
Term uniforms(Builder& b, Value words, int64_t begin, int64_t end) {
  return {b, unit(b, narrow(b, words, 1, begin, end))};
}

// The first accepted of `proposals`, [n, attempts]: float32[n, 1]. The last
// one if none is.
Term first_accepted(Term proposals, Term accepted) {
  auto& b = *proposals.builder;
  const Shape shape = b.shape(proposals.value);
  const Term place{b, b.iota({DType::Int32, shape}, 1)};
  const Term candidate =
      select(accepted, place, number(place, static_cast<double>(shape[1] - 1)));
  const Value first = b.reduce(candidate.value, ir::Reduce::Min, {1});
  const Term chosen =
      compare(Compare::EQ, place, {b, b.reshape(first, {shape[0], 1})});
  const Value kept = select(chosen, proposals, number(proposals, 0)).value;
  return {b, b.reshape(b.reduce(kept, ir::Reduce::Add, {1}), {shape[0], 1})};
}

// How many of the probabilities first, first * ratio(1), first * ratio(1) *
// ratio(2)... it takes to exceed u. ratio(k) = (a + k * c) / k.
Term invert(Term u, Term first, Term a, Term c) {
  auto& b = *u.builder;
  const auto results = b.while_loop(
      {b.constant(DType::Float32, 1),
       u.value,
       first.value,
       fill_like(b, u.value, 0),
       a.value,
       c.value},
      [](Builder& r, const ir::Values& v) -> ir::Values {
        return {r.compare(
            Compare::LE, v[0], r.constant(DType::Float32, int64_t{kTerms}))};
      },
      [](Builder& r, const ir::Values& v) -> ir::Values {
        const Term step{r, v[0]}, u{r, v[1]}, p{r, v[2]}, k{r, v[3]},
            a{r, v[4]}, c{r, v[5]};
        // Terms under the resolution of u are rounding.
        const Term over = p <= u && p > 1e-9;
        const Term rest = select(over, u - p, number(u, -1));
        return {(step + 1).value,
                rest.value,
                (p * (a + step * c) / step).value,
                select(rest < 0.0, k, k + 1).value,
                v[4],
                v[5]};
      });
  return {b, results[3]};
}

// log(k!) - (k + 1/2) log(k + 1) + (k + 1) - log(2 pi) / 2: a table below 10,
// the series above, as in Hoermann's papers.
Term stirling_tail(Term k) {
  static constexpr double kTail[] = {0.08106146679532726,
                                     0.04134069595540929,
                                     0.02767792568499834,
                                     0.02079067210376509,
                                     0.01664469118982119,
                                     0.01387612882307075,
                                     0.01189670994589177,
                                     0.01041126526197209,
                                     0.009255462182712733,
                                     0.008330563433362871};
  const Term inverse = 1.0 / (k + 1);
  const Term square = inverse * inverse;
  Term result =
      (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 * square) * square) * inverse;
  for (int i = 0; i < 10; ++i) {
    result = select(
        compare(Compare::EQ, k, number(k, i)), number(k, kTail[i]), result);
  }
  return result;
}

// Hoermann, "The transformed rejection method for generating Poisson random
// variables", 1993 (PTRS), for rates of at least 10; inversion below.
Values poisson(Op& op) {
  auto& b = op.b;
  const Term rate = column(op, 0);
  const int64_t n = op.result().numel();
  const Value words = random_words(op, n, 2 * kAttempts);
  const Term low = select(rate < 10.0, rate, number(rate, 0));
  const Term few =
      invert(uniforms(b, words, 0, 1), exp(0.0 - low), low, number(low, 0));
  const Term mu = at_least(rate, 10);
  const Term u = uniforms(b, words, 0, kAttempts) - 0.5;
  const Term v = 1.0 - uniforms(b, words, kAttempts, 2 * kAttempts);
  const Term scale = 0.931 + 2.53 * sqrt(mu);
  const Term a = 0.02483 * scale - 0.059;
  const Term inverse_alpha = 1.1239 + 1.1328 / (scale - 3.4);
  const Term squeeze = 0.9277 - 3.6224 / (scale - 2);
  const Term us = 0.5 - abs(u);
  const Term k = floor((2.0 * a / us + scale) * u + mu + 0.43);
  const Term quick = us >= 0.07 && v <= squeeze;
  const Term outside = k < 0.0 || (us < 0.013 && us < v);
  // log(mu^k exp(-mu) / k!) by Stirling's formula about k + 1, arranged so that
  // large rates do not cancel.
  const Term k1 = at_least(k, 0) + 1;
  const Term t = (mu - k1) / k1;
  const Term density = k1 * (log1p(t) - t) + 0.5 * log(k1) - log(mu) -
                       0.5 * std::log(2 * M_PI) - stirling_tail(k1 - 1);
  const Term bound = log(v) + log(inverse_alpha) - log(a / (us * us) + scale);
  const Term accepted = quick || (!outside && bound <= density);
  const Term many = first_accepted(k, accepted);
  return {b.reshape(select(rate < 10.0, few, many).value, op.result().shape)};
}

// Hoermann, "The generation of binomial random variates", 1993 (BTRS), where
// the mean is at least 10; inversion below. Of p and 1 - p the smaller is
// used.
Values binomial(Op& op) {
  auto& b = op.b;
  const Term count = column(op, 0), probability = column(op, 3);
  const int64_t n = op.result().numel();
  const Value words = random_words(op, n, 2 * kAttempts);
  const Term mirrored = probability > 0.5;
  const Term p = select(mirrored, 1.0 - probability, probability);
  const Term small = count * p < 10.0;
  const Term low = select(small, p, number(p, 0));
  const Term odds = low / (1.0 - low);
  const Term few = invert(uniforms(b, words, 0, 1),
                          exp(count * log1p(0.0 - low)),
                          (count + 1) * odds,
                          0.0 - odds);
  const Term trials = select(small, number(count, 100), count);
  const Term q = select(small, number(p, 0.5), p);
  const Term deviation = sqrt(trials * q * (1.0 - q));
  const Term scale = 1.15 + 2.53 * deviation;
  const Term a = 0.0248 * scale + 0.01 * q - 0.0873;
  const Term centre = trials * q + 0.5;
  const Term squeeze = 0.92 - 4.2 / scale;
  const Term ratio = q / (1.0 - q);
  const Term alpha = (2.83 + 5.1 / scale) * deviation;
  const Term mode = floor((trials + 1) * q);
  const Term u = uniforms(b, words, 0, kAttempts) - 0.5;
  const Term v = 1.0 - uniforms(b, words, kAttempts, 2 * kAttempts);
  const Term us = 0.5 - abs(u);
  const Term proposed = floor((2.0 * a / us + scale) * u + centre);
  const Term outside = proposed < 0.0 || trials < proposed;
  const Term k = select(outside, mode, proposed);
  const Term quick = us >= 0.07 && v <= squeeze;
  const Term bound = log(v * alpha / (a / (us * us) + scale));
  const Term density =
      (mode + 0.5) * log((mode + 1) / (ratio * (trials - mode + 1))) +
      (trials + 1) * log((trials - mode + 1) / (trials - k + 1)) +
      (k + 0.5) * log(ratio * (trials - k + 1) / (k + 1)) +
      stirling_tail(mode) + stirling_tail(trials - mode) - stirling_tail(k) -
      stirling_tail(trials - k);
  const Term accepted = !outside && (quick || bound <= density);
  const Term many = first_accepted(k, accepted);
  const Term drawn = select(small, few, many);
  return {b.reshape(select(mirrored, count - drawn, drawn).value,
                    op.result().shape)};
}

// Marsaglia and Tsang, "A simple method for generating gamma variables", 2000:
// 95 % of the attempts are accepted. Shapes below 1 are raised by one and
// scaled by u^(1 / shape). Gives the logarithm, for small shapes underflow.
Term log_gamma_variate(Op& op) {
  constexpr int64_t kGammaAttempts = 8;
  auto& b = op.b;
  const Term shape = column(op, 0);
  const Value words =
      random_words(op, op.result().numel(), 3 * kGammaAttempts + 1);
  const auto part = [&](int64_t i) {
    return narrow(b, words, 1, i * kGammaAttempts, (i + 1) * kGammaAttempts);
  };
  const Term raised = select(shape < 1.0, shape + 1, shape);
  const Term d = raised - 1.0 / 3;
  const Term x{b, normal(b, part(0), part(1))};
  const Term root = 1.0 + x / sqrt(9.0 * d);
  const Term cube = at_least(root * root * root, 1e-30);
  const Term u = 1.0 - Term{b, unit(b, part(2))};
  const Term accepted =
      root > 0.0 && log(u) < 0.5 * x * x + d * (1.0 - cube + log(cube));
  const Term drawn = log(d * first_accepted(cube, accepted));
  const Term boost =
      0.0 -
      Term{b,
           exponential(
               b,
               narrow(
                   b, words, 1, 3 * kGammaAttempts, 3 * kGammaAttempts + 1))} /
          shape;
  return select(shape < 1.0, drawn + boost, drawn);
}

// As ATen's CPU kernel, at least the smallest normal number.
Values standard_gamma(Op& op) {
  const Term drawn = at_least(exp(log_gamma_variate(op)), 0x1p-126);
  return {op.b.reshape(drawn.value, op.result().shape)};
}

Values dirichlet(Op& op) {
  auto& b = op.b;
  const Shape shape = op.result().shape;
  const Shape last{static_cast<int64_t>(shape.size()) - 1};
  const Value drawn = b.reshape(log_gamma_variate(op).value, shape);
  const Value peak =
      spread(b, b.reduce(drawn, ir::Reduce::Max, last), shape, last);
  const Value weight = b.exp(b.sub(drawn, peak));
  const Value total =
      spread(b, b.reduce(weight, ir::Reduce::Add, last), shape, last);
  return {b.div(weight, total)};
}

const bool registered = [] {
  lower("neuronx::poisson", &poisson);
  lower("neuronx::binomial", &binomial);
  lower("neuronx::standard_gamma", &standard_gamma);
  lower("neuronx::dirichlet", &dirichlet);
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering
