// SPDX-License-Identifier: Apache-2.0
// Type inference: what every operation accepts and returns. The builder asks
// it for result types, the verifier for agreement.
//
// Attributes have StableHLO's names and are bool, int64_t, Shape or string.
// Differences: a constant's `value` is its row-major bytes; `padding` is a
// flat list low0, high0, low1...; dimension numbers (of dot_general,
// convolution, gather, scatter) are attributes of their own, as in
// `lhs_contracting_dimensions` or `kernel_spatial_dimensions`. Regions see
// nothing but their parameters: those of a `case` are the operands after the
// index.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/program.h"

namespace neuronx::ir {

using Types = std::vector<TensorType>;

// Result types of `op` on operands of the given types. `given` are the
// requested result types, which decide where the operands do not (constant,
// iota, reshape, broadcast_in_dim, convert, bitcast_convert, dot_general,
// convolution, custom_call) and are ignored elsewhere. Attributes and the
// signatures of bodies are checked, their insides are not. Throws
// std::invalid_argument.
Types infer(const Operation& op, const Types& operands, const Types& given);

// Throws std::invalid_argument if a dimension is negative or the size in
// bytes does not fit 63 bits.
void check_type(const TensorType& type, std::string_view where);

// The rest is for the rules, which are grouped by family in infer_*.cpp.
struct Call {
  const Operation& op;
  const Types& operands;
  const Types& given;

  [[noreturn]] void fail(const std::string& message) const;
  void expect_operands(size_t count) const;
  void expect_bodies(size_t count) const;
  const TensorType& in(size_t i) const { return operands[i]; }
  // The requested result i.
  const TensorType& wanted(size_t i = 0) const;
  int64_t rank(size_t i) const { return int64_t(in(i).shape.size()); }

  int64_t integer(const char* key) const;
  bool flag(const char* key) const;
  const std::string& string(const char* key) const;
  const Shape& ints(const char* key) const;
  // `count` entries, each at least `least`.
  const Shape& ints(const char* key, size_t count, int64_t least) const;
  // Distinct dimensions of a tensor of rank `rank`.
  const Shape& dimensions(const char* key, int64_t rank) const;
  int64_t dimension(const char* key, int64_t rank) const;

  // Body i takes `parameters` and returns `results`.
  void expect_body(size_t i,
                   const Types& parameters,
                   const Types& results) const;
};

struct Rule {
  std::string_view name;
  Types (*infer)(const Call&);
  bool has_bodies = false;
};

std::span<const Rule> elementwise_rules();
std::span<const Rule> shape_rules();
std::span<const Rule> region_rules();
std::span<const Rule> contraction_rules();
std::span<const Rule> composite_rules();

// Result types of a composite: those of its body, called with the operands.
Types call_body(const Call& call);

// The strided view lies in the 1-D `extent`. Throws std::invalid_argument.
void check_view(std::string_view where,
                const TensorType& extent,
                const Shape& size,
                const Shape& stride,
                int64_t offset);
// Nor is any dimension broadcast.
void check_written_view(std::string_view where,
                        const TensorType& extent,
                        const Shape& size,
                        const Shape& stride,
                        int64_t offset);

// "[2, 3]" and "float32[2], int64[]".
std::string to_string(const Shape& shape);
std::string to_string(const Types& types);

// Operations between dimensions may leave 64 bits on hostile input.
using Wide = __int128;

}  // namespace neuronx::ir
