// SPDX-License-Identifier: Apache-2.0
// Operations on constants, computed here where the result is exactly what any
// device gives: sums, products, roots and conversions of one rounding,
// integers, comparisons, and what only moves elements. An iota stays what it
// is: the hardware's rules look for indices that one makes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "common/number.h"
#include "common/strides.h"
#include "ir/passes.h"
#include "ir/rebuild.h"

namespace neuronx::ir {
namespace {

// Larger constants are not made: a program should not grow.
constexpr int64_t kMostBytes = 1024;

struct Unknown {};

struct Constant {
  TensorType type;
  std::string bytes;

  const char* element(int64_t i) const {
    return bytes.data() + i * static_cast<int64_t>(itemsize(type.dtype));
  }
};

const Shape& ints(const Operation& op, const char* key) {
  return std::get<Shape>(*op.attribute(key));
}

bool is_computed(DType dtype) {
  if (is_floating_point(dtype))
    return itemsize(dtype) > 1;
  // int64 does not hold the numbers of uint64.
  return !is_complex(dtype) && dtype != DType::UInt64;
}

// Rounds once. Products and quotients of two float32 are exact enough in
// double for that (Figueroa, "When is double rounding innocuous?", 1995).
std::string rounded(DType dtype, double value) {
  // The bits of a NaN differ between devices, and some flush denormals.
  if (std::isnan(value) ||
      (value != 0 && std::fabs(value) < std::numeric_limits<float>::min()))
    throw Unknown{};
  return encode(dtype, value);
}

std::string floating(const std::string& name, DType dtype, double a, double b) {
  if (name == "add")
    return rounded(dtype, a + b);
  if (name == "subtract")
    return rounded(dtype, a - b);
  if (name == "multiply")
    return rounded(dtype, a * b);
  if (name == "divide")
    return rounded(dtype, a / b);
  // Devices differ in the sign of zero.
  if (a == b || std::isnan(a) || std::isnan(b))
    throw Unknown{};
  if (name == "maximum")
    return rounded(dtype, std::max(a, b));
  if (name == "minimum")
    return rounded(dtype, std::min(a, b));
  throw Unknown{};
}

std::string integral(const std::string& name,
                     DType dtype,
                     int64_t a,
                     int64_t b) {
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  const auto wrapped = [&](uint64_t value) {
    return encode(dtype, static_cast<int64_t>(value));
  };
  // Of bool, a sum is "or" and a product "and".
  const bool flag = dtype == DType::Bool;
  if (name == "add")
    return wrapped(flag ? x | y : x + y);
  if (name == "multiply")
    return wrapped(flag ? x & y : x * y);
  if (name == "subtract" && !flag)
    return wrapped(x - y);
  if (name == "divide" && !flag && b != 0 && b != -1)
    return wrapped(static_cast<uint64_t>(a / b));
  if (name == "maximum")
    return encode(dtype, std::max(a, b));
  if (name == "minimum")
    return encode(dtype, std::min(a, b));
  if (name == "and")
    return wrapped(x & y);
  if (name == "or")
    return wrapped(x | y);
  if (name == "xor")
    return wrapped(x ^ y);
  throw Unknown{};
}

std::string unary(const std::string& name, DType dtype, const char* x) {
  if (is_floating_point(dtype)) {
    const double value = decode_double(dtype, x);
    if (name == "negate")
      return rounded(dtype, -value);
    if (name == "abs")
      return rounded(dtype, std::fabs(value));
    if (name == "sqrt" && value >= 0)
      return rounded(dtype, std::sqrt(value));
  } else {
    const int64_t value = decode_int(dtype, x);
    if (name == "not")
      return encode(dtype, dtype == DType::Bool ? int64_t(!value) : ~value);
    if (name == "negate" && dtype != DType::Bool)
      return encode(dtype, static_cast<int64_t>(-static_cast<uint64_t>(value)));
  }
  throw Unknown{};
}

std::string converted(DType from, DType to, const char* x) {
  if (!is_floating_point(from)) {
    const int64_t value = decode_int(from, x);
    return encode(to, value);
  }
  const double value = decode_double(from, x);
  if (is_floating_point(to)) {
    const std::string bytes = rounded(to, value);
    // What is out of range differs between devices.
    if (std::isinf(decode_double(to, bytes.data())) != std::isinf(value))
      throw Unknown{};
    return bytes;
  }
  const std::string bytes = encode(to, value);
  if (to != DType::Bool &&
      static_cast<double>(decode_int(to, bytes.data())) != std::trunc(value))
    throw Unknown{};
  return bytes;
}

template <typename T>
bool compared(const std::string& direction, T a, T b) {
  return direction == "EQ"   ? a == b
         : direction == "NE" ? a != b
         : direction == "LT" ? a < b
         : direction == "LE" ? a <= b
         : direction == "GT" ? a > b
                             : a >= b;
}

// For each element of the result, which element of the operand it is.
std::vector<int64_t> moved_from(const Operation& op,
                                const Shape& from,
                                const Shape& to) {
  const Dims stride = contiguous_strides(from);
  Shape steps(to.size(), 0);
  int64_t start = 0;
  if (op.name == "stablehlo.broadcast_in_dim") {
    const Shape& dimensions = ints(op, "broadcast_dimensions");
    for (size_t d = 0; d < from.size(); ++d)
      steps[dimensions[d]] = from[d] == 1 ? 0 : stride[d];
  } else if (op.name == "stablehlo.transpose") {
    const Shape& permutation = ints(op, "permutation");
    for (size_t d = 0; d < to.size(); ++d)
      steps[d] = stride[permutation[d]];
  } else if (op.name == "stablehlo.slice") {
    for (size_t d = 0; d < to.size(); ++d) {
      steps[d] = stride[d] * ints(op, "strides")[d];
      start += stride[d] * ints(op, "start_indices")[d];
    }
  } else if (op.name == "stablehlo.reverse") {
    std::ranges::copy(stride, steps.begin());
    for (int64_t d : ints(op, "dimensions")) {
      start += stride[d] * (from[d] - 1);
      steps[d] = -steps[d];
    }
  } else if (op.name == "stablehlo.reshape") {
    steps = contiguous_strides(to);
  } else {
    throw Unknown{};
  }
  std::vector<int64_t> positions(static_cast<size_t>(numel(to)));
  const Dims order = contiguous_strides(to);
  for (size_t i = 0; i < positions.size(); ++i) {
    positions[i] = start;
    for (size_t d = 0; d < to.size(); ++d)
      positions[i] += static_cast<int64_t>(i) / order[d] % to[d] * steps[d];
  }
  return positions;
}

// Throws Unknown for what is not computed here.
std::string evaluate(const Operation& op,
                     const std::vector<const Constant*>& operands,
                     const TensorType& type) {
  if (!op.name.starts_with("stablehlo."))
    throw Unknown{};
  const std::string name = op.name.substr(10);
  const int64_t count = type.numel();
  std::string bytes;
  const auto element = [&](size_t k, int64_t i) {
    const Constant& x = *operands[k];
    return x.element(x.type.shape.empty() ? 0 : i);
  };
  const auto append = [&](size_t k, int64_t i) {
    bytes.append(element(k, i), itemsize(type.dtype));
  };
  if (name == "select") {
    for (int64_t i = 0; i < count; ++i)
      append(*element(0, i) ? 1 : 2, i);
    return bytes;
  }
  if (operands.size() == 1 && name != "convert" && name != "negate" &&
      name != "abs" && name != "sqrt" && name != "not") {
    for (int64_t i : moved_from(op, operands[0]->type.shape, type.shape))
      append(0, i);
    return bytes;
  }
  const DType dtype = operands[0]->type.dtype;
  const bool is_float = is_floating_point(dtype);
  if (!is_computed(dtype) || !is_computed(type.dtype))
    throw Unknown{};
  for (const Constant* x : operands)
    if (x->type.shape != type.shape)
      throw Unknown{};
  for (int64_t i = 0; i < count; ++i) {
    const char* x = element(0, i);
    if (name == "convert") {
      bytes += converted(dtype, type.dtype, x);
    } else if (operands.size() == 1) {
      bytes += unary(name, dtype, x);
    } else if (operands.size() != 2) {
      throw Unknown{};
    } else if (name == "compare") {
      const auto& direction =
          std::get<std::string>(*op.attribute("comparison_direction"));
      const char* y = element(1, i);
      bytes += static_cast<char>(
          is_float
              ? compared(
                    direction, decode_double(dtype, x), decode_double(dtype, y))
              : compared(
                    direction, decode_int(dtype, x), decode_int(dtype, y)));
    } else if (is_float) {
      bytes += floating(name,
                        dtype,
                        decode_double(dtype, x),
                        decode_double(dtype, element(1, i)));
    } else {
      bytes += integral(
          name, dtype, decode_int(dtype, x), decode_int(dtype, element(1, i)));
    }
  }
  return bytes;
}

class Folder {
 public:
  explicit Folder(const Program& program) : program_(program) {}

