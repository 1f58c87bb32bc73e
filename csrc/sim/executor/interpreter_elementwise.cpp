// SPDX-License-Identifier: Apache-2.0
// Elementwise operations. float16, bfloat16 and float8 compute in float32 and
// round once; integers are in interpreter_integer.cpp.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/digamma.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/lgamma.h>
#include <ATen/ops/real.h>
#include <ATen/ops/special_zeta.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <bit>
#include <cmath>
#include <map>

#include "sim/executor/interpreter.h"

namespace neuronx::sim {
namespace {

using Unary = at::Tensor (*)(const at::Tensor&);

// StableHLO's and CHLO's names to ATen's.
const std::map<std::string_view, const char*>& aten_unary() {
  static const auto* table = new std::map<std::string_view, const char*>{
      {"abs", "abs"},
      {"acos", "acos"},
      {"acosh", "acosh"},
      {"asin", "asin"},
      {"asinh", "asinh"},
      {"atan", "atan"},
      {"atanh", "atanh"},
      {"bessel_i1e", "special_i1e"},
      {"ceil", "ceil"},
      {"conj", "conj_physical"},
      {"cosh", "cosh"},
      {"cosine", "cos"},
      {"digamma", "digamma"},
      {"erf", "erf"},
      {"erf_inv", "erfinv"},
      {"erfc", "erfc"},
      {"exponential", "exp"},
      {"exponential_minus_one", "expm1"},
      {"floor", "floor"},
      {"is_finite", "isfinite"},
      {"is_inf", "isinf"},
      {"is_neg_inf", "isneginf"},
      {"is_pos_inf", "isposinf"},
      {"lgamma", "lgamma"},
      {"log", "log"},
      {"log_plus_one", "log1p"},
      {"logistic", "sigmoid"},
      {"negate", "neg"},
      {"round_nearest_even", "round"},
      {"rsqrt", "rsqrt"},
      {"sine", "sin"},
      {"sinh", "sinh"},
      {"sqrt", "sqrt"},
      {"square", "square"},
      {"tan", "tan"},
      {"tanh", "tanh"},
  };
  return *table;
}

const std::map<std::string_view, std::pair<const char*, const char*>>&
aten_binary() {
  static const auto* table =
      new std::map<std::string_view, std::pair<const char*, const char*>>{
          {"atan2", {"atan2", ""}},
          {"divide", {"div", "Tensor"}},
          {"maximum", {"maximum", ""}},
          {"minimum", {"minimum", ""}},
          {"multiply", {"mul", "Tensor"}},
          {"next_after", {"nextafter", ""}},
          {"power", {"pow", "Tensor_Tensor"}},
          {"remainder", {"fmod", "Tensor"}},
          {"zeta", {"special_zeta", ""}},
          {"EQ", {"eq", "Tensor"}},
          {"NE", {"ne", "Tensor"}},
          {"LT", {"lt", "Tensor"}},
          {"LE", {"le", "Tensor"}},
          {"GT", {"gt", "Tensor"}},
          {"GE", {"ge", "Tensor"}},
  };
  return *table;
}

at::Tensor call(const char* name, const at::Tensor& x) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow((std::string("aten::") + name).c_str(), "")
      .typed<at::Tensor(const at::Tensor&)>()
      .call(x);
}

at::Tensor call(std::pair<const char*, const char*> name,
                const at::Tensor& a,
                const at::Tensor& b) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow((std::string("aten::") + name.first).c_str(),
                         name.second)
      .typed<at::Tensor(const at::Tensor&, const at::Tensor&)>()
      .call(a, b);
}

std::string_view base_name(const ir::Operation& op) {
  return std::string_view(op.name).substr(op.name.find('.') + 1);
}

bool is_integer(const at::Tensor& x) {
  return c10::isIntegralType(x.scalar_type(), true);
}

// f on every element of a real floating-point tensor.
template <typename F>
at::Tensor map(const at::Tensor& x, F f) {
  at::Tensor result = x.clone(at::MemoryFormat::Contiguous);
  if (x.scalar_type() == at::kDouble) {
    double* data = result.mutable_data_ptr<double>();
    for (int64_t i = 0; i < result.numel(); ++i)
      data[i] = f(data[i]);
  } else {
    float* data = result.mutable_data_ptr<float>();
    for (int64_t i = 0; i < result.numel(); ++i)
      data[i] = f(data[i]);
  }
  return result;
}

at::Tensor cbrt(const at::Tensor& x) {
  return map(x, [](auto v) { return std::cbrt(v); });
}

at::Tensor round_away(const at::Tensor& x) {
  return map(x, [](auto v) { return std::round(v); });
}

at::Tensor sign(const at::Tensor& x) {
  if (x.is_complex())
    return call("sgn", x);
  // Keeps NaN and the sign of zero.
  return map(x, [](auto v) { return v > 0 ? 1 : v < 0 ? -1 : v; });
}

