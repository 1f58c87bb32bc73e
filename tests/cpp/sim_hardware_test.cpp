// SPDX-License-Identifier: Apache-2.0
// What the hardware gets computes what the program says: both run on the
// simulator's interpreter, bit by bit equal where arithmetic is exact.
#include <ATen/Context.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>

#include "ir_hardware_cases.h"
#include "sim_executor_fixture.h"

namespace neuronx::sim {
namespace {

using namespace ir::hardware;

// Any bits for integers; every third of a few values, so that ties occur.
at::Tensor random(const TensorType& type) {
  if (type.numel() == 0)
    return make_empty(type);
  if (is_floating_point(type.dtype))
    return at::randn(type.shape)
        .mul(4)
        .round()
        .div(4)
        .to(to_scalar_type(type.dtype));
  const auto wide =
      at::randint(INT64_MIN / 2, INT64_MAX / 2, type.shape, at::kLong);
  const auto few = at::randint(-3, 4, type.shape, at::kLong);
  const auto pick = at::rand(type.shape).lt(0.3);
  const auto mixed = few.where(pick, wide);
  if (type.dtype == DType::Bool)
    return mixed.bitwise_and(1).to(at::kBool);
  if (itemsize(type.dtype) == 8)
    return mixed.view(to_scalar_type(type.dtype));
  const auto bytes = int64_t(itemsize(type.dtype));
  return mixed.view(at::kByte)
      .view({-1, 8})
      .slice(1, 0, bytes)
      .contiguous()
      .view(to_scalar_type(type.dtype))
      .view(type.shape);
}

Tensors inputs_of(const Program& program, int64_t index_end) {
  Tensors inputs;
  for (ir::Value v : program.parameters) {
    const TensorType& type = program.type(v);
    inputs.push_back(inputs.size() == 1 && index_end
                         ? at::randint(-1, index_end, type.shape)
                               .to(to_scalar_type(type.dtype))
                         : random(type));
  }
  return inputs;
}

void expect_equal(const Tensors& actual, const Tensors& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(actual[i].scalar_type(), expected[i].scalar_type());
    // Sums of floating-point numbers may be in another order.
    const bool same =
        actual[i].is_floating_point()
            ? at::allclose(actual[i], expected[i], 1e-5, 1e-5)
            : at::equal(actual[i].view(at::kByte), expected[i].view(at::kByte));
    EXPECT_TRUE(same) << "result " << i << ": " << actual[i] << "\nnot\n"
                      << expected[i];
  }
}

class Rewrites : public testing::TestWithParam<Rewritten> {};

TEST_P(Rewrites, ComputeTheSame) {
  at::manual_seed(0);
  const Program program = GetParam().program();
  const Program legal = legalize(program, {});
  const Tensors inputs = inputs_of(program, GetParam().index_end);
  expect_equal(run(legal, inputs), run(program, inputs));
}

INSTANTIATE_TEST_SUITE_P(AllRules,
                         Rewrites,
                         testing::ValuesIn(rewritten_cases()));

// What is folded is what the interpreter computes, bit by bit.
class Folded : public testing::TestWithParam<DType> {};

TEST_P(Folded, ConstantsAreTheSame) {
  at::manual_seed(0);
  const TensorType type{GetParam(), {3, 4}};
  Builder b;
  const auto constant = [&] {
    const at::Tensor x = random(type);
    return b.constant(type,
                      std::string(static_cast<const char*>(x.const_data_ptr()),
                                  static_cast<size_t>(type.bytes())));
  };
  const Value x = constant(), y = constant();
  Values results{b.reshape(b.transpose(x, {1, 0}), {2, 6}),
                 b.slice(x, {1, 0}, {3, 4}, {1, 2}),
                 b.reverse(x, {0, 1}),
                 b.broadcast_in_dim(x, {3, 2, 4}, {0, 2}),
                 b.compare(ir::Compare::LT, x, y),
                 b.select(b.compare(ir::Compare::GE, x, y), x, y),
                 b.add(x, y),
                 b.mul(x, y),
                 b.max(x, y),
                 b.min(x, y)};
  for (const DType to : {DType::Bool,
                         DType::Int8,
                         DType::Int32,
                         DType::Float32,
                         DType::BFloat16})
    results.push_back(b.convert(x, to));
  if (is_floating_point(type.dtype)) {
    results.push_back(b.div(x, y));
    results.push_back(b.unary("abs", x));
    results.push_back(b.sqrt(b.unary("abs", x)));
  } else {
    results.push_back(b.logical_and(x, y));
    results.push_back(b.binary("xor", x, y));
    results.push_back(b.logical_not(x));
  }
  if (type.dtype != DType::Bool) {
    results.push_back(b.sub(x, y));
    results.push_back(b.neg(x));
  }
  const Program program = b.finish(results);
  Program folded = program;
  EXPECT_GT(fold_constants(folded), 14u);
  const Tensors got = run(folded, {}), want = run(program, {});
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(at::equal(got[i].view(at::kByte), want[i].view(at::kByte)))
        << "result " << i << ": " << got[i] << "\nnot\n"
        << want[i];
}

INSTANTIATE_TEST_SUITE_P(DTypes,
                         Folded,
                         testing::Values(DType::Float32,
                                         DType::BFloat16,
                                         DType::Float16,
                                         DType::Int8,
                                         DType::UInt8,
                                         DType::Int32,
                                         DType::Int64,
                                         DType::Bool));

constexpr Target kNarrow{.native_int64 = false};

TEST(Narrowing, IsExactForValuesOf32Bits) {
  Builder b;
  const TensorType type{DType::Int64, {3, 8}};
  const Value x = b.parameter(type), y = b.parameter(type);
  const Value position = b.iota(type, 1);
  const Value sum = b.add(b.mul(x, position), y);
  const Program program =
      b.finish({sum,
                b.reduce(sum, ir::Reduce::Max, {1}),
                b.reduce(sum, ir::Reduce::Min, {0}),
                b.convert(b.compare(ir::Compare::LT, x, y), DType::Int64),
                y});
  const Program legal = legalize(program, kNarrow);
  for (const ir::Operation& op : legal.operations)
    if (op.name != "stablehlo.convert")
      for (ir::Value v : op.results)
        EXPECT_NE(legal.type(v).dtype, DType::Int64) << op.name;
  const auto small = [&] {
    return at::randint(-100'000'000, 100'000'000, type.shape, at::kLong);
  };
  const Tensors inputs{small(), small()};
  expect_equal(run(legal, inputs), run(program, inputs));
}

TEST(Narrowing, KeepsAllBitsOfAParameterThatIsAResult) {
  Builder b;
  const Value x = b.parameter({DType::Int64, {2}});
  const Program legal = legalize(
      b.finish({x, b.add(x, b.constant(DType::Int64, 1, {2}))}), kNarrow);
  const Tensors inputs{at::tensor({INT64_MAX - 1, INT64_MIN}, at::kLong)};
  EXPECT_TRUE(at::equal(run(legal, inputs)[0], inputs[0]));
}

TEST(Narrowing, LeavesRandomNumbersAsTheyAre) {
  Builder b;
  const Value seed = b.parameter({DType::Int64, {}});
  const Value offset = b.parameter({DType::Int64, {}});
  const Program program = b.finish({b.philox(seed, offset, 1003)});
  const Program legal = legalize(program, kNarrow);
  // Also where the counter's low word overflows.
  for (int64_t start : {0, 12345, -100})
    for (int64_t key : {0, 7, -5}) {
      const Tensors inputs{at::tensor(key, at::kLong),
                           at::tensor(start, at::kLong)};
      expect_equal(run(legal, inputs), run(program, inputs));
    }
}

TEST(Moved, Float64KeepsItsBits) {
  Builder b;
  const Value x = b.parameter({DType::Float64, {2, 3}});
  const Program program = b.finish({b.transpose(
      b.pad(x, b.constant(DType::Float64, 0.1), {0, 1}, {1, 0}, {0, 0}),
      {1, 0})});
  const Tensors inputs{at::rand({2, 3}, at::kDouble)};
  const Tensors bits{inputs[0].view(at::kUInt64)};
  const auto expected = run(program, inputs)[0];
  const auto actual = run(legalize(program, {}), bits)[0];
  EXPECT_TRUE(at::equal(actual.view(at::kDouble), expected));
}

}  // namespace
}  // namespace neuronx::sim
