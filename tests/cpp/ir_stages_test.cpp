// SPDX-License-Identifier: Apache-2.0
#include "ir/stages.h"

#include <gtest/gtest.h>

#include "ir/builder.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "ir_programs.h"

namespace neuronx::ir {
namespace {

const TensorType f1024{DType::Float32, {1024}};

// A chain that reads saved value after saved value and writes a result for
// each: the backward pass of `depth` layers. All values are 4 KiB.
Program chain(int depth) {
  Builder b("chain");
  Values saved, results;
  const Value gradient = b.parameter(f1024);
  for (int i = 0; i < depth; ++i)
    saved.push_back(b.parameter(f1024));
  Value g = gradient;
  const Value half = b.constant(DType::Float32, 0.5, {1024});
  for (Value s : saved) {
    g = b.mul(g, b.exp(s));
    results.push_back(b.add(g, half));
  }
  return b.finish(results);
}

std::vector<bool> all(const Program& program, bool value) {
  return std::vector<bool>(program.parameters.size(), value);
}

constexpr StageLimits kAny{.saving_bytes = 1, .saving_part = 0};

TEST(Stages, DyingOperandsMakeRoomForResults) {
  const Program p = chain(16);
  const auto dying = all(p, true);
  const auto cuts = choose_stages(p, dying, kAny);
  EXPECT_EQ(7u, cuts.size());
  EXPECT_EQ(33 * 4096, peak_bytes(p, dying, {}));
  EXPECT_LE(peak_bytes(p, dying, cuts), 21 * 4096);
}

TEST(Stages, NoMoreThanAskedForOrWorthIt) {
  const Program p = chain(16);
  const auto dying = all(p, true);
  EXPECT_EQ(1u,
            choose_stages(
                p, dying, {.stages = 2, .saving_bytes = 1, .saving_part = 0})
                .size());
  EXPECT_TRUE(choose_stages(p, dying).empty()) << "less than a megabyte";
  EXPECT_TRUE(
      choose_stages(p, dying, {.stages = 1, .saving_bytes = 1}).empty());
  EXPECT_TRUE(choose_stages(p, all(p, false), kAny).empty())
      << "nothing is freed";
}

TEST(Stages, ProgramsThatOverwriteParametersStayWhole) {
  Program p = chain(4);
  p.aliases[0] = 0;
  EXPECT_TRUE(choose_stages(p, all(p, true), kAny).empty());
  const auto stages = split(p, {});
  ASSERT_EQ(1u, stages.size());
  EXPECT_EQ(to_string(p), to_string(stages[0].program));
  EXPECT_EQ(p.aliases, stages[0].program.aliases);
}

TEST(Stages, WithoutCutsTheProgramIsTheStage) {
  const Program p = chain(3);
  const auto stages = split(p, {});
  ASSERT_EQ(1u, stages.size());
  EXPECT_EQ(to_string(p), to_string(stages[0].program));
  EXPECT_EQ((std::vector<int32_t>{0, 1, 2, 3}), stages[0].operands);
  EXPECT_EQ((std::vector<int32_t>{4, 5, 6}), stages[0].results);
}

TEST(Stages, ValuesAreHandedOnAndConstantsMadeAgain) {
  Builder b;
  const Value x = b.parameter(f1024), y = b.parameter(f1024);
  const Value two = b.constant(DType::Float32, 2.0, {1024});  // 0, 1
  const Value e = b.exp(x);                                   // 2
  const Value r = b.mul(e, two);                              // 3: a result
  const Value s = b.add(e, y);                                // 4
  const Value t = b.mul(b.add(s, r), two);                    // 5, 6
  const Program p = b.finish({r, t, x});
  const auto stages = split(p, {4});
  ASSERT_EQ(2u, stages.size());
  EXPECT_EQ(to_string(stages[0].program),
            "main(%0: float32[1024]) {\n"
            "  %1 = constant 2.0 : float32[]\n"
            "  %2 = broadcast_in_dim(%1) broadcast_dimensions=[] : "
            "float32[1024]\n"
            "  %3 = exponential(%0) : float32[1024]\n"
            "  %4 = multiply(%3, %2) : float32[1024]\n"
            "  return %4, %0, %3\n"
            "}\n");
  EXPECT_EQ((std::vector<int32_t>{0}), stages[0].operands);
  EXPECT_EQ((std::vector<int32_t>{2, 4, 5}), stages[0].results);
  EXPECT_EQ(to_string(stages[1].program),
            "main(%0: float32[1024], %1: float32[1024], %2: float32[1024]) {\n"
            "  %3 = constant 2.0 : float32[]\n"
            "  %4 = broadcast_in_dim(%3) broadcast_dimensions=[] : "
            "float32[1024]\n"
            "  %5 = add(%0, %2) : float32[1024]\n"
            "  %6 = add(%5, %1) : float32[1024]\n"
            "  %7 = multiply(%6, %4) : float32[1024]\n"
            "  return %7\n"
            "}\n");
  // What stage 0 handed on, its result, then the parameter.
  EXPECT_EQ((std::vector<int32_t>{5, 2, 1}), stages[1].operands);
  EXPECT_EQ((std::vector<int32_t>{3}), stages[1].results);
  for (const Stage& stage : stages)
    verify(stage.program);
}

TEST(Stages, EveryCutOfEveryPlaceIsValid) {
  for (const Program& p : {chain(3), softmax_program()})
    for (size_t i = 1; i < p.operations.size(); ++i) {
      std::vector<int32_t> results;
      for (const Stage& stage : split(p, {i})) {
        verify(stage.program);
        for (int32_t r : stage.results)
          if (r < int32_t(p.parameters.size() + p.results.size()))
            results.push_back(r);
      }
      EXPECT_EQ(p.results.size(), results.size());
    }
}

}  // namespace
}  // namespace neuronx::ir
