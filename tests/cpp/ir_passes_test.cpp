// SPDX-License-Identifier: Apache-2.0
#include "ir/passes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

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

// Of a program with one result, which is a constant: its elements.
std::string folded(const std::function<Value(Builder&)>& make) {
  Builder b;
  Program p = b.finish({make(b)});
  fold_constants(p);
  verify(p);
  return to_string(p);
}

TEST(FoldConstants, ArithmeticMovesAndConversions) {
  const auto text = folded([&](Builder& b) {
    const Value x =
        b.constant({DType::Int8, {2, 3}}, std::string("\0\1\2\0\1\2", 6));
    const Value half = b.convert(b.transpose(x, {1, 0}), DType::Float32);
    const Value sum = b.add(b.mul(half, half), half);
    return b.reshape(b.slice(sum, {1, 0}, {3, 2}, {1, 1}), {4});
  });
  EXPECT_EQ(text,
            "main() {\n"
            "  %0 = constant [2.0, 2.0, 6.0, 6.0] : float32[4]\n"
            "  return %0\n"
            "}\n");
}

TEST(FoldConstants, IntegersWrapAndComparisonsSelect) {
  EXPECT_EQ(folded([](Builder& b) {
              const Value x = b.constant(DType::Int8, 100);
              const Value y = b.add(x, x);  // -56
              return b.select(b.compare(Compare::LT, y, x), y, x);
            }),
            "main() {\n"
            "  %0 = constant -56 : int8[]\n"
            "  return %0\n"
            "}\n");
}

TEST(FoldConstants, WhatDevicesMayDifferInStays) {
  Builder b;
  const auto f = [&](double x) { return b.constant(DType::Float32, x); };
  const auto i = [&](int x) { return b.constant(DType::Int32, x); };
  Program p = b.finish({
      b.sub(f(INFINITY), f(INFINITY)),     // bits of a NaN
      b.mul(f(1e-30), f(1e-30)),           // a denormal number
      b.max(f(0.0), f(-0.0)),              // the sign of zero
      b.exp(f(1)),                         // rounding
      b.div(i(1), i(0)),                   // no number
      b.convert(f(1e20), DType::Int32),    // out of range
      b.convert(f(1e20), DType::Float16),  // likewise
      b.add(b.parameter({DType::Float32, {}}), f(1)),
      b.reshape(b.iota({DType::Int32, {4}}, 0), {2, 2}),
      b.neg(b.constant({DType::Float32, {1000}},
                       std::string(4000, '\0'))),  // large
  });
  EXPECT_EQ(fold_constants(p), 0u);
}

TEST(FoldConstants, OperandsOfOtherSizesAreNoElementwiseOnes) {
  Builder b;
  const Value x = b.constant({DType::Float32, {4}}, std::string(16, '\0'));
  const Value y = b.constant({DType::Float32, {2}}, std::string(8, '\0'));
  const Value start = b.constant(DType::Int64, 1);
  Program p =
      b.finish({b.concatenate({x, y}, 0),
                b.dynamic_slice(x, {start}, {2}),
                b.dot_general(x, x, {{}, {}, {0}, {0}}, DType::Float32)});
  EXPECT_EQ(fold_constants(p), 0u);
  verify(p);
}

const TensorType f23{DType::Float32, {2, 3}};

TEST(SinkTransposes, TwoCancel) {
  Builder b;
  const Value x = b.parameter(f23);
  const Value y = b.exp(b.transpose(x, {1, 0}));
  Program p = b.finish(
      {b.transpose(b.add(y, b.constant(DType::Float32, 1.0, {3, 2})), {1, 0})});
  EXPECT_GT(sink_transposes(p), 0u);
  verify(p);
  EXPECT_EQ(to_string(p),
            "main(%0: float32[2, 3]) {\n"
            "  %1 = exponential(%0) : float32[2, 3]\n"
            "  %2 = constant 1.0 : float32[]\n"
            "  %3 = broadcast_in_dim(%2) broadcast_dimensions=[] : "
            "float32[2, 3]\n"
            "  %4 = add(%1, %3) : float32[2, 3]\n"
            "  return %4\n"
            "}\n");
}

TEST(SinkTransposes, DotProductsTakeOperandsAsTheyLie) {
  Builder b;
  const Value x = b.parameter(f23), y = b.parameter({DType::Float32, {4, 2}});
  const DotDimensions dimensions{{}, {}, {1}, {0}};
  Program p = b.finish({b.dot_general(b.transpose(x, {1, 0}),
                                      b.neg(b.transpose(y, {1, 0})),
                                      dimensions,
                                      DType::Float32)});
  EXPECT_EQ(sink_transposes(p), 3u);
  verify(p);
  EXPECT_EQ(p.operations.size(), 2u);
  EXPECT_EQ(
      std::get<Shape>(*p.operations[1].attribute("lhs_contracting_dimensions")),
      Shape{0});
  EXPECT_EQ(
      std::get<Shape>(*p.operations[1].attribute("rhs_contracting_dimensions")),
      Shape{1});
}

TEST(SinkTransposes, FreeDimensionsKeepTheirOrder) {
  Builder b;
  const Value x = b.parameter({DType::Float32, {2, 3, 4}});
  const Value y = b.parameter({DType::Float32, {4, 5}});
  Program p = b.finish({b.dot_general(
      b.transpose(x, {1, 0, 2}), y, {{}, {}, {2}, {0}}, DType::Float32)});
  EXPECT_EQ(sink_transposes(p), 0u);
}

TEST(SinkTransposes, NoneIsMadeTwice) {
  Builder b;
  const Value t = b.transpose(b.parameter(f23), {1, 0});
  Program p =
      b.finish({b.exp(t), t, b.add(t, b.parameter({DType::Float32, {3, 2}}))});
  EXPECT_EQ(sink_transposes(p), 0u);
}

TEST(SinkTransposes, ScalarOperandsOfSelectAndClampStay) {
  Builder b;
  const Value t = b.transpose(b.parameter(f23), {1, 0});
  const Value low = b.parameter({DType::Float32, {}});
  Program p = b.finish(
      {b.transpose(b.clamp(low, t, b.constant(DType::Float32, 2.0)), {1, 0})});
  EXPECT_EQ(sink_transposes(p), 2u);
  verify(p);
  EXPECT_EQ(p.operations.size(), 2u);
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
