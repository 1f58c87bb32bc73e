// SPDX-License-Identifier: Apache-2.0
#include "ir/builder.h"

#include <gtest/gtest.h>

#include <functional>

#include "common/strides.h"
#include "ir/verify.h"

namespace neuronx::ir {
namespace {

constexpr DType F32 = DType::Float32;
constexpr DType I32 = DType::Int32;

// What the callable returns, or the message it throws.
std::string outcome(const std::vector<TensorType>& parameters,
                    const std::function<Value(Builder&, const Values&)>& f) {
  Builder b;
  Values values;
  for (const TensorType& type : parameters)
    values.push_back(b.parameter(type));
  try {
    const Value result = f(b, values);
    const std::string text = to_string(b.type(result));
    verify(b.finish({result}));
    return text;
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
}

struct Case {
  std::vector<TensorType> parameters;
  std::function<Value(Builder&, const Values&)> call;
  std::string expected;
};

void check(const std::vector<Case>& cases) {
  for (const Case& c : cases)
    EXPECT_EQ(outcome(c.parameters, c.call), c.expected);
}

#define CALL(expression) [](Builder& b, const Values& v) { return expression; }

const TensorType f23{F32, {2, 3}}, f3{F32, {3}}, f234{F32, {2, 3, 4}};
const TensorType f0{F32, {}}, i0{I32, {}};

TEST(Builder, Elementwise) {
  check({
      {{f23, f23}, CALL(b.add(v[0], v[1])), "float32[2, 3]"},
      {{f23, f3},
       CALL(b.add(v[0], v[1])),
       "[stablehlo.add] expected equal types, got float32[2, 3] and "
       "float32[3]"},
      {{f23, f23}, CALL(b.compare(Compare::LT, v[0], v[1])), "bool[2, 3]"},
      {{f23},
       CALL(b.logical_not(v[0])),
       "[stablehlo.not] does not take "
       "float32"},
      {{f23}, CALL(b.convert(v[0], DType::Bool)), "bool[2, 3]"},
      {{f23}, CALL(b.bitcast(v[0], I32)), "int32[2, 3]"},
      {{f23},
       CALL(b.bitcast(v[0], DType::Int64)),
       "[stablehlo.bitcast_convert] cannot turn float32 into int64"},
      {{f23},
       CALL(b.unary("frobnicate", v[0])),
       "[stablehlo.frobnicate] "
       "unknown operation"},
      {{f23, f23}, CALL(b.binary("complex", v[0], v[1])), "complex64[2, 3]"},
      {{{DType::Complex64, {2}}}, CALL(b.unary("abs", v[0])), "float32[2]"},
      {{f0, f23, f23}, CALL(b.clamp(v[0], v[1], v[2])), "float32[2, 3]"},
      {{f23, f23},
       CALL(b.select(v[0], v[0], v[1])),
       "[stablehlo.select] expected predicate bool[] or bool[2, 3], got "
       "float32[2, 3]"},
      {{f23},
       CALL(b.add(v[0], Value{})),
       "[stablehlo.add] operand 1 is not a value of this program"},
  });
}

TEST(Builder, Shapes) {
  check({
      {{f3}, CALL(b.broadcast(v[0], {2, 3})), "float32[2, 3]"},
      {{f3},
       CALL(b.broadcast(v[0], {3, 2})),
       "[stablehlo.broadcast_in_dim] cannot broadcast float32[3] to "
       "float32[3, 2] along dimensions [1]"},
      {{f23}, CALL(b.reshape(v[0], {3, 2})), "float32[3, 2]"},
      {{f23},
       CALL(b.reshape(v[0], {4, 2})),
       "[stablehlo.reshape] cannot reshape float32[2, 3] to float32[4, 2]"},
      {{f234}, CALL(b.transpose(v[0], {2, 0, 1})), "float32[4, 2, 3]"},
      {{f234},
       CALL(b.transpose(v[0], {2, 0, 0})),
       "[stablehlo.transpose] permutation [2, 0, 0] has a duplicate"},
      {{f234},
       CALL(b.slice(v[0], {0, 1, 0}, {2, 3, 4}, {1, 1, 3})),
       "float32[2, 2, 2]"},
      {{f3},
       CALL(b.slice(v[0], {1}, {5}, {1})),
       "[stablehlo.slice] start [1] limit [5] out of bounds for float32[3]"},
      {{f23, f23}, CALL(b.concatenate(v, 1)), "float32[2, 6]"},
      {{f23, f3},
       CALL(b.concatenate(v, 0)),
       "[stablehlo.concatenate] operands differ outside dimension 0: "
       "float32[2, 3] and float32[3]"},
      {{f23, f0},
       CALL(b.pad(v[0], v[1], {1, -1}, {0, 2}, {0, 1})),
       "float32[3, 6]"},
      {{f23, i0, i0},
       CALL(b.dynamic_slice(v[0], {v[1], v[2]}, {1, 3})),
       "float32[1, 3]"},
      {{f23, i0, i0},
       CALL(b.dynamic_slice(v[0], {v[1], v[2]}, {1, 4})),
       "[stablehlo.dynamic_slice] slice_sizes [1, 4] exceed float32[2, 3]"},
      {{},
       CALL(b.iota({F32, {3}}, 1)),
       "[stablehlo.iota] iota_dimension 1 out of range for rank 1"},
      {{},
       CALL(b.constant({I32, {2}}, "123")),
       "[stablehlo.constant] expected 8 bytes for int32[2], got 3"},
  });
}

TEST(Builder, NoOpsReturnTheirOperand) {
  Builder b;
  const Value x = b.parameter(f23);
  EXPECT_EQ(b.convert(x, F32), x);
  EXPECT_EQ(b.bitcast(x, F32), x);
  EXPECT_EQ(b.broadcast(x, {2, 3}), x);
  EXPECT_EQ(b.reshape(x, {2, 3}), x);
  EXPECT_EQ(b.transpose(x, {0, 1}), x);
  EXPECT_EQ(b.slice(x, {0, 0}, {2, 3}, {1, 1}), x);
  EXPECT_EQ(b.pad(x, x, {0, 0}, {0, 0}, {0, 0}), x);
  EXPECT_EQ(b.reduce(x, Reduce::Add, {}), x);
  EXPECT_EQ(b.concatenate({x}, 1), x);
}

TEST(Builder, RegionsAndWindows) {
  check({
      {{f234}, CALL(b.reduce(v[0], Reduce::Max, {0, 2})), "float32[3]"},
      {{f234},
       CALL(b.reduce(v[0], Reduce::Max, {3})),
       "[stablehlo.reduce] dimensions [3] out of range for rank 3"},
      {{f23, i0},
       CALL(b.reduce(v[0], v[1], Reduce::Add, {0})),
       "[stablehlo.reduce] expected initial value float32[], got int32[]"},
      {{f23, f0},
       CALL(b.reduce_window(
           v[0], v[1], {{1, 2}, {1, 1}, {1, 1}, {0, 0}, {0, 1}}, Reduce::Add)),
       "float32[2, 3]"},
      {{f23, f0},
       CALL(
           b.reduce_window(v[0], v[1], {{2}, {1}, {1}, {0}, {0}}, Reduce::Add)),
       "[stablehlo.reduce_window] expected 2 entries in window_dilations, "
       "got [1]"},
      {{f23},
       CALL(
           b.sort(v, 1, false, [](Builder&, const Values& v) { return v; })[0]),
       "[stablehlo.sort] expected body 0 to return (bool[]), it returns "
       "(float32[], float32[])"},
      {{i0, f23},
       CALL(b.conditional(v[0], {v[1]}, {[](Builder& b, const Values& v) {
                            return Values{b.exp(v[0])};
                          }})[0]),
       "float32[2, 3]"},
  });
}

TEST(Builder, Contractions) {
  check({
      {{f234, {F32, {2, 4, 5}}},
       CALL(b.dot_general(v[0], v[1], {{0}, {0}, {2}, {1}}, DType::BFloat16)),
       "bfloat16[2, 3, 5]"},
      {{f23, f23},
       CALL(b.dot_general(
           v[0], v[1], {.lhs_contract = {1}, .rhs_contract = {0}}, F32)),
       "[stablehlo.dot_general] dimensions [1] of float32[2, 3] do not match "
       "[0] of float32[2, 3]"},
      {{{F32, {1, 4, 9}}, {F32, {6, 2, 3}}},
       CALL(b.convolution(v[0],
                          v[1],
                          {.stride = {2},
                           .pad_low = {1},
                           .pad_high = {0},
                           .lhs_dilation = {1},
                           .rhs_dilation = {2},
                           .groups = 2,
                           .input = {0, 1, 2},
                           .kernel = {0, 1, 2},
                           .output = {0, 1, 2}},
                          F32)),
       "float32[1, 6, 3]"},
      {{{F32, {5, 3}}, {I32, {2, 4}}},
       CALL(b.gather(v[0],
                     v[1],
                     {.offset = {2},
                      .collapsed = {0},
                      .start_index_map = {0},
                      .index_vector = 2,
                      .slice_sizes = {1, 3}})),
       "float32[2, 4, 3]"},
  });
}

TEST(Builder, StridedViews) {
  check({
      {{{F32, {12}}},
       CALL(b.as_strided(v[0], {2, 3}, {1, 4}, 1)),
       "float32[2, 3]"},
      {{{F32, {12}}},
       CALL(b.as_strided(v[0], {3, 4}, {4, 1}, 0)),
       "float32[3, 4]"},
      {{{F32, {9}}},
       CALL(b.as_strided(v[0], {2, 3}, {1, 4}, 0)),
       "[neuronx.as_strided] view out of bounds: size [2, 3], stride [1, 4], "
       "offset 0 of float32[9]"},
      {{{F32, {12}}, f23},
       CALL(b.as_strided_scatter(v[0], v[1], {6, 2}, 0)),
       "float32[12]"},
      {{{F32, {12}}, f23},
       CALL(b.as_strided_scatter(v[0], v[1], {0, 1}, 0)),
       "[neuronx.as_strided_scatter] view of size [2, 3] and stride [0, 1] "
       "overlaps itself"},
      {{{F32, {12}}, {F32, {3, 0}}},
       CALL(b.as_strided_scatter(v[0], v[1], {0, 1}, 0)),
       "float32[12]"},
      {{f23}, CALL(b.to_strided(v[0], {1, 2})), "float32[6]"},
      {{f23},
       CALL(b.to_strided(v[0], {4, 1})),
       "[neuronx.to_strided] stride [4, 1] is not a dense permutation of "
       "float32[2, 3]"},
  });
}

// Which operations the decomposition of a view is made of.
std::vector<std::string> operations(int64_t length,
                                    const Shape& size,
                                    const Shape& stride,
                                    int64_t offset) {
  Builder b;
  const Value x = b.parameter({F32, {length}});
  const Program p = b.finish({b.as_strided(x, size, stride, offset)});
  std::vector<std::string> names;
  for (const Operation& op : p.operations.at(0).bodies.at(0)->operations)
    names.push_back(op.name.substr(10));
  return names;
}

TEST(Builder, ViewsDecomposeToWhatHardwareDoesWell) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(operations(6, {3, 2}, {1, 3}, 0), (Names{"reshape", "transpose"}));
  EXPECT_EQ(operations(12, {3, 2}, {4, 1}, 2), (Names{"reshape", "slice"}));
  EXPECT_EQ(operations(9, {5}, {2}, 0), (Names{"slice"}));
  EXPECT_EQ(operations(3, {4, 3}, {0, 1}, 0),
            (Names{"reshape", "broadcast_in_dim"}));
  EXPECT_EQ(operations(9, {3}, {4}, 0), (Names{"slice"}));  // diagonal
  const Names unfold = operations(6, {4, 3}, {1, 1}, 0);
  EXPECT_EQ(std::count(unfold.begin(), unfold.end(), "gather"), 1);
}

TEST(Builder, WritesOfWholeBlocksDoNotReadThem) {
  Builder b;
  const Value x = b.parameter({F32, {6}});
  const Value v = b.parameter({F32, {3, 2}});
  const Program p = b.finish({b.as_strided_scatter(x, v, {1, 3}, 0)});
  for (const Operation& op : p.operations.at(0).bodies.at(0)->operations)
    EXPECT_TRUE(op.name == "stablehlo.transpose" ||
                op.name == "stablehlo.reshape")
        << op.name;
}

TEST(Builder, CompositesTakeTheTypesOfTheirBody) {
  const Region twice = [](Builder& b, const Values& v) -> Values {
    return {b.add(v[0], v[0])};
  };
  Builder b;
  const Value x = b.parameter(f3);
  EXPECT_EQ(
      b.type(
          b.composite("aten.twice", {x}, {}, build_region(twice, {f3})).at(0)),
      f3);
  EXPECT_THROW(b.composite("aten.twice", {x}, {}, build_region(twice, {f23})),
               std::invalid_argument);
  EXPECT_THROW(b.composite("stablehlo.add", {x}, {}, build_region(twice, {f3})),
               std::invalid_argument);
}

TEST(Builder, TypesMustFitMemory) {
  Builder b;
  EXPECT_THROW(b.parameter({F32, {-1}}), std::invalid_argument);
  EXPECT_THROW(b.parameter({F32, {int64_t(1) << 62, 2}}),
               std::invalid_argument);
  EXPECT_THROW(b.parameter({F32, Shape(65, 1)}), std::invalid_argument);
  EXPECT_NO_THROW(b.parameter({F32, {int64_t(1) << 40, 0}}));
}

}  // namespace
}  // namespace neuronx::ir
