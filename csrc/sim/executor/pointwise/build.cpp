// SPDX-License-Identifier: Apache-2.0
#include "sim/executor/pointwise/build.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <unordered_map>

#include "common/strides.h"
#include "ir/number.h"

namespace neuronx::sim::pointwise {
namespace {

bool is_reduced(DType dtype) {
  return dtype == DType::BFloat16 || dtype == DType::Float16;
}

bool is_loadable(DType dtype) {
  return is_exact(dtype) || dtype == DType::Int32 || dtype == DType::Int64;
}

}  // namespace

// One operator while its instructions are added. A rule that cannot express
// its arguments throws Refused.
class Arguments {
 public:
  using Register = int32_t;
  struct Refused {};

  Arguments(Builder& builder, const FlatOp& op)
      : b_(builder), op_(op), result_(builder.type(op.results[0])) {}

  DType result() const { return result_.dtype; }
  const ir::Attribute& argument(size_t i) const {
    static const ir::Attribute none;
    const auto& list = op_.op->arguments;
    return i < list.size() ? list[i] : none;
  }
  bool has(size_t i) const {
    return !std::holds_alternative<std::monostate>(argument(i));
  }

  // A number that does not change from call to call.
  double number(size_t i) const {
    if (const auto value = ir::number(argument(i)))
      return *value;
    throw Refused{};
  }

  // Operand or number i; an operand must be exact in float32 unless the
  // operator converts it to the float32 of its result.
  Register in(size_t i) {
    if (const int32_t value = operand(i); value >= 0) {
      const DType dtype = b_.type(value).dtype;
      if (!is_exact(dtype) &&
          !(is_loadable(dtype) && result() == DType::Float32))
        throw Refused{};
      return b_.read(value, result_.shape);
    }
    return b_.number(static_cast<float>(number(i)));
  }

  // As above where ATen converts the arguments to their common dtype first.
  Register common(size_t i, DType dtype) {
    const int32_t value = operand(i);
    const DType own = value < 0 ? dtype : b_.type(value).dtype;
    const Register x = in(i);
    return is_reduced(dtype) && (value < 0 || own != dtype) ? round(x, dtype)
                                                            : x;
  }

  // The dtype in which arguments i and j are compared.
  DType common_dtype(size_t i, size_t j) const {
    const auto dtype = [&](size_t k) {
      const int32_t value = operand(k);
      return value < 0 ? DType::Bool : b_.type(value).dtype;
    };
    const DType a = dtype(i), c = dtype(j);
    if (a == c || c == DType::Bool)
      return a;
    if (a == DType::Bool)
      return c;
    throw Refused{};
  }

  bool flag(size_t i) const {
    const auto* v = std::get_if<bool>(&argument(i));
    return v && *v;
  }
  std::string text(size_t i) const {
    const auto* v = std::get_if<std::string>(&argument(i));
    return v ? *v : "";
  }

  Register constant(double value) {
    return b_.number(static_cast<float>(value));
  }
  Register operator()(Opcode opcode,
                      Register a,
                      Register b = -1,
                      Register c = -1) {
    return b_.emit(opcode, a, b, c);
  }
  Register round(Register x, DType dtype) {
    if (dtype == DType::BFloat16)
      return b_.emit(Opcode::ToBFloat16, x);
    if (dtype == DType::Float16)
      return b_.emit(Opcode::ToFloat16, x);
    return x;
  }

 private:
  int32_t operand(size_t i) const {
    if (const auto* v = std::get_if<ir::Operand>(&argument(i)))
      return op_.operands.at(v->index);
    if (const auto* v = std::get_if<ir::NumberTensor>(&argument(i));
        v && v->operand >= 0)
      return op_.operands.at(v->operand);
    return -1;
  }