at::Tensor real(const at::Tensor& x) {
  return x.is_complex() ? at::real(x).contiguous() : x;
}

at::Tensor imag(const at::Tensor& x) {
  return x.is_complex() ? at::imag(x).contiguous() : at::zeros_like(x);
}

Tensors unary(const Evaluation& e) {
  static const std::map<std::string_view, Unary> kOurs{
      {"cbrt", cbrt},
      {"round_nearest_afz", round_away},
      {"sign", sign},
      {"real", real},
      {"imag", imag},
  };
  const std::string_view name = base_name(e.op);
  const at::Tensor x = widen(e.in(0));
  const auto ours = kOurs.find(name);
  const at::Tensor y =
      ours != kOurs.end() ? ours->second(x) : call(aten_unary().at(name), x);
  return {y.to(to_scalar_type(e.dtype()))};
}

Tensors integer_unary(const Evaluation& e) {
  const std::string_view name = base_name(e.op);
  if (is_integer(e.in(0)))
    return {integer_binary(name, e.in(0), e.in(0))};
  return unary(e);
}

Tensors binary(const Evaluation& e) {
  return {apply_binary(base_name(e.op), e.in(0), e.in(1))};
}

Tensors complex(const Evaluation& e) {
  return {at::complex(e.in(0), e.in(1))};
}

// polygamma(n, x) with a tensor n.
Tensors polygamma(const Evaluation& e) {
  const at::Tensor n = widen(e.in(0)), x = widen(e.in(1));
  // (-1)^(n+1) n! zeta(n+1, x)
  const at::Tensor sign = n.add(1).mul(M_PI).cos().round();
  const at::Tensor value =
      sign.mul(at::lgamma(n.add(1)).exp()).mul(at::special_zeta(n.add(1), x));
  return {
      at::where(n.eq(0), at::digamma(x), value).to(to_scalar_type(e.dtype()))};
}

Tensors compare(const Evaluation& e) {
  const std::string& direction = e.string("comparison_direction");
  const at::Tensor &a = e.in(0), &b = e.in(1);
  if (is_integer(a))
    return {integer_compare(direction, a, b)};
  return {call(aten_binary().at(direction), widen(a), widen(b))};
}

Tensors select(const Evaluation& e) {
  return {from_carrier(at::where(e.in(0), carrier(e.in(1)), carrier(e.in(2))),
                       to_scalar_type(e.dtype()))};
}

Tensors clamp(const Evaluation& e) {
  return {apply_binary(
      "minimum", apply_binary("maximum", e.in(1), e.in(0)), e.in(2))};
}

Tensors convert(const Evaluation& e) {
  return {convert_to(e.in(0), e.dtype())};
}

Tensors bitcast(const Evaluation& e) {
  return {e.in(0).view(to_scalar_type(e.dtype()))};
}

// XLA's rounding to fewer bits of exponent and mantissa.
template <typename Float, typename Bits>
Float reduce_precision(Float value, int exponent_bits, int mantissa_bits) {
  constexpr int kMantissa = std::numeric_limits<Float>::digits - 1;
  constexpr int kExponent = int(sizeof(Float)) * 8 - 1 - kMantissa;
  if (!std::isfinite(value))
    return value;
  Bits bits = std::bit_cast<Bits>(value);
  constexpr Bits kSign = Bits{1} << (sizeof(Float) * 8 - 1);
  if (mantissa_bits < kMantissa) {
    const int dropped = kMantissa - mantissa_bits;
    const Bits last = Bits{1} << dropped;
    const Bits bias = ((bits & last) >> dropped) + (last >> 1) - 1;
    bits = (bits + bias) & ~(last - 1);
  }
  if (exponent_bits < kExponent) {
    const Bits mask = ((Bits{1} << kExponent) - 1) << kMantissa;
    const Bits bias = (Bits{1} << (kExponent - 1)) - 1;
    const Bits reduced_bias = (Bits{1} << (exponent_bits - 1)) - 1;
    const Bits largest = (bias + reduced_bias) << kMantissa;
    const Bits smallest = (bias - reduced_bias) << kMantissa;
    const Bits exponent = bits & mask;
    const Bits sign = bits & kSign;
    if (exponent > largest)
      bits = sign | mask;
    else if (exponent <= smallest)
      bits = sign;
  }
  return std::bit_cast<Float>(bits);
}

Tensors reduce_precision(const Evaluation& e) {
  const int exponent = int(e.integer("exponent_bits"));
  const int mantissa = int(e.integer("mantissa_bits"));
  const at::Tensor y = map(widen(e.in(0)), [&](auto v) {
    using Float = decltype(v);
    using Bits = std::conditional_t<sizeof(Float) == 8, uint64_t, uint32_t>;
    return reduce_precision<Float, Bits>(v, exponent, mantissa);
  });
  return {y.to(to_scalar_type(e.dtype()))};
}

