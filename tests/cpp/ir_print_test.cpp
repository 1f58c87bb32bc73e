// SPDX-License-Identifier: Apache-2.0
// The form of the text. That XLA parses it and computes the same is tested
// from Python.
#include "ir/print.h"

#include <gtest/gtest.h>

#include <limits>

#include "ir/print_element.h"
#include "ir_programs.h"

namespace neuronx::ir {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Print, PeopleSeeCompositesWithTheirArguments) {
  EXPECT_EQ(to_string(softmax_program()),
            "main(%0: float32[2, 3]) {\n"
            "  %1 = aten.softmax.int(%0, 1, None) : float32[2, 3]\n"
            "  return %1\n"
            "}\n");
}

TEST(Print, PeopleSeeRegionsAndAliases) {
  Builder b("step");
  const Value x = b.parameter({DType::Float32, {2, 3}});
  const Values loop = b.while_loop(
      {x},
      [](Builder& b, const Values&) -> Values {
        return {b.constant(DType::Bool, 0)};
      },
      [](Builder& b, const Values& v) -> Values {
        return {b.exp(b.neg(v[0]))};
      });
  const Value sum = b.reduce(x, Reduce::Add, {1});
  EXPECT_EQ(to_string(b.finish({loop[0], sum}, {0, -1})),
            "step(%0: float32[2, 3]) {\n"
            "  %1 = while(%0) [constant] (%0: float32[2, 3]) {\n"
            "    %1 = negate(%0) : float32[2, 3]\n"
            "    %2 = exponential(%1) : float32[2, 3]\n"
            "    return %2\n"
            "  } : float32[2, 3]\n"
            "  %2 = constant 0.0 : float32[]\n"
            "  %3 = reduce(%0, %2) dimensions=[1] [add] : float32[2]\n"
            "  return %1 in %0, %3\n"
            "}\n");
}

TEST(Print, StableHloExpandsComposites) {
  const std::string text = to_stablehlo(softmax_program());
  EXPECT_TRUE(contains(text, "\"stablehlo.exponential\""));
  EXPECT_FALSE(contains(text, "aten.softmax"));
}

TEST(Print, StableHloKeepsCompositesOnRequest) {
  const std::string text =
      to_stablehlo(softmax_program(), {.composites = true});
  EXPECT_TRUE(contains(text,
                       "\"stablehlo.composite\"(%arg0) <{name = "
                       "\"aten.softmax.int\", composite_attributes = {arg0 = "
                       "\"operand 0\", arg1 = 1 : i64, arg2 = unit}, "
                       "decomposition = @aten.softmax.int_0}>"));
  EXPECT_TRUE(contains(text, "func.func private @aten.softmax.int_0("));
}

TEST(Print, AliasesOnRequest) {
  const Program p = mixed_program();
  EXPECT_FALSE(contains(to_stablehlo(p), "tf.aliasing_output"));
  EXPECT_TRUE(
      contains(to_stablehlo(p, {.aliases = true}),
               "%arg0: tensor<2x3xf32> {tf.aliasing_output = 5 : i32}"));
}

TEST(Print, Elements) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto scalar = [](DType dtype, auto value) {
    Builder b;
    const Program p = b.finish({b.constant(dtype, value)});
    return mlir_dense(
        p.types[0], std::get<std::string>(*p.operations[0].attribute("value")));
  };
  EXPECT_EQ(scalar(DType::Float32, 0.1), "dense<0.1>");
  EXPECT_EQ(scalar(DType::Float32, 1e20), "dense<1.0e+20>");
  EXPECT_EQ(scalar(DType::Float32, -0.0), "dense<-0.0>");
  EXPECT_EQ(scalar(DType::Float32, infinity), "dense<0x7F800000>");
  EXPECT_EQ(scalar(DType::BFloat16, -infinity), "dense<0xFF80>");
  EXPECT_EQ(scalar(DType::Float64, 0.1), "dense<0.1>");
  EXPECT_EQ(scalar(DType::UInt64, -1), "dense<18446744073709551615>");
  EXPECT_EQ(scalar(DType::Bool, 1), "dense<true>");
  EXPECT_EQ(scalar(DType::Complex64, 2.5), "dense<(2.5, 0.0)>");
}

TEST(Print, DenseConstants) {
  EXPECT_EQ(mlir_dense({DType::Int8, {2, 2}}, {1, 2, 3, -4}),
            "dense<[[1, 2], [3, -4]]>");
  EXPECT_EQ(mlir_dense({DType::Int8, {2, 2}}, {7, 7, 7, 7}), "dense<7>");
  EXPECT_EQ(mlir_dense({DType::Int8, {0, 2}}, ""), "dense<>");
  std::string bytes(40, 0);
  bytes[39] = 1;
  EXPECT_EQ(mlir_dense({DType::UInt8, {40}}, bytes),
            "dense<\"0x" + std::string(78, '0') + "01\">");
}

}  // namespace
}  // namespace neuronx::ir
