// SPDX-License-Identifier: Apache-2.0
// The hardware's program: what neuronx-cc refuses, as rules, and the pass that
// rewrites a Program into a form that breaks none. docs/hardware.md lists them.
//
// Only programs on their way to neuronx-cc come here. The simulator runs the
// original, whose semantics the rewrites keep exactly.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "ir/passes.h"
#include "ir/program.h"

namespace neuronx::ir::hardware {

enum class Chip { Trn2, Trn3 };

// "trn2" or "trn3". Throws std::invalid_argument.
Chip chip(std::string_view name);
std::string_view name(Chip chip);

struct Target {
  Chip chip = Chip::Trn2;
  // The compiler runs 64-bit integers natively (--native-int64=enabled, from
  // neuronx-cc 2.27.5334 on). If not, it computes them in 32 bits.
  bool native_int64 = true;
  // Targets of custom calls that replace composites, as in "AwsNeuronSilu";
  // see custom_call_names().
  std::vector<std::string> custom_calls = {};
};

// A restriction of the compiler.
struct Rule {
  std::string_view name;         // "integer-dot"
  std::string_view codes;        // the compiler's errors: "NCC_EVRF035"
  std::string_view source;       // where it is documented
  std::string_view targets;      // "trn2, trn3"
  std::string_view restriction;  // "dot products of integers"
  // What a rewritten program does instead, or, where nothing is rewritten,
  // what to do.
  std::string_view remedy;
  bool rewritten;
};
std::span<const Rule> rules();

struct Violation {
  const Rule* rule;
  std::string operation;  // "stablehlo.dot_general"
  std::string types;      // "int32[2, 3], int32[3, 4] -> int32[2, 4]"
};
// "[integer-dot, NCC_EVRF035] stablehlo.dot_general (int32[2, 3], ...): ..."
std::string to_string(const Violation& violation);

// The program as it is, composites expanded.
std::vector<Violation> violations(const Program& program, const Target& target);

// A program that cannot be rewritten. The text names rule, operation, dtypes
// and what to do.
struct Illegal : std::runtime_error {
  Illegal(const Violation& violation, const std::string& reason);
  const Rule* rule;
};

struct Report {
  int64_t rewrites = 0;      // operations that were rewritten
  int64_t custom_calls = 0;  // composites that became custom calls
  // 64-bit values whose narrowing to 32 bits depends on the data, without
  // native_int64.
  int64_t narrowed = 0;
};

// An equivalent program without composites that breaks no rule. Parameters
// and results keep their bytes and places; float64, complex64 and, on trn2,
// float8_e4m3fn that are only moved have an unsigned integer dtype instead.
// Constants are folded and transpositions sunk (passes.h). `after` sees the
// program after each pass. Throws Illegal.
Program legalize(const Program& program,
                 const Target& target,
                 Report* report = nullptr,
                 const AfterPass& after = {});

// The custom calls that can replace composites.
std::vector<std::string> custom_call_names();
// Of "1" (all), "0" or "" (none), or names with commas between. Throws
// std::invalid_argument for an unknown name.
std::vector<std::string> parse_custom_calls(std::string_view text);

}  // namespace neuronx::ir::hardware