constexpr Instruction kInstructions[] = {
    {"stablehlo.abs", integer_unary},
    {"stablehlo.cbrt", unary},
    {"stablehlo.ceil", unary},
    {"stablehlo.cosine", unary},
    {"stablehlo.count_leading_zeros", integer_unary},
    {"stablehlo.exponential", unary},
    {"stablehlo.exponential_minus_one", unary},
    {"stablehlo.floor", unary},
    {"stablehlo.imag", unary},
    {"stablehlo.is_finite", unary},
    {"stablehlo.log", unary},
    {"stablehlo.log_plus_one", unary},
    {"stablehlo.logistic", unary},
    {"stablehlo.negate", integer_unary},
    {"stablehlo.not", integer_unary},
    {"stablehlo.popcnt", integer_unary},
    {"stablehlo.real", unary},
    {"stablehlo.round_nearest_afz", unary},
    {"stablehlo.round_nearest_even", unary},
    {"stablehlo.rsqrt", unary},
    {"stablehlo.sign", integer_unary},
    {"stablehlo.sine", unary},
    {"stablehlo.sqrt", unary},
    {"stablehlo.tan", unary},
    {"stablehlo.tanh", unary},
    {"chlo.acos", unary},
    {"chlo.acosh", unary},
    {"chlo.asin", unary},
    {"chlo.asinh", unary},
    {"chlo.atan", unary},
    {"chlo.atanh", unary},
    {"chlo.bessel_i1e", unary},
    {"chlo.conj", unary},
    {"chlo.cosh", unary},
    {"chlo.digamma", unary},
    {"chlo.erf", unary},
    {"chlo.erf_inv", unary},
    {"chlo.erfc", unary},
    {"chlo.is_inf", unary},
    {"chlo.is_neg_inf", unary},
    {"chlo.is_pos_inf", unary},
    {"chlo.lgamma", unary},
    {"chlo.sinh", unary},
    {"chlo.square", unary},
    {"chlo.tan", unary},
    {"chlo.next_after", binary},
    {"chlo.polygamma", polygamma},
    {"chlo.zeta", binary},
    {"stablehlo.add", binary},
    {"stablehlo.and", binary},
    {"stablehlo.atan2", binary},
    {"stablehlo.complex", complex},
    {"stablehlo.divide", binary},
    {"stablehlo.maximum", binary},
    {"stablehlo.minimum", binary},
    {"stablehlo.multiply", binary},
    {"stablehlo.or", binary},
    {"stablehlo.power", binary},
    {"stablehlo.remainder", binary},
    {"stablehlo.shift_left", binary},
    {"stablehlo.shift_right_arithmetic", binary},
    {"stablehlo.shift_right_logical", binary},
    {"stablehlo.subtract", binary},
    {"stablehlo.xor", binary},
    {"stablehlo.bitcast_convert", bitcast},
    {"stablehlo.clamp", clamp},
    {"stablehlo.compare", compare},
    {"stablehlo.convert", convert},
    {"stablehlo.reduce_precision", reduce_precision},
    {"stablehlo.select", select},
};

}  // namespace

at::Tensor carrier(const at::Tensor& x) {
  switch (x.scalar_type()) {
    case at::kFloat8_e4m3fn:
    case at::kFloat8_e5m2:
      return x.view(at::kByte);
    case at::kUInt16:
      return x.view(at::kShort);
    case at::kUInt32:
      return x.view(at::kInt);
    case at::kUInt64:
      return x.view(at::kLong);
    default:
      return x;
  }
}

at::Tensor widen(const at::Tensor& x) {
  return c10::isReducedFloatingType(x.scalar_type()) ? x.to(at::kFloat) : x;
}

at::Tensor convert_to(const at::Tensor& x, DType dtype) {
  const at::ScalarType to = to_scalar_type(dtype);
  if (x.scalar_type() == to)
    return x;
  const bool integer = c10::isIntegralType(to, false);
  const at::Tensor source =
      x.is_complex() && !is_complex(dtype) ? at::real(x) : x;
  if (integer || (is_integer(source) && source.scalar_type() != at::kBool))
    return convert_integer(source, to);
  // float8 and the rest know only float32.
  return widen(source).to(to);
}

at::Tensor apply_binary(std::string_view name,
                        const at::Tensor& a,
                        const at::Tensor& b) {
  if (is_integer(a))
    return integer_binary(name, a, b);
  if (name == "next_after")  // of its own dtype: float32 has neighbours nearer
    return call(aten_binary().at(name), a, b);
  const at::Tensor x = widen(a), y = widen(b);
  at::Tensor result;
  if (name == "add")
    result = x.add(y);
  else if (name == "subtract")
    result = x.sub(y);
  else
    result = call(aten_binary().at(name), x, y);
  return result.to(a.scalar_type());
}

std::span<const Instruction> elementwise_instructions() {
  return kInstructions;
}

}  // namespace neuronx::sim
