// SPDX-License-Identifier: Apache-2.0
#include "ir/passes.h"

#include <gtest/gtest.h>

#include "ir/print.h"
#include "ir/verify.h"
#include "ir_programs.h"

namespace neuronx::ir {
namespace {

const TensorType f3{DType::Float32, {3}};

TEST(DeadCode, OnlyWhatResultsNeedStays) {
  Builder b;
  const Value x = b.parameter(f3);
  b.parameter(f3);  // unused, but part of the interface
  const Value used = b.exp(x);
  b.log(b.sqrt(x));
  Program p = b.finish({used, x});
  EXPECT_EQ(dead_code_elimination(p), 2u);
  EXPECT_EQ(to_string(p),
            "main(%0: float32[3], %1: float32[3]) {\n"
            "  %2 = exponential(%0) : float32[3]\n"
            "  return %2, %0\n"
            "}\n");
  verify(p);
  EXPECT_EQ(p.types.size(), 3u);
  EXPECT_EQ(dead_code_elimination(p), 0u);
}

TEST(DeadCode, OneUsedResultKeepsTheOperation) {
  Builder b;
  const Value x = b.parameter(f3);
  const Values sorted =
      b.sort({x, b.neg(x)}, 0, true, [](Builder& b, const Values& v) -> Values {
        return {b.compare(Compare::LT, v[0], v[1])};
      });
  Program p = b.finish({sorted[1]});
  EXPECT_EQ(dead_code_elimination(p), 0u);
  verify(p);
}

TEST(DeadCode, ReachesIntoBodiesAndLeavesSharedOnesAlone) {
  const auto body = std::make_shared<const Program>(build_region(
      [](Builder& b, const Values& v) -> Values {
        b.log(v[0]);
        return {b.exp(v[0])};
      },
      {f3}));
  Builder b;
  const Value x = b.parameter(f3);
  Program p = b.finish(b.composite("aten.exp", {x}, {}, *body));
  p.operations[0].bodies[0] = body;
  EXPECT_EQ(dead_code_elimination(p), 1u);
  EXPECT_EQ(p.operations[0].bodies[0]->operations.size(), 1u);
  EXPECT_EQ(body->operations.size(), 2u);
  verify(p);
}

TEST(CommonSubexpressions, EqualOperationsAreMerged) {
  Builder b;
  const Value x = b.parameter(f3);
  const Value one = b.constant(DType::Float32, 1.0, {3});
  const Value same = b.constant(DType::Float32, 1.0, {3});
  const Value left = b.add(b.exp(x), one), right = b.add(b.exp(x), same);
  Program p = b.finish({b.mul(left, right), right});
  EXPECT_EQ(common_subexpression_elimination(p), 4u);
  EXPECT_EQ(to_string(p),
            "main(%0: float32[3]) {\n"
            "  %1 = constant 1.0 : float32[]\n"
            "  %2 = broadcast_in_dim(%1) broadcast_dimensions=[] : "
            "float32[3]\n"
            "  %3 = exponential(%0) : float32[3]\n"
            "  %4 = add(%3, %2) : float32[3]\n"
            "  %5 = multiply(%4, %4) : float32[3]\n"
            "  return %5, %4\n"
            "}\n");
  verify(p);
}

TEST(CommonSubexpressions, DifferencesAreSeen) {
  Builder b;
  const Value x = b.parameter({DType::Float32, {2, 3}});
  const Region max = [](Builder& b, const Values& v) -> Values {
    return {b.max(v[0], v[1])};
  };
  const Value zero = b.constant(DType::Float32, 0.0);
  Program p = b.finish({
      b.reshape(x, {6}),
      b.reshape(x, {3, 2}),  // another result type
      b.constant(DType::Float32, -0.0),
      zero,
      b.reduce(x, zero, Reduce::Add, {1}),
      b.reduce({x}, {zero}, {1}, max)[0],   // another body
      b.reduce(x, zero, Reduce::Add, {0}),  // another attribute
  });
  EXPECT_EQ(common_subexpression_elimination(p), 0u);
}

TEST(CommonSubexpressions, CompositesMergeByArgumentsAndBody) {
  const auto call = [](Builder& b, Value x, double argument) {
    return b.composite("aten.copysign.Scalar",
                       {x},
                       {Operand{0}, argument},
                       build_region(
                           [](Builder& b, const Values& v) -> Values {
                             return {b.unary("abs", v[0])};
                           },
                           {f3}))[0];
  };
  Builder b;
  const Value x = b.parameter(f3);
  Program p = b.finish({call(b, x, 0.0), call(b, x, -0.0), call(b, x, 0.0)});
  EXPECT_EQ(common_subexpression_elimination(p), 1u);
  EXPECT_EQ(p.results[0], p.results[2]);
  EXPECT_NE(p.results[0], p.results[1]);
}

TEST(Passes, MixedProgramStaysValid) {
  Program p = mixed_program();
  dead_code_elimination(p);
  common_subexpression_elimination(p);
  dead_code_elimination(p);
  verify(p);
  EXPECT_EQ(p.parameters.size(), 3u);
  EXPECT_EQ(p.results.size(), 6u);
}

// A composite whose body is its decomposition, as lowerings make them.
Value composite(Builder& b,
                const std::string& name,
                Value x,
                std::vector<Attribute> more,
                const Region& body) {
  std::vector<Attribute> arguments{Operand{0}};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return b.composite(
      name, {x}, std::move(arguments), build_region(body, {b.type(x)}))[0];
}

Value transposed(Builder& b, Value x) {
  return composite(
      b, "aten.t", x, {}, [](Builder& b, const Values& v) -> Values {
        return {b.transpose(v[0], {1, 0})};
      });
}

Value times(Builder& b, Value x, double factor) {
  return composite(
      b,
      "aten.mul.Tensor",
      x,
      {NumberTensor{DType::Float64, true, factor}},
      [&](Builder& b, const Values& v) -> Values {
        const auto type = b.type(v[0]);
        return {b.mul(v[0], b.constant(type.dtype, factor, type.shape))};
      });
}

TEST(Simplify, NeutralCompositesGiveTheirOperand) {
  Builder b;
  const Value x = b.parameter({DType::Float32, {2, 3}});
  const Value y = times(b, transposed(b, transposed(b, x)), 1);
  Program p = b.finish({b.exp(y), times(b, y, 2)});
  EXPECT_EQ(simplify(p), 2u);
  verify(p);
  ASSERT_EQ(p.operations.size(), 2u);
  EXPECT_EQ(p.operations[0].operands[0], p.parameters[0]);
  EXPECT_EQ(p.operations[1].name, "aten.mul.Tensor");
  EXPECT_EQ(p.operations[1].operands[0], p.parameters[0]);
}

TEST(Simplify, TwoTranspositionsThatDifferStay) {
  Builder b;
  const Value x = b.parameter({DType::Float32, {2, 3, 4}});
  const auto swap = [&](Value x, int64_t i, int64_t j) {
    return composite(b,
                     "aten.transpose.int",
                     x,
                     {i, j},
                     [&](Builder& b, const Values& v) -> Values {
                       Shape order{0, 1, 2};
                       std::swap(order[i], order[j]);
                       return {b.transpose(v[0], order)};
                     });
  };
  Program p = b.finish({swap(swap(x, 0, 1), 1, 2), swap(swap(x, 0, 2), 2, 0)});
  EXPECT_EQ(simplify(p), 1u);
  verify(p);
  EXPECT_EQ(p.results[1], p.parameters[0]);
  EXPECT_EQ(p.operations.size(), 2u);
}

TEST(Optimize, ShowsTheProgramAfterEachPass) {
  Builder b;
  const Value x = b.parameter(f3);
  Program p = b.finish({b.add(b.exp(x), b.exp(x))});
  std::vector<std::string> names;
  std::vector<size_t> operations;
  optimize(p, [&](const Pass& pass, const Program& after) {
    names.push_back(pass.name);
    operations.push_back(after.operations.size());
  });
  EXPECT_EQ(names,
            (std::vector<std::string>{
                "simplify", "common subexpressions", "dead code"}));
  EXPECT_EQ(operations, (std::vector<size_t>{3, 2, 2}));
}

}  // namespace
}  // namespace neuronx::ir
