// SPDX-License-Identifier: Apache-2.0
#include "ir/verify.h"

#include <gtest/gtest.h>

#include "ir_programs.h"

namespace neuronx::ir {
namespace {

Program sum_program() {
  Builder b;
  const Value x = b.parameter({DType::Float32, {3}});
  const Value y = b.parameter({DType::Float32, {3}});
  return b.finish({b.mul(b.add(x, y), x)});
}

std::string complaint(const Program& program) {
  try {
    verify(program);
    return "";
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
}

TEST(Verify, AcceptsWhatTheBuilderMakes) {
  EXPECT_EQ(complaint(sum_program()), "");
  EXPECT_EQ(complaint(softmax_program()), "");
  EXPECT_EQ(complaint(mixed_program()), "");
  EXPECT_EQ(complaint(Program{}), "");
}

TEST(Verify, OrderMatters) {
  Program p = sum_program();
  std::swap(p.operations[0], p.operations[1]);
  EXPECT_EQ(complaint(p), "[main] value 2 is used before its definition");
}

TEST(Verify, ValuesAreDefinedOnce) {
  Program p = sum_program();
  p.operations[1].results = p.operations[0].results;
  EXPECT_EQ(complaint(p), "[main] value 2 is defined twice or has no type");
  p.operations[1].results = {{99}};
  EXPECT_EQ(complaint(p), "[main] value 99 is defined twice or has no type");
}

TEST(Verify, TypesAreTheInferredOnes) {
  Program p = sum_program();
  p.types[3].shape = {4};
  EXPECT_EQ(complaint(p),
            "[main] stablehlo.multiply returns (float32[3]), its type is "
            "(float32[4])");
}

TEST(Verify, AliasesAgree) {
  Program p = sum_program();
  p.aliases = {2};
  EXPECT_EQ(complaint(p),
            "[main] result 0 aliases parameter 2, which does not exist or is "
            "aliased already");
  p.aliases = {1};
  EXPECT_EQ(complaint(p), "");
  p.results.push_back(p.results[0]);
  EXPECT_EQ(complaint(p), "[main] expected 2 aliases, got 1");
  p.aliases = {1, 1};
  EXPECT_NE(complaint(p), "");
  Builder b;
  const Value x = b.parameter({DType::Float32, {3}});
  EXPECT_EQ(complaint(b.finish({b.convert(x, DType::Int32)}, {0})),
            "[main] result 0 of type int32[3] aliases parameter 0 of type "
            "float32[3]");
}

TEST(Verify, BodiesAreVerified) {
  Program p = softmax_program();
  Program body = *p.operations[0].bodies[0];
  body.operations[1].name = "stablehlo.floor";
  p.operations[0].bodies[0] = std::make_shared<const Program>(body);
  EXPECT_EQ(complaint(p), "[stablehlo.floor] expected 0 bodies, got 1");
  p.operations[0].bodies = {nullptr};
  EXPECT_EQ(complaint(p), "[aten.softmax.int] a body is missing");
  p.operations[0].bodies = {};
  EXPECT_EQ(complaint(p), "[aten.softmax.int] expected 1 bodies, got 0");
}

TEST(Verify, ArgumentsNameOperands) {
  Program p = softmax_program();
  p.operations[0].arguments[0] = Operand{1};
  EXPECT_EQ(complaint(p),
            "[main] aten.softmax.int: an argument names operand 1 of 1");
}

TEST(Verify, StridedAttributesFitTheExtent) {
  Program p = mixed_program();
  for (Operation& op : p.operations)
    for (auto& [key, value] : op.attributes)
      if (key == "offset")
        value = int64_t(100);
  EXPECT_EQ(complaint(p),
            "[neuronx.as_strided] view out of bounds: size [2, 3], stride "
            "[1, 4], offset 100 of float32[12]");
}

}  // namespace
}  // namespace neuronx::ir
