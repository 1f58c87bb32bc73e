// SPDX-License-Identifier: Apache-2.0
// What the files hardware_*.cpp share. See hardware.h.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/hardware.h"
#include "ir/infer.h"

namespace neuronx::ir::hardware {

// For each value of a program the operation that defines it, or nullptr.
using Definitions = std::vector<const Operation*>;
Definitions definitions(const Program& program);

// An operation of a program without composites. Parameters and results of
// the whole program are an operation "module", whose results are the
// parameters and whose operands the results.
struct Site {
  const Program& program;
  const Definitions& defined_by;
  const Operation& op;
  const Target& target;

  bool is(std::string_view name) const { return op.name == name; }
  const TensorType& in(size_t i) const { return program.type(op.operands[i]); }
  const TensorType& out(size_t i = 0) const {
    return program.type(op.results[i]);
  }
  // Any operand or result has a dtype for which `test` holds.
  template <typename Test>
  bool touches(Test test) const {
    for (const auto* values : {&op.operands, &op.results})
      for (Value v : *values)
        if (test(program.type(v).dtype))
          return true;
    return false;
  }
  const Shape& ints(const char* key) const {
    return std::get<Shape>(*op.attribute(key));
  }
  int64_t integer(const char* key) const {
    return std::get<int64_t>(*op.attribute(key));
  }
  std::string types() const;
};

// Why a rewrite does not apply to a form of its operation.
struct Inexpressible : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Appends to `b` what computes the results of the site's operation from
// `operands`, values of `b`. Throws Inexpressible.
using Rewrite = Values (*)(Builder& b,
                           const Site& site,
                           const Values& operands);

struct Check {
  Rule rule;
  bool (*violated)(const Site& site);
  Rewrite rewrite = nullptr;
};
std::span<const Check> checks();
const Rule& rule(std::string_view name);

// The custom call in place of a composite, if `target` wants one.
std::optional<Values> custom_call(Builder& b,
                                  const Program& program,
                                  const Operation& composite,
                                  const Values& operands,
                                  const Target& target);
bool is_known_custom_call(std::string_view name);

// The region's results for whole tensors of `shape`, elementwise.
Values lift(Builder& b,
            const Program& region,
            const Values& arguments,
            const Shape& shape);
// "stablehlo.add" for a region that combines its two parameters with one
// operation, "" for one that returns parameter 1, else nullopt.
std::optional<std::string> combiner(const Program& region);

// hardware_integer.cpp
Values rewrite_dot(Builder& b, const Site& site, const Values& operands);
Values rewrite_scatter(Builder& b, const Site& site, const Values& operands);
Values rewrite_power(Builder& b, const Site& site, const Values& operands);
Values rewrite_shift(Builder& b, const Site& site, const Values& operands);
Values rewrite_constant(Builder& b, const Site& site, const Values& operands);

// hardware_window.cpp
Values rewrite_window(Builder& b, const Site& site, const Values& operands);
Values rewrite_dilation(Builder& b, const Site& site, const Values& operands);
Values rewrite_gather(Builder& b, const Site& site, const Values& operands);
// Some index of a gather or scatter is an iota that leaves the operand.
bool reaches_outside(const Site& site);

// hardware_sort.cpp
Values rewrite_sort(Builder& b, const Site& site, const Values& operands);

// hardware_philox.cpp: Builder::philox without 64-bit arithmetic.
Value philox_32(Builder& b, Value seed, Value offset, int64_t n);

// hardware_dtype.cpp
// `from` retyped to the unsigned integer dtype of its size, if the program
// only moves it. Returns whether anything changed.
bool retype_moved(Program& program, DType from);
// 64-bit integers computed in 32 bits, but for parameters and results.
Program narrow(const Program& program, const Target& target, Report& report);
bool is_wide(DType dtype);

}  // namespace neuronx::ir::hardware
