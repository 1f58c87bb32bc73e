// SPDX-License-Identifier: Apache-2.0
// Programs that break one rule of the hardware each, and what they become.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/hardware.h"

namespace neuronx::ir::hardware {

struct Rewritten {
  std::string rule, label;
  std::function<Values(Builder&)> build;
  std::string becomes;  // an operation of the legal program
  // Parameter 1 holds indices in [-1, index_end), unless 0.
  int64_t index_end = 0;

  Program program() const {
    Builder b;
    const Values results = build(b);
    return b.finish(results);
  }
};

inline std::ostream& operator<<(std::ostream& out, const Rewritten& c) {
  return out << c.rule << ": " << c.label;
}

inline Region combine(const std::string& op) {
  return [op](Builder& b, const Values& v) -> Values {
    return {b.binary(op, v[0], v[1])};
  };
}

// Batched, with the contracted dimension first on the left.
inline Rewritten dot_case(DType dtype, DType result, int64_t depth) {
  return {"integer-dot",
          std::string(neuronx::name(dtype)) + " deep " + std::to_string(depth),
          [=](Builder& b) -> Values {
            const Value x = b.parameter({dtype, {depth, 2, 3}});
            const Value y = b.parameter({dtype, {2, 4, depth}});
            return {b.dot_general(x,
                                  y,
                                  {.lhs_batch = {1},
                                   .rhs_batch = {0},
                                   .lhs_contract = {0},
                                   .rhs_contract = {2}},
                                  result)};
          },
          "stablehlo.dot_general"};
}

// Rows of 3, each of which several updates may reach.
inline Rewritten scatter_case(DType dtype,
                              const std::string& op,
                              int64_t count = 40) {
  return {"integer-scatter",
          std::string(neuronx::name(dtype)) + " " + op + " of " +
              std::to_string(count),
          [=](Builder& b) -> Values {
            const Value x = b.parameter({dtype, {5, 3}});
            const Value index = b.parameter({DType::Int32, {count, 1}});
            const Value updates = b.parameter({dtype, {count, 3}});
            return {b.scatter(x,
                              index,
                              updates,
                              {.update_window = {1},
                               .inserted_window = {0},
                               .scatter_to_operand = {0},
                               .index_vector = 1},
                              combine(op))};
          },
          "stablehlo.scatter",
          6};
}

inline Rewritten shift_case(DType dtype) {
  return {"arithmetic-shift",
          std::string(neuronx::name(dtype)),
          [=](Builder& b) -> Values {
            const TensorType type{dtype, {64}};
            const Value x = b.parameter(type);
            // Also by more than all bits.
            const Value count =
                b.convert(b.iota({DType::Int32, {64}}, 0), dtype);
            const Value other = b.mul(count, b.constant(dtype, 5, {64}));
            return {b.binary("shift_right_arithmetic", x, count),
                    b.binary("shift_right_arithmetic", x, other)};
          },
          itemsize(dtype) == 8 ? "stablehlo.shift_right_logical"
                               : "stablehlo.convert"};
}

inline Rewritten sort_case(DType dtype, int64_t length, bool descending) {
  return {
      "sort",
      std::string(neuronx::name(dtype)) + " of " + std::to_string(length),
      [=](Builder& b) -> Values {
        const TensorType type{dtype, {2, length, 3}};
        const Value x = b.parameter(type);
        const Value position = b.iota({DType::Int64, type.shape}, 1);
        return b.sort(
            {x, position}, 1, true, [&](Builder& r, const Values& v) -> Values {
              return {r.compare(
                  descending ? Compare::GT : Compare::LT, v[0], v[1])};
            });
      },
      "stablehlo.select"};
}

inline ConvolutionDimensions convolution_dimensions() {
  return {.stride = {1, 1},
          .pad_low = {1, 0},
          .pad_high = {0, 2},
          .lhs_dilation = {1, 1},
          .rhs_dilation = {1, 1},
          .input = {0, 1, 2, 3},
          .kernel = {0, 1, 2, 3},
          .output = {0, 1, 2, 3}};
}

inline Value convolve(Builder& b, const ConvolutionDimensions& dimensions) {
  const Value x = b.parameter({DType::Float32, {2, 3, 5, 4}});
  const Value kernel = b.parameter({DType::Float32, {4, 3, 2, 2}});
  return b.convolution(x, kernel, dimensions, DType::Float32);
}

inline std::vector<Rewritten> rewritten_cases() {
  std::vector<Rewritten> cases;
  for (DType dtype :
       {DType::UInt8, DType::Int8, DType::Int16, DType::Int32, DType::Int64})
    for (int64_t depth : {5, 600})
      cases.push_back(dot_case(dtype, dtype, depth));
  cases.push_back(dot_case(DType::Int8, DType::Int32, 600));
  cases.push_back(dot_case(DType::Int32, DType::Int32, 0));
  for (DType dtype :
       {DType::UInt8, DType::Int16, DType::Int32, DType::UInt32, DType::Int64})
    for (const char* op : {"add", "maximum", "minimum"})
      cases.push_back(scatter_case(dtype, op));
  cases.push_back(scatter_case(DType::Bool, "or"));
  cases.push_back(scatter_case(DType::Bool, "and"));
  // Limbs of 16, 12 and 8 bits.
  cases.push_back(scatter_case(DType::Int32, "add", 257));
  cases.push_back(scatter_case(DType::Int32, "add", 4000));
  cases.push_back(scatter_case(DType::Int64, "add", 60000));
  for (DType dtype : {DType::Int8, DType::UInt8, DType::Int16, DType::Int64})
    cases.push_back(shift_case(dtype));
  for (int64_t length : {2, 3, 8, 37})
    for (bool descending : {false, true})
      cases.push_back(sort_case(DType::Int32, length, descending));
  cases.push_back(sort_case(DType::Float32, 21, true));
  cases.push_back({"int64-power",
                   "any exponent",
                   [](Builder& b) -> Values {
                     const TensorType type{DType::Int64, {300}};
                     const Value base = b.parameter(type);
                     const Value exponent = b.parameter(type);
                     const Value few = b.constant(DType::Int64, 7, {300});
                     // Small ones, of both signs.
                     const auto small = [&](Value x) {
                       return b.binary("remainder", x, few);
                     };
                     return {b.binary("power", small(base), small(exponent)),
                             b.binary("power", base, b.unary("abs", exponent))};
                   },
                   "stablehlo.multiply"});
  cases.push_back({"int64-power",
                   "constant exponent",
                   [](Builder& b) -> Values {
                     const Value x = b.parameter({DType::Int64, {50}});
                     const Value five = b.constant(DType::Int64, 5, {50});
                     return {b.binary("power", x, five)};
                   },
                   "stablehlo.multiply"});
  cases.push_back({"uint64-constant",
                   "several",
                   [](Builder& b) -> Values {
                     const uint64_t values[] = {
                         1, 0xFFFFFFFF, 0x123456789, ~uint64_t(0)};
                     const std::string bytes(
                         reinterpret_cast<const char*>(values), sizeof(values));
                     const TensorType type{DType::UInt64, {4}};
                     return {b.add(b.parameter(type), b.constant(type, bytes))};
                   },
                   "stablehlo.shift_left"});
  cases.push_back({"convolution-dilations",
                   "2 and 3",
                   [](Builder& b) -> Values {
                     auto dimensions = convolution_dimensions();
                     dimensions.lhs_dilation = {2, 1};
                     dimensions.rhs_dilation = {1, 3};
                     return {convolve(b, dimensions)};
                   },
                   "stablehlo.pad"});
  cases.push_back({"convolution-stride",
                   "2 and 3",
                   [](Builder& b) -> Values {
                     auto dimensions = convolution_dimensions();
                     dimensions.lhs_dilation = {2, 3};
                     dimensions.stride = {3, 2};
                     return {convolve(b, dimensions)};
                   },
                   "stablehlo.pad"});
  cases.push_back({"window-dilation",
                   "of a maximum",
                   [](Builder& b) -> Values {
                     const Value x = b.parameter({DType::Float32, {3, 9, 8}});
                     return {b.reduce_window(x,
                                             b.constant(DType::Float32, -1e30),
                                             {.size = {1, 3, 2},
                                              .stride = {1, 2, 1},
                                              .dilation = {1, 2, 3},
                                              .pad_low = {0, 1, 2},
                                              .pad_high = {0, 2, 0}},
                                             Reduce::Max)};
                   },
                   "stablehlo.slice"});
  cases.push_back(
      {"window-operands",
       "a maximum with its position",
       [](Builder& b) -> Values {
         const Value x = b.parameter({DType::Float32, {6, 7}});
         const Value position = b.iota({DType::Int32, {6, 7}}, 1);
         return b.reduce_window(
             {x, position},
             {b.constant(DType::Float32, -1e30), b.constant(DType::Int32, -1)},
             {.size = {2, 3},
              .stride = {1, 2},
              .dilation = {1, 1},
              .pad_low = {1, 1},
              .pad_high = {0, 1}},
             [](Builder& r, const Values& v) -> Values {
               const Value keep = r.compare(Compare::GE, v[0], v[2]);
               return {r.select(keep, v[0], v[2]), r.select(keep, v[1], v[3])};
             });
       },
       "stablehlo.slice"});
  cases.push_back({"gather-bounds",
                   "rows",
                   [](Builder& b) -> Values {
                     const Value x = b.parameter({DType::Float32, {3, 4}});
                     const Value index =
                         b.reshape(b.iota({DType::Int32, {10}}, 0), {10, 1});
                     return {b.gather(x,
                                      index,
                                      {.offset = {1},
                                       .collapsed = {0},
                                       .start_index_map = {0},
                                       .index_vector = 1,
                                       .slice_sizes = {1, 4}})};
                   },
                   "stablehlo.clamp"});
  cases.push_back({"gather-bounds",
                   "windows of two dimensions",
                   [](Builder& b) -> Values {
                     const Value x = b.parameter({DType::Float32, {5, 6}});
                     const Value row = b.iota({DType::Int64, {4, 7, 1}}, 0);
                     const Value column = b.iota({DType::Int64, {4, 7, 1}}, 1);
                     return {b.gather(x,
                                      b.concatenate({row, column}, 2),
                                      {.offset = {2, 3},
                                       .collapsed = {},
                                       .start_index_map = {0, 1},
                                       .index_vector = 2,
                                       .slice_sizes = {2, 2}})};
                   },
                   "stablehlo.clamp"});
  return cases;
}

}  // namespace neuronx::ir::hardware