  Program run() {
    return rebuild(program_,
                   [&](Builder& b,
                       const Operation& op,
                       const Values& operands) -> std::optional<Values> {
                     if (op.results.size() != 1 || !op.bodies.empty())
                       return std::nullopt;
                     const TensorType& type = program_.type(op.results[0]);
                     if (is_complex(type.dtype) || type.bytes() > kMostBytes)
                       return std::nullopt;
                     if (op.name == "stablehlo.constant") {
                       const Value v = copy(b, op, operands, {type})[0];
                       known_[v.id] = {
                           type, std::get<std::string>(*op.attribute("value"))};
                       return Values{v};
                     }
                     std::vector<const Constant*> constants;
                     for (Value v : operands) {
                       const auto it = known_.find(v.id);
                       if (it == known_.end())
                         return std::nullopt;
                       constants.push_back(&it->second);
                     }
                     if (constants.empty() || type.numel() == 0)
                       return std::nullopt;
                     try {
                       Constant result{type, evaluate(op, constants, type)};
                       const Value v = b.constant(type, result.bytes);
                       known_[v.id] = std::move(result);
                       ++folded_;
                       return Values{v};
                     } catch (const Unknown&) {
                       return std::nullopt;
                     }
                   });
  }

  size_t folded() const { return folded_; }

 private:
  const Program& program_;
  std::unordered_map<int32_t, Constant> known_;  // of the new one's values
  size_t folded_ = 0;
};

}  // namespace

size_t fold_constants(Program& program) {
  Folder folder(program);
  Program result = folder.run();
  if (folder.folded() > 0) {
    program = std::move(result);
    dead_code_elimination(program);
  }
  return folder.folded();
}

}  // namespace neuronx::ir
