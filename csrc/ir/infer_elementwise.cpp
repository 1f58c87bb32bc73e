// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "ir/infer.h"

namespace neuronx::ir {
namespace {

// Sets of element types.
enum Kind : unsigned {
  kBool = 1,
  kUnsigned = 2,
  kSigned = 4,
  kFloat = 8,
  kComplex = 16,
  kInt = kUnsigned | kSigned,
  kAny = 31,
};

unsigned kind(DType dtype) {
  if (dtype == DType::Bool)
    return kBool;
  if (is_complex(dtype))
    return kComplex;
  if (is_floating_point(dtype))
    return kFloat;
  return is_unsigned(dtype) ? kUnsigned : kSigned;
}

void expect_kind(const Call& c, const TensorType& type, unsigned kinds) {
  if (!(kind(type.dtype) & kinds))
    c.fail(fmt::format("does not take {}", name(type.dtype)));
}

template <unsigned kinds>
Types unary(const Call& c) {
  c.expect_operands(1);
  expect_kind(c, c.in(0), kinds);
  return {c.in(0)};
}

template <unsigned kinds>
Types binary(const Call& c) {
  c.expect_operands(2);
  if (c.in(0) != c.in(1))
    c.fail(fmt::format("expected equal types, got {} and {}",
                       to_string(c.in(0)),
                       to_string(c.in(1))));
  expect_kind(c, c.in(0), kinds);
  return {c.in(0)};
}

DType real_part(DType dtype) {
  if (dtype == DType::Complex64)
    return DType::Float32;
  return dtype == DType::Complex128 ? DType::Float64 : dtype;
}

// The real counterpart of a complex operand, else the operand's own type.
template <unsigned kinds>
Types to_real(const Call& c) {
  Types results = unary<kinds>(c);
  results[0].dtype = real_part(results[0].dtype);
  return results;
}

template <unsigned kinds>
Types predicate(const Call& c) {
  Types results = unary<kinds>(c);
  results[0].dtype = DType::Bool;
  return results;
}

Types complex(const Call& c) {
  Types results = binary<kFloat>(c);
  if (results[0].dtype == DType::Float32)
    results[0].dtype = DType::Complex64;
  else if (results[0].dtype == DType::Float64)
    results[0].dtype = DType::Complex128;
  else
    c.fail(fmt::format("does not take {}", name(results[0].dtype)));
  return results;
}

Types compare(const Call& c) {
  Types results = binary<kAny>(c);
  const std::string& direction = c.string("comparison_direction");
  const bool equality = direction == "EQ" || direction == "NE";
  if (!equality && direction != "LT" && direction != "LE" &&
      direction != "GT" && direction != "GE")
    c.fail(fmt::format("unknown comparison_direction '{}'", direction));
  if (!equality && is_complex(c.in(0).dtype))
    c.fail(fmt::format(
        "{} is not defined for {}", direction, name(c.in(0).dtype)));
  results[0].dtype = DType::Bool;
  return results;
}

Types select(const Call& c) {
  c.expect_operands(3);
  if (c.in(0).dtype != DType::Bool ||
      (c.rank(0) != 0 && c.in(0).shape != c.in(1).shape))
    c.fail(fmt::format("expected predicate bool[] or bool{}, got {}",
                       to_string(c.in(1).shape),
                       to_string(c.in(0))));
  if (c.in(1) != c.in(2))
    c.fail(fmt::format("expected equal types, got {} and {}",
                       to_string(c.in(1)),
                       to_string(c.in(2))));
  return {c.in(1)};
}

Types clamp(const Call& c) {
  c.expect_operands(3);
  expect_kind(c, c.in(1), kAny & ~kComplex);
  for (int i : {0, 2})
    if (c.in(i).dtype != c.in(1).dtype ||
        (c.rank(i) != 0 && c.in(i).shape != c.in(1).shape))
      c.fail(fmt::format("expected a bound of type {} or {}[], got {}",
                         to_string(c.in(1)),
                         name(c.in(1).dtype),
                         to_string(c.in(i))));
  return {c.in(1)};
}

Types convert(const Call& c) {
  unary<kAny>(c);
  if (c.wanted().shape != c.in(0).shape)
    c.fail(fmt::format(
        "cannot turn {} into {}", to_string(c.in(0)), to_string(c.wanted())));
  return {c.wanted()};
}

Types bitcast(const Call& c) {
  const DType from = c.in(0).dtype, to = c.wanted().dtype;
  // StableHLO's i1 has one bit, and complex only converts to complex.
  if (itemsize(from) != itemsize(to) ||
      (from != to && (from == DType::Bool || to == DType::Bool ||
                      is_complex(from) || is_complex(to))))
    c.fail(fmt::format("cannot turn {} into {}", name(from), name(to)));
  return convert(c);
}

Types reduce_precision(const Call& c) {
  Types results = unary<kFloat>(c);
  for (const char* key : {"exponent_bits", "mantissa_bits"}) {
    const int64_t bits = c.integer(key);
    if (bits < (key[0] == 'e' ? 1 : 0) || bits > 64)
      c.fail(fmt::format("{} {} out of range", key, bits));
  }
  return results;
}

constexpr unsigned kNumber = kInt | kFloat | kComplex;
constexpr unsigned kInexact = kFloat | kComplex;

constexpr Rule kRules[] = {
    {"stablehlo.abs", to_real<kSigned | kInexact>},
    {"stablehlo.cbrt", unary<kInexact>},
    {"stablehlo.ceil", unary<kFloat>},
    {"stablehlo.cosine", unary<kInexact>},
    {"stablehlo.count_leading_zeros", unary<kInt>},
    {"stablehlo.exponential", unary<kInexact>},
    {"stablehlo.exponential_minus_one", unary<kInexact>},
    {"stablehlo.floor", unary<kFloat>},
    {"stablehlo.imag", to_real<kInexact>},
    {"stablehlo.is_finite", predicate<kFloat>},
    {"stablehlo.log", unary<kInexact>},
    {"stablehlo.log_plus_one", unary<kInexact>},
    {"stablehlo.logistic", unary<kInexact>},
    {"stablehlo.negate", unary<kNumber>},
    {"stablehlo.not", unary<kBool | kInt>},
    {"stablehlo.popcnt", unary<kInt>},
    {"stablehlo.real", to_real<kInexact>},
    {"stablehlo.round_nearest_afz", unary<kFloat>},
    {"stablehlo.round_nearest_even", unary<kFloat>},
    {"stablehlo.rsqrt", unary<kInexact>},
    {"stablehlo.sign", unary<kSigned | kInexact>},
    {"stablehlo.sine", unary<kInexact>},
    {"stablehlo.sqrt", unary<kInexact>},
    {"stablehlo.tan", unary<kInexact>},
    {"stablehlo.tanh", unary<kInexact>},

    {"chlo.acos", unary<kInexact>},
    {"chlo.acosh", unary<kInexact>},
    {"chlo.asin", unary<kInexact>},
    {"chlo.asinh", unary<kInexact>},
    {"chlo.atan", unary<kInexact>},
    {"chlo.atanh", unary<kInexact>},
    {"chlo.bessel_i1e", unary<kFloat>},
    {"chlo.conj", unary<kComplex>},
    {"chlo.cosh", unary<kInexact>},
    {"chlo.digamma", unary<kFloat>},
    {"chlo.erf", unary<kFloat>},
    {"chlo.erf_inv", unary<kFloat>},
    {"chlo.erfc", unary<kFloat>},
    {"chlo.is_inf", predicate<kFloat>},
    {"chlo.is_neg_inf", predicate<kFloat>},
    {"chlo.is_pos_inf", predicate<kFloat>},
    {"chlo.lgamma", unary<kFloat>},
    {"chlo.sinh", unary<kInexact>},
    {"chlo.square", unary<kInexact>},
    {"chlo.tan", unary<kInexact>},
    {"chlo.next_after", binary<kFloat>},
    {"chlo.polygamma", binary<kFloat>},
    {"chlo.zeta", binary<kFloat>},

    {"stablehlo.add", binary<kAny>},
    {"stablehlo.and", binary<kBool | kInt>},
    {"stablehlo.atan2", binary<kInexact>},
    {"stablehlo.complex", complex},
    {"stablehlo.divide", binary<kNumber>},
    {"stablehlo.maximum", binary<kAny & ~kComplex>},
    {"stablehlo.minimum", binary<kAny & ~kComplex>},
    {"stablehlo.multiply", binary<kAny>},
    {"stablehlo.or", binary<kBool | kInt>},
    {"stablehlo.power", binary<kNumber>},
    {"stablehlo.remainder", binary<kInt | kFloat>},
    {"stablehlo.shift_left", binary<kInt>},
    {"stablehlo.shift_right_arithmetic", binary<kInt>},
    {"stablehlo.shift_right_logical", binary<kInt>},
    {"stablehlo.subtract", binary<kNumber>},
    {"stablehlo.xor", binary<kBool | kInt>},

    {"stablehlo.bitcast_convert", bitcast},
    {"stablehlo.clamp", clamp},
    {"stablehlo.compare", compare},
    {"stablehlo.convert", convert},
    {"stablehlo.reduce_precision", reduce_precision},
    {"stablehlo.select", select},
};

}  // namespace

std::span<const Rule> elementwise_rules() {
  return kRules;
}

}  // namespace neuronx::ir