  Builder& b_;
  const FlatOp& op_;
  const ir::TensorType& result_;
};

namespace {

using Register = Arguments::Register;
using Rule = std::function<Register(Arguments&)>;
using enum Opcode;

void require(bool condition) {
  if (!condition)
    throw Arguments::Refused{};
}

void require_floating(const Arguments& a) {
  require(is_floating_point(a.result()));
}

Rule unary(Opcode opcode) {
  return [opcode](Arguments& a) {
    require_floating(a);
    return a(opcode, a.in(0));
  };
}

Rule binary(Opcode opcode) {
  return [opcode](Arguments& a) {
    require_floating(a);
    return a(opcode, a.in(0), a.in(1));
  };
}

Rule common(Opcode opcode) {
  return [opcode](Arguments& a) {
    require_floating(a);
    return a(opcode, a.common(0, a.result()), a.common(1, a.result()));
  };
}

Rule comparison(Opcode opcode) {
  return [opcode](Arguments& a) {
    const DType dtype = a.common_dtype(0, 1);
    require(is_floating_point(dtype));
    return a(opcode, a.common(0, dtype), a.common(1, dtype));
  };
}

// Of bool, or with any operands where the result is bool.
Rule logical(Opcode opcode, bool bitwise) {
  return [opcode, bitwise](Arguments& a) {
    require(a.result() == DType::Bool);
    if (bitwise)
      require(a.common_dtype(0, 1) == DType::Bool);
    return a(opcode, a.in(0), a.in(1));
  };
}

Register multiply(Arguments& a) {
  if (a.result() == DType::Bool)
    return a(And, a.in(0), a.in(1));
  require_floating(a);
  return a(Mul, a.in(0), a.in(1));
}

// self + sign * alpha * other
Rule sum(double sign) {
  return [sign](Arguments& a) {
    require_floating(a);
    const double alpha = a.has(2) ? a.number(2) : 1;
    const DType dtype = a.result();
    const Register x = a.in(0), y = a.common(1, dtype);
    if (alpha == 1)
      return a(sign > 0 ? Add : Sub, x, y);
    return a(AddScaled, x, y, a.round(a.constant(sign * alpha), dtype));
  };
}

Register subtract_from(Arguments& a) {
  require_floating(a);
  require(!a.has(2) || a.number(2) == 1);
  return a(Sub, a.in(1), a.in(0));
}

// The powers that PowKernel.cpp singles out.
Register power(Arguments& a) {
  require_floating(a);
  const double exponent = a.number(1);
  const Register x = a.in(0);
  if (exponent == 2)
    return a(Square, x);
  require(a.result() == DType::Float32);
  if (exponent == 1)
    return x;
  if (exponent == 3)
    return a(Mul, a(Square, x), x);
  if (exponent == 0.5)
    return a(Sqrt, x);
  if (exponent == -0.5)
    return a(Rsqrt, x);
  if (exponent == -1)
    return a(Reciprocal, x);
  if (exponent == -2)
    return a(Reciprocal, a(Square, x));
  return a(Pow, x, a.constant(exponent));
}

Register clamp(Arguments& a) {
  require_floating(a);
  Register x = a.in(0);
  if (a.has(1))
    x = a(ClampMin, x, a.common(1, a.result()));
  if (a.has(2))
    x = a(ClampMax, x, a.common(2, a.result()));
  return x;
}

Rule clamp_to(Opcode opcode) {
  return [opcode](Arguments& a) {
    require_floating(a);
    return a(opcode, a.in(0), a.common(1, a.result()));
  };
}

Register convert(Arguments& a) {
  return a.result() == DType::Bool ? a(ToBool, a.in(0)) : a.in(0);
}

Register copy(Arguments& a) {
  return a.result() == DType::Bool ? a(ToBool, a.in(1)) : a.in(1);
}

Register gelu(Arguments& a) {
  require_floating(a);
  return a(a.text(1) == "tanh" ? GeluTanh : Gelu, a.in(0));
}

Register logical_not(Arguments& a) {
  require(a.result() == DType::Bool);
  return a(Not, a.in(0));
}

Register is_nan(Arguments& a) {
  return a(IsNan, a.in(0));
}

Register where(Arguments& a) {
  require(is_register_dtype(a.result()));
  return a(Where, a.in(0), a.common(1, a.result()), a.common(2, a.result()));
}

Register masked_fill(Arguments& a) {
  require(is_register_dtype(a.result()));
  return a(Where, a.in(1), a.common(2, a.result()), a.in(0));
}

Register leaky_relu(Arguments& a) {
  require(a.result() == DType::Float32);
  const Register x = a.in(0);
  const Register scaled = a(Mul, x, a.constant(a.has(1) ? a.number(1) : 0.01));
  return a(Where, a(Gt, x, a.constant(0)), x, scaled);
}

Register threshold_backward(Arguments& a) {
  require_floating(a);
  const Register low = a(Le, a.in(1), a.constant(a.number(2)));
  return a(Where, low, a.constant(0), a.in(0));
}

// The formulas of ATen/native/cpu/Activation.cpp and BinaryOpsKernel.cpp.
Register silu_backward(Arguments& a) {
  require_floating(a);
  const Register x = a.in(1), one = a.constant(1);
  const Register s = a(Div, one, a(Add, one, a(Exp, a(Neg, x))));
  return a(Mul, a(Mul, a.in(0), s), a(Add, one, a(Mul, x, a(Sub, one, s))));
}

Register sigmoid_backward(Arguments& a) {
  require(a.result() == DType::Float32);
  const Register y = a.in(1);
  return a(Mul, a(Mul, a.in(0), a(Sub, a.constant(1), y)), y);
}

Register tanh_backward(Arguments& a) {
  require(a.result() == DType::Float32);
  const Register y = a.in(1);
  return a(Mul, a.in(0), a(Sub, a.constant(1), a(Square, y)));
}

Register gelu_backward(Arguments& a) {
  require_floating(a);
  require(a.text(2) != "tanh");
  const Register x = a.in(1);
  const Register erf = a(Erf, a(Mul, x, a.constant(M_SQRT1_2)));
  const Register cdf = a(Mul, a.constant(0.5), a(Add, a.constant(1), erf));
  const Register square = a(Square, x);
  const Register pdf = a(Mul,
                         a.constant(M_2_SQRTPI * M_SQRT1_2 * 0.5),
                         a(Exp, a(Mul, square, a.constant(-0.5))));
  return a(Mul, a.in(0), a(Add, cdf, a(Mul, x, pdf)));
}

Rule addc(Opcode opcode) {
  return [opcode](Arguments& a) {
    require(a.result() == DType::Float32);
    const double scale = a.has(3) ? a.number(3) : 1;
    Register x = a.in(1);
    if (scale != 1)
      x = a(Mul, a.constant(scale), x);
    return a(Add, a.in(0), a(opcode, x, a.in(2)));
  };
}

// As at::native::lerp, whose form depends on the weight.
Register lerp(Arguments& a) {
  require(a.result() == DType::Float32);
  const double weight = a.number(2);
  const Register from = a.in(0), to = a.in(1);
  const Register span = a(Sub, to, from);
  if (std::abs(weight) < 0.5)
    return a(Add, from, a(Mul, a.constant(weight), span));
  return a(Sub, to, a(Mul, span, a.constant(1 - float(weight))));
}

const std::unordered_map<std::string, Rule>& rules() {
  static const auto* table = new std::unordered_map<std::string, Rule>{
      {"aten.neg", unary(Neg)},
      {"aten.abs", unary(Abs)},
      {"aten.relu", unary(Relu)},
      {"aten.exp", unary(Exp)},
      {"aten.exp2", unary(Exp2)},
      {"aten.expm1", unary(Expm1)},
      {"aten.log", unary(Log)},
      {"aten.log1p", unary(Log1p)},
      {"aten.log2", unary(Log2)},
      {"aten.log10", unary(Log10)},
      {"aten.sqrt", unary(Sqrt)},
      {"aten.rsqrt", unary(Rsqrt)},
      {"aten.reciprocal", unary(Reciprocal)},
      {"aten.sin", unary(Sin)},
      {"aten.cos", unary(Cos)},
      {"aten.tan", unary(Tan)},
      {"aten.tanh", unary(Tanh)},
      {"aten.sigmoid", unary(Sigmoid)},
      {"aten.silu", unary(Silu)},
      {"aten.gelu", gelu},
      {"aten.erf", unary(Erf)},
      {"aten.erfc", unary(Erfc)},
      {"aten.floor", unary(Floor)},
      {"aten.ceil", unary(Ceil)},
      {"aten.trunc", unary(Trunc)},
      {"aten.round", unary(Round)},
      {"aten.sign", unary(Sign)},
      {"aten.isnan", is_nan},
      {"aten.logical_not", logical_not},
      {"aten.bitwise_not", logical_not},
      {"aten.add.Tensor", sum(1)},
      {"aten.add.Scalar", sum(1)},
      {"aten.sub.Tensor", sum(-1)},
      {"aten.sub.Scalar", sum(-1)},
      {"aten.rsub.Tensor", subtract_from},
      {"aten.rsub.Scalar", subtract_from},
      {"aten.mul.Tensor", multiply},
      {"aten.mul.Scalar", multiply},
      {"aten.div.Tensor", binary(Div)},
      {"aten.div.Scalar", binary(Div)},
      {"aten.maximum", common(Maximum)},
      {"aten.minimum", common(Minimum)},
      {"aten.eq.Tensor", comparison(Eq)},
      {"aten.eq.Scalar", comparison(Eq)},
      {"aten.ne.Tensor", comparison(Ne)},
      {"aten.ne.Scalar", comparison(Ne)},
      {"aten.lt.Tensor", comparison(Lt)},
      {"aten.lt.Scalar", comparison(Lt)},
      {"aten.le.Tensor", comparison(Le)},
      {"aten.le.Scalar", comparison(Le)},
      {"aten.gt.Tensor", comparison(Gt)},
      {"aten.gt.Scalar", comparison(Gt)},
      {"aten.ge.Tensor", comparison(Ge)},
      {"aten.ge.Scalar", comparison(Ge)},
      {"aten.logical_and", logical(And, false)},
      {"aten.logical_or", logical(Or, false)},
      {"aten.bitwise_and.Tensor", logical(And, true)},
      {"aten.bitwise_or.Tensor", logical(Or, true)},
      {"aten.pow.Tensor_Scalar", power},
      {"aten.clamp", clamp},
      {"aten.hardtanh", clamp},
      {"aten.clamp_min", clamp_to(ClampMin)},
      {"aten.clamp_max", clamp_to(ClampMax)},
      {"aten._to_copy", convert},
      {"aten.to.dtype", convert},
      {"aten.clone", convert},
      {"aten.copy", copy},
      {"aten.where.self", where},
      {"aten.masked_fill.Scalar", masked_fill},
      {"aten.masked_fill.Tensor", masked_fill},
      {"aten.leaky_relu", leaky_relu},
      {"aten.threshold_backward", threshold_backward},
      {"aten.silu_backward", silu_backward},
      {"aten.sigmoid_backward", sigmoid_backward},
      {"aten.tanh_backward", tanh_backward},
      {"aten.gelu_backward", gelu_backward},
      {"aten.addcmul", addc(Mul)},
      {"aten.addcdiv", addc(Div)},
      {"aten.lerp.Scalar", lerp},
  };
  return *table;
}

const Rule* find_rule(const FlatOp& op) {
  std::string name = op.op->name;
  if (name.ends_with(".default"))
    name.resize(name.size() - 8);
  const auto found = rules().find(name);
  return found == rules().end() ? nullptr : &found->second;
}

// May `from` be broadcast to `to`?
bool broadcasts(const ir::Shape& from, const ir::Shape& to) {
  if (from.size() > to.size())
    return false;
  for (size_t d = 0; d < from.size(); ++d) {
    const int64_t n = from[from.size() - 1 - d];
    if (n != 1 && n != to[to.size() - 1 - d])
      return false;
  }
  return true;
}

}  // namespace

Builder::Register Builder::number(float value) {
  // NaN has no order among keys.
  if (std::isnan(value))
    throw Arguments::Refused{};
  const auto [entry, added] = numbers_.try_emplace(value, -1);
  // 0 and -0 are one key.
  if (!added && std::signbit(entry->first) != std::signbit(value))
    throw Arguments::Refused{};
  if (added)
    entry->second = fresh();
  return entry->second;
}

void Builder::constant(int32_t value, double number) {
  values_[value] = this->number(static_cast<float>(number));
}

bool Builder::take(int32_t value) {
  if (!is_exact(type(value).dtype))
    return false;
  values_[value] = read(value, type(value).shape);
  return true;
}

std::optional<double> Builder::number_of(int32_t value) const {
  const auto known = values_.find(value);
  if (known != values_.end())
    for (const auto& [number, r] : numbers_)
      if (r == known->second)
        return number;
  return std::nullopt;
}

Builder::Register Builder::read(int32_t value,
                                const ir::Shape& shape,
                                int8_t shift) {
  if (const auto known = values_.find(value); known != values_.end())
    return known->second;
  if (!broadcasts(type(value).shape, shape))
    throw Arguments::Refused{};
  const auto [entry, added] = loads_.try_emplace({value, shape, shift}, -1);
  if (added) {
    entry->second = fresh();
    const auto known = std::find(operands_.begin(), operands_.end(), value);
    const auto operand = static_cast<int32_t>(known - operands_.begin());
    if (known == operands_.end())
      operands_.push_back(value);
    reads_.push_back({operand, entry->second, type(value).dtype, shape, shift});
  }
  return entry->second;
}

Builder::Register Builder::emit(Opcode opcode,
                                Register a,
                                Register b,
                                Register c) {
  const Register result = fresh();
  if (opcode == Opcode::Mul && a == b)
    opcode = Opcode::Square, b = -1;
  instructions_.push_back({opcode, result, a, b, c});
  return result;
}

bool Builder::add(const FlatOp& op) {
  if (op.results.size() != 1)
    return false;
  const DType dtype = type(op.results[0]).dtype;
  const Rule* rule = op.aten ? find_rule(op) : nullptr;
  const bool primitive = !op.aten && is_primitive(op.op->name);
  if (!primitive && (!rule || !is_register_dtype(dtype)))
    return false;
  const Builder before = *this;
  try {
    Arguments arguments(*this, op);
    const auto value =
        primitive ? this->primitive(op) : std::optional((*rule)(arguments));
    if (value) {
      values_[op.results[0]] = arguments.round(*value, dtype);
      return true;
    }
  } catch (const Arguments::Refused&) {
  }
  registers_ = before.registers_;
  values_ = before.values_;
  numbers_ = before.numbers_;
  loads_ = before.loads_;
  reads_ = before.reads_;
  operands_ = before.operands_;
  instructions_ = before.instructions_;
  return false;
}

void set_layout(Load& load,
                const ir::Shape& size,
                const ir::Shape& stride,
                const ir::Shape& shape) {
  ir::Shape strides(shape.size(), 0);
  const size_t missing = shape.size() - size.size();
  for (size_t d = 0; d < size.size(); ++d)
    if (size[d] == shape[d + missing])
      strides[d + missing] = stride[d];
  if (is_contiguous(shape, strides))
    return;
  auto layout = collapse(shape, strides);
  load.size = std::move(layout.size);
  load.stride = std::move(layout.stride);
}

}  // namespace neuronx::sim::pointwise
