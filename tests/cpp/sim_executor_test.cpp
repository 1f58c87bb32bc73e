// SPDX-License-Identifier: Apache-2.0
// Composites by ATen: call forms, layouts, arguments, errors.
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <stdexcept>
#include <thread>

#include "sim_executor_fixture.h"

namespace neuronx::sim {
namespace {

at::Tensor numbers(at::IntArrayRef shape) {
  int64_t n = 1;
  for (int64_t s : shape)
    n *= s;
  return at::arange(n, at::kFloat).reshape(shape);
}

Value add(Builder& b, Value x, Value y) {
  return composite(b,
                   "aten.add.Tensor",
                   {x, y},
                   {Operand{0}, Operand{1}, int64_t{1}},
                   {b.type(x)})[0];
}

Value mul(Builder& b, Value x, Value y) {
  return composite(
      b, "aten.mul.Tensor", {x, y}, {Operand{0}, Operand{1}}, {b.type(x)})[0];
}

TEST(Composite, WritesItsResultDirectly) {
  const at::Tensor x = at::randn({4, 4}), y = at::randn({4, 4});
  Builder b;
  const Value p = b.parameter(type_of(x)), q = b.parameter(type_of(y));
  expect_close(run(b.finish({add(b, p, q)}), {x, y})[0], x.add(y));
}

TEST(Composite, FillsDefaultArguments) {
  const at::Tensor x = at::randn({3, 5});
  Builder b;
  const Value p = b.parameter(type_of(x));
  const auto y =
      composite(b, "aten.sum", {p}, {Operand{0}}, {{DType::Float32, {}}});
  expect_close(run(b.finish(y), {x})[0], x.sum());
}

TEST(Composite, AcceptsTheNameOfTheDefaultOverload) {
  const at::Tensor x = at::randn({3, 5}), y = at::randn({5, 2});
  for (const char* name : {"aten.mm", "aten.mm.default"}) {
    Builder b;
    const Value p = b.parameter(type_of(x)), q = b.parameter(type_of(y));
    const auto z = composite(
        b, name, {p, q}, {Operand{0}, Operand{1}}, {{DType::Float32, {3, 2}}});
    expect_close(run(b.finish(z), {x, y})[0], x.matmul(y));
  }
}

TEST(Composite, WrappedNumberDoesNotPromote) {
  const at::Tensor x = at::randn({4}).to(at::kBFloat16);
  Builder b;
  const Value p = b.parameter(type_of(x));
  const auto y =
      composite(b,
                "aten.mul.Tensor",
                {p},
                {Operand{0}, ir::NumberTensor{DType::Float64, true, 2.5}},
                {type_of(x)});
  expect_close(run(b.finish(y), {x})[0], x.mul(2.5), 0);
}

TEST(Composite, RuntimeScalarIsReadAtEachRun) {
  const at::Tensor x = at::randn({4});
  at::Tensor s = at::scalar_tensor(3.0f);
  Builder b;
  const Value p = b.parameter(type_of(x));
  const Value q = b.parameter({DType::Float32, {}});
  const auto y = composite(b,
                           "aten.add.Scalar",
                           {p, q},
                           {Operand{0}, Operand{1}, int64_t{1}},
                           {type_of(x)});
  const auto z =
      composite(b,
                "aten.mul.Tensor",
                {y[0], q},
                {Operand{0}, ir::NumberTensor{DType::Float64, true, 0.0, 1}},
                {type_of(x)});
  const auto executor = load(b.finish(z));
  expect_close(run(*executor, {x, s})[0], x.add(3).mul(3));
  s.fill_(5);
  expect_close(run(*executor, {x, s})[0], x.add(5).mul(5));
}

TEST(Composite, IntegerRuntimeScalar) {
  const at::Tensor x = at::arange(4, at::kLong);
  at::Tensor s = at::scalar_tensor(3, at::kLong);
  Builder b;
  const Value p = b.parameter(type_of(x));
  const Value q = b.parameter({DType::Int64, {}});
  const auto y = composite(b,
                           "aten.pow.Tensor_Scalar",
                           {p, q},
                           {Operand{0}, Operand{1}},
                           {type_of(x)});
  const auto executor = load(b.finish(y));
  expect_close(run(*executor, {x, s})[0], x.pow(3));
  s.fill_(2);
  expect_close(run(*executor, {x, s})[0], x.pow(2));
}

TEST(Composite, TakesTensorLists) {
  const at::Tensor x = at::randn({2, 3}), y = at::randn({1, 3});
  Builder b;
  const Value p = b.parameter(type_of(x)), q = b.parameter(type_of(y));
  const auto z = composite(b,
                           "aten.cat",
                           {p, q},
                           {ir::OperandList{{0, 1, 0}}, int64_t{0}},
                           {{DType::Float32, {5, 3}}});
  expect_close(run(b.finish(z), {x, y})[0], at::cat({x, y, x}));
}

TEST(Composite, TakesOptionalTensorLists) {
  const at::Tensor x = numbers({3, 4});
  const at::Tensor i = at::tensor({2, 0, 2}, at::kLong);
  Builder b;
  const Value p = b.parameter(type_of(x)), q = b.parameter(type_of(i));
  const auto y = composite(b,
                           "aten.index.Tensor",
                           {p, q},
                           {Operand{0}, ir::OperandList{{-1, 1}}},
                           {{DType::Float32, {3, 3}}});
  expect_close(run(b.finish(y), {x, i})[0], x.index_select(1, i));
}

TEST(Composite, ConvertsListsByTheSchema) {
  const at::Tensor x = at::randn({2, 3, 4});
  Builder b;
  const Value p = b.parameter(type_of(x));
  const auto y =
      composite(b,
                "aten.sum.dim_IntList",
                {p},
                {Operand{0}, std::vector<int64_t>{0, 2}, true, DType::Float64},
                {{DType::Float64, {1, 3, 1}}});
  expect_close(run(b.finish(y), {x})[0], x.sum({0, 2}, true, at::kDouble));
}

TEST(Composite, ReturnsSeveralResults) {
  const at::Tensor x = at::randn({3, 6});
  Builder b;
  const Value p = b.parameter(type_of(x));
  const auto y = composite(b,
                           "aten.topk",
                           {p},
                           {Operand{0}, int64_t{2}, int64_t{-1}, true, true},
                           {{DType::Float32, {3, 2}}, {DType::Int64, {3, 2}}});
  const auto got = run(b.finish(y), {x});
  const auto [values, indices] = x.topk(2);
  expect_close(got[0], values);
  expect_close(got[1], indices);
}

TEST(Composite, WithoutOutOverloadGoesThroughATemporary) {
  const at::Tensor x = at::randn({2, 8}), w = at::randn({8});
  Builder b;
  const Value p = b.parameter(type_of(x)), q = b.parameter(type_of(w));
  const auto y = composite(
      b,
      "aten.native_layer_norm",
      {p, q},
      {Operand{0}, Shape{8}, Operand{1}, {}, 1e-5},
      {type_of(x), {DType::Float32, {2, 1}}, {DType::Float32, {2, 1}}});
  const auto got = run(b.finish(y), {x, w});
  const auto mean = x.mean(1, true);
  const auto scale = x.var(1, false, true).add(1e-5).rsqrt();
  expect_close(got[0], x.sub(mean).mul(scale).mul(w));
  expect_close(got[1], mean);
  expect_close(got[2], scale);
}

TEST(Composite, FactoryUsesTheTypeOfItsResult) {
  Builder b;
  const auto y = composite(b,
                           "aten.full",
                           {},
                           {Shape{2, 3}, 1.5, DType::Float32, {}, {}, {}},
                           {{DType::Float32, {2, 3}}});
  expect_close(run(b.finish(y), {})[0], at::ones({2, 3}).mul(1.5));
}

TEST(Composite, UndefinedResultIsSkipped) {
  const at::Tensor g = at::randn({2, 8}), x = at::randn({2, 8});
  const at::Tensor mean = x.mean(1, true);
  const at::Tensor scale = x.var(1, false, true).add(1e-5).rsqrt();
  Builder b;
  Values p;
  for (const auto& t : {g, x, mean, scale})
    p.push_back(b.parameter(type_of(t)));
  const auto y =
      composite(b,
                "aten.native_layer_norm_backward",
                p,
                {Operand{0},
                 Operand{1},
                 Shape{8},
                 Operand{2},
                 Operand{3},
                 {},
                 {},
                 std::vector<int64_t>{1, 0, 0}},
                {type_of(x), {DType::Bool, {0}}, {DType::Bool, {0}}});
  const auto n = x.sub(mean).mul(scale);
  const auto want =
      g.sub(g.mean(1, true)).sub(n.mul(g.mul(n).mean(1, true))).mul(scale);
  expect_close(run(b.finish({y[0]}), {g, x, mean, scale})[0], want, 1e-4);
}

TEST(Composite, ConvertingCopyNeedsNoCall) {
  const at::Tensor x = at::randn({5});
  Builder b;
  const Value p = b.parameter(type_of(x));
  const auto y = composite(b,
                           "aten._to_copy",
                           {p},
                           {Operand{0}, DType::Float16},
                           {{DType::Float16, {5}}});
  expect_close(run(b.finish(y), {x})[0], x.to(at::kHalf), 0);
}

TEST(Composite, ImplicitOperatorRuns) {
  const at::Tensor x = at::randn({3, 5});
  Builder b;
  const Value p = b.parameter(type_of(x));
  const auto y = composite(
      b, "aten.softmax.int", {p}, {Operand{0}, int64_t{1}, {}}, {type_of(x)});
  expect_close(run(b.finish(y), {x})[0], x.softmax(1));
}

TEST(Composite, RandomOperatorsAreRefused) {
  Builder b;
  const Value p = b.parameter({DType::Float32, {3}});
  Builder body("body");
  const Value q = body.parameter({DType::Float32, {3}});
  const auto y = b.composite(
      "aten.bernoulli", {p}, {Operand{0}}, body.finish({body.neg(q)}));
  const at::Tensor x = at::ones({3});
  expect_close(run(b.finish(y), {x})[0], x.neg());
}

TEST(Composite, UnknownNameRunsItsBody) {
  Builder b;
  const Value p = b.parameter({DType::Float32, {3}});
  Builder body("body");
  const Value q = body.parameter({DType::Float32, {3}});
  const auto y =
      b.composite("neuronx_test.twice", {p}, {}, body.finish({body.add(q, q)}));
  const at::Tensor x = at::randn({3});
  expect_close(run(b.finish(y), {x})[0], x.add(x));
}

TEST(Composite, DecomposedNumericsRunsTheBody) {
  const Numerics mode("decomposed");
  Builder b;
  const Value p = b.parameter({DType::Float32, {3}});
  const Value y = add(b, p, p);
  EXPECT_TRUE(
      run(b.finish({y}), {at::ones({3})})[0].eq(0).all().item().toBool());
}

// In-place and strided forms.

TEST(InPlace, PointwiseOnItsParameter) {
  at::Tensor x = at::randn({4}), y = at::randn({4});
  const at::Tensor want = x.add(y);
  Builder b;
  const Value p = b.parameter(type_of(x)), q = b.parameter(type_of(y));
  run(b.finish({add(b, p, q)}, {0}), {x, y});
  expect_close(x, want);
}

TEST(InPlace, PointwiseOntoTheSecondOperand) {
  at::Tensor x = at::randn({4}), y = at::randn({4});
  const at::Tensor want = x.sub(y);
  Builder b;
  const Value p = b.parameter(type_of(x)), q = b.parameter(type_of(y));
  const auto z = composite(
      b, "aten.sub.Tensor", {p, q}, {Operand{0}, Operand{1}}, {type_of(x)});
  run(b.finish(z, {1}), {x, y});
  expect_close(y, want);
}

TEST(InPlace, IndexPutKeepsTheRest) {
  at::Tensor x = at::zeros({5, 2}), v = at::randn({2, 2});
  const at::Tensor i = at::tensor({3, 1}, at::kLong);
  Builder b;
  Values p;
  for (const auto& t : {x, i, v})
    p.push_back(b.parameter(type_of(t)));
  const auto y =
      composite(b,
                "aten.index_put",
                p,
                {Operand{0}, ir::OperandList{{1}}, Operand{2}, false},
                {type_of(x)});
  at::Tensor want = x.clone();
  want.index_copy_(0, i, v);
  run(b.finish(y, {0}), {x, i, v});
  expect_close(x, want);
}

TEST(InPlace, MatmulOntoAnOperandIsComputedApart) {
  at::Tensor x = at::randn({4, 4}), y = at::randn({4, 4});
  const at::Tensor want = x.matmul(y);
  Builder b;
  const Value p = b.parameter(type_of(x)), q = b.parameter(type_of(y));
  const auto z =
      composite(b, "aten.mm", {p, q}, {Operand{0}, Operand{1}}, {type_of(x)});
  run(b.finish(z, {0}), {x, y});
  expect_close(x, want);
}

TEST(InPlace, OutputOverAnInputThatNobodyDeclared) {
  const at::Tensor x = at::randn({4, 4}), y = at::randn({4, 4});
  Builder b;
  const Value p = b.parameter(type_of(x)), q = b.parameter(type_of(y));
  const auto z =
      composite(b, "aten.mm", {p, q}, {Operand{0}, Operand{1}}, {type_of(x)});
  const auto executor = load(b.finish(z));
  const at::Tensor want = x.matmul(y);
  void* in[] = {x.mutable_data_ptr(), y.mutable_data_ptr()};
  void* out[] = {x.mutable_data_ptr()};
  executor->run(in, out);
  expect_close(x, want);
}

TEST(InPlace, StridedViewOfItsExtent) {
  at::Tensor base = numbers({4, 6});
  at::Tensor view = base.slice(0, 0, 4, 2).slice(1, 1, 6, 2);
  const at::Tensor want = base.clone();
  want.slice(0, 0, 4, 2).slice(1, 1, 6, 2).add_(10);
  Builder b;
  const Value p = b.parameter({DType::Float32, {24}});
  const Shape size{2, 3}, stride{12, 2};
  const Value x = b.as_strided(p, size, stride, 1);
  const auto y = composite(
      b, "aten.add.Scalar", {x}, {Operand{0}, int64_t{10}}, {b.type(x)});
  const Value z = b.as_strided_scatter(p, y[0], stride, 1);
  run(b.finish({z}, {0}), {base});
  expect_close(base, want);
}

TEST(InPlace, TransposedSourceOfTheSameExtent) {
  at::Tensor x = numbers({4, 4});
  const at::Tensor want = x.add(x.t());
  Builder b;
  const Value p = b.parameter({DType::Float32, {16}});
  const Value square = b.reshape(p, {4, 4});
  const Value t = b.as_strided(p, {4, 4}, {1, 4}, 0);
  const Value y = b.reshape(add(b, square, t), {16});
  run(b.finish({y}, {0}), {x});
  expect_close(x, want);
}

TEST(InPlace, LaterReadersSeeTheOldContent) {
  at::Tensor x = at::randn({4}), old = x.clone();
  Builder b;
  const Value p = b.parameter(type_of(x));
  const Value sum = add(b, p, p);
  const Value product = mul(b, p, p);
  const auto got = run(b.finish({sum, product}, {0, -1}), {x});
  expect_close(x, old.add(old));
  expect_close(got[1], old.mul(old));
}

TEST(InPlace, ParametersSwap) {
  at::Tensor x = at::randn({4}), y = at::randn({4});
  const at::Tensor a = x.clone(), c = y.clone();
  Builder b;
  const Value p = b.parameter(type_of(x)), q = b.parameter(type_of(y));
  run(b.finish({q, p}, {0, 1}), {x, y});
  expect_close(x, c);
  expect_close(y, a);
}

TEST(InPlace, OneValueForTwoResults) {
  at::Tensor x = at::randn({4}), old = x.clone();
  Builder b;
  const Value p = b.parameter(type_of(x));
  const Value y = add(b, p, p);
  const auto got = run(b.finish({y, y, p}, {0, -1, -1}), {x});
  expect_close(x, old.add(old));
  expect_close(got[1], old.add(old));
  expect_close(got[2], old);
}

TEST(Layout, ResultsHaveTheLayoutThatIsAsked) {
  const at::Tensor x = at::randn({2, 3, 4});
  Builder b;
  const Value p = b.parameter(type_of(x));
  const Value y = add(b, p, p);
  const Value z = b.to_strided(y, {1, 8, 2});
  const auto got = run(b.finish({z}), {x})[0];
  expect_close(got.as_strided({2, 3, 4}, {1, 8, 2}), x.add(x));
}

TEST(Layout, StridedAndBroadcastOperandsAreViews) {
  const at::Tensor x = numbers({12});
  Builder b;
  const Value p = b.parameter(type_of(x));
  const Value v = b.as_strided(p, {3, 2, 2}, {4, 0, 1}, 1);
  const Value y = add(b, v, v);
  expect_close(run(b.finish({y}), {x})[0],
               x.as_strided({3, 2, 2}, {4, 0, 1}, 1).mul(2));
}

TEST(Layout, ScatterOntoAComputedExtent) {
  const at::Tensor x = numbers({6}), v = at::randn({3});
  Builder b;
  const Value p = b.parameter(type_of(x)), q = b.parameter(type_of(v));
  const Value once = b.as_strided_scatter(add(b, p, p), q, {2}, 0);
  const Value twice = b.as_strided_scatter(once, add(b, q, q), {2}, 1);
  const auto got = run(b.finish({twice}), {x, v})[0];
  expect_close(got.view({3, 2}).select(1, 0), v);
  expect_close(got.view({3, 2}).select(1, 1), v.add(v));
}

TEST(Views, AtenViewsDoNotCopy) {
  const at::Tensor x = at::randn({2, 3, 4});
  Builder b;
  const Value p = b.parameter(type_of(x));
  const Value t = composite(b,
                            "aten.transpose.int",
                            {p},
                            {Operand{0}, int64_t{0}, int64_t{2}},
                            {{DType::Float32, {4, 3, 2}}})[0];
  const Value s =
      composite(b,
                "aten.slice.Tensor",
                {t},
                {Operand{0}, int64_t{0}, int64_t{1}, int64_t{3}, int64_t{1}},
                {{DType::Float32, {2, 3, 2}}})[0];
  const Value e = composite(b,
                            "aten.unsqueeze",
                            {s},
                            {Operand{0}, int64_t{0}},
                            {{DType::Float32, {1, 2, 3, 2}}})[0];
  const auto chunks = composite(
      b,
      "aten.split.Tensor",
      {e},
      {Operand{0}, int64_t{2}, int64_t{2}},
      {{DType::Float32, {1, 2, 2, 2}}, {DType::Float32, {1, 2, 1, 2}}});
  const Value y = add(b, chunks[0], chunks[0]);
  const auto got = run(b.finish({y, chunks[1]}), {x});
  const auto want = x.transpose(0, 2).slice(0, 1, 3).unsqueeze(0).split(2, 2);
  expect_close(got[0], want[0].mul(2));
  expect_close(got[1], want[1]);
}

TEST(Views, ViewThatTheStridesForbidCopies) {
  const at::Tensor x = at::randn({2, 3});
  for (const char* name : {"aten.view", "aten.reshape", "aten._unsafe_view"}) {
    Builder c;
    const Value q = c.parameter(type_of(x));
    const Value u = composite(
        c, "aten.t", {q}, {Operand{0}}, {{DType::Float32, {3, 2}}})[0];
    const Value y = composite(
        c, name, {u}, {Operand{0}, Shape{6}}, {{DType::Float32, {6}}})[0];
    expect_close(run(c.finish({add(c, y, y)}), {x})[0],
                 x.t().reshape({6}).mul(2));
  }
}

TEST(Views, ReshapedResultIsWrittenDirectly) {
  const at::Tensor x = at::randn({2, 3});
  Builder b;
  const Value p = b.parameter(type_of(x));
  const Value y = b.reshape(add(b, p, p), {6});
  expect_close(run(b.finish({y}), {x})[0], x.mul(2).view({6}));
}

TEST(Plan, ChainsReuseIntermediateMemory) {
  const at::Tensor x = at::randn({33}), y = at::randn({33});
  Builder b;
  const Value p = b.parameter(type_of(x)), q = b.parameter(type_of(y));
  Value v = p;
  at::Tensor want = x;
  for (int i = 0; i < 20; ++i) {
    const Value sum = add(b, v, q), product = mul(b, v, q);
    v = composite(b,
                  "aten.maximum",
                  {sum, product},
                  {Operand{0}, Operand{1}},
                  {type_of(x)})[0];
    want = want.add(y).maximum(want.mul(y));
  }
  expect_close(run(b.finish({v}), {x, y})[0], want);
}

TEST(Plan, MixesAtenAndStableHlo) {
  const at::Tensor x = at::randn({4, 4});
  Builder b;
  const Value p = b.parameter(type_of(x));
  const Value y = b.exp(add(b, p, p));
  const Value z =
      add(b, y, b.broadcast(b.constant(DType::Float32, 1.5), {4, 4}));
  expect_close(run(b.finish({z, y}), {x})[0], x.mul(2).exp().add(1.5));
}

TEST(Plan, ConstantResult) {
  Builder b;
  const Value p = b.parameter({DType::Float32, {2}});
  const Value c = b.constant(DType::Float32, 2.0, {3});
  const at::Tensor x = at::randn({2});
  const auto got = run(b.finish({c, p}), {x});
  expect_close(got[0], at::ones({3}).mul(2));
  expect_close(got[1], x);
}

TEST(Plan, EmptyTensors) {
  Builder b;
  const Value p = b.parameter({DType::Float32, {0, 3}});
  const auto y = composite(b,
                           "aten.sum.dim_IntList",
                           {p},
                           {Operand{0}, Shape{0}},
                           {{DType::Float32, {3}}});
  expect_close(run(b.finish(y), {at::empty({0, 3})})[0], at::zeros({3}));
}

TEST(Plan, ExecutorsRunOnSeveralThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      const at::Tensor x = at::ones({100}).mul(t);
      Builder b;
      const Value p = b.parameter(type_of(x));
      const Value y = mul(b, add(b, p, p), add(b, p, p));
      const auto executor = load(b.finish({y}));
      for (int i = 0; i < 100; ++i)
        expect_close(run(*executor, {x})[0], x.mul(2).square());
    });
  for (auto& thread : threads)
    thread.join();
}

// Errors.

TEST(Error, IndexOutOfRange) {
  const at::Tensor x = at::randn({3, 4});
  const at::Tensor i = at::tensor({7}, at::kLong);
  Builder b;
  const Value p = b.parameter(type_of(x)), q = b.parameter(type_of(i));
  const auto embedding = composite(b,
                                   "aten.embedding",
                                   {p, q},
                                   {Operand{0}, Operand{1}},
                                   {{DType::Float32, {1, 4}}});
  const auto index = composite(b,
                               "aten.index.Tensor",
                               {p, q},
                               {Operand{0}, ir::OperandList{{1}}},
                               {{DType::Float32, {1, 4}}});
  for (const auto& y : {embedding, index}) {
    Builder copy = b;
    const auto executor = load(copy.finish(y));
    for (int i : {0, 1})
      EXPECT_THROW(run(*executor, {x, at::tensor({7}, at::kLong)}),
                   std::out_of_range)
          << i;
    EXPECT_NO_THROW(run(*executor, {x, at::tensor({2}, at::kLong)}));
  }
}

TEST(Error, OtherErrorsHaveNoBacktrace) {
  const at::Tensor x = at::randn({3, 3});
  Builder b;
  const Value p = b.parameter(type_of(x));
  const auto y = composite(
      b, "aten.linalg_cholesky", {p}, {Operand{0}, false}, {type_of(x)});
  try {
    run(b.finish(y), {x.neg().matmul(x.t())});
    FAIL() << "expected an error";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()).find("Exception raised from"),
              std::string::npos);
  }
}

TEST(Error, ResultOfAnotherTypeIsReported) {
  Builder b;
  const Value p = b.parameter({DType::Float32, {3}});
  const auto y = composite(
      b, "aten.gt.Scalar", {p}, {Operand{0}, int64_t{0}}, {{DType::Int8, {2}}});
  EXPECT_THROW(run(b.finish(y), {at::ones({3})}), std::runtime_error);
}

TEST(Error, BytesThatAreNoProgram) {
  EXPECT_THROW(Executor::load("abc", 3), std::invalid_argument);
}

// Composites of our own.

TEST(Philox, KnownVector) {
  Builder b;
  const Value seed = b.parameter({DType::Int64, {}});
  const Value offset = b.parameter({DType::Int64, {}});
  const auto program = b.finish({b.philox(seed, offset, 4)});
  const at::Tensor zero = at::zeros({}, at::kLong);
  for (const char* mode : {"fast", "decomposed"}) {
    const Numerics numerics(mode);
    const auto got = run(program, {zero, zero})[0];
    const auto* words = static_cast<const uint32_t*>(got.const_data_ptr());
    EXPECT_EQ(words[0], 0x6627e8d5u) << mode;
    EXPECT_EQ(words[1], 0xe169c58du);
    EXPECT_EQ(words[2], 0xbc57ac4cu);
    EXPECT_EQ(words[3], 0x9b00dbd8u);
  }
}

TEST(Philox, AgreesWithItsDecomposition) {
  for (int64_t n : {1, 31, 32, 33, 1000}) {
    Builder b;
    const Value seed = b.parameter({DType::Int64, {}});
    const Value offset = b.parameter({DType::Int64, {}});
    const auto program = b.finish({b.philox(seed, offset, n)});
    const Tensors in{at::scalar_tensor(-123456789012345, at::kLong),
                     at::scalar_tensor(0xFFFFFFFE, at::kLong)};
    const auto fast = run(program, in)[0];
    const Numerics numerics("decomposed");
    EXPECT_TRUE(run(program, in)[0].equal(fast)) << n;
  }
}

// softmax(q k^T * scale + bias) v
at::Tensor reference(const at::Tensor& q,
                     const at::Tensor& k,
                     const at::Tensor& v,
                     const at::Tensor& bias,
                     bool causal) {
  at::Tensor s = q.matmul(k.transpose(-2, -1)).div(std::sqrt(q.size(-1)));
  if (bias.defined())
    s = s.add(bias);
  if (causal)
    s = s.masked_fill(
        at::ones({s.size(-2), s.size(-1)}, at::kBool).tril().logical_not(),
        -INFINITY);
  return s.softmax(-1).matmul(v);
}

Values attention(Builder& b,
                 const Values& operands,
                 Attribute bias,
                 bool causal) {
  const TensorType query = b.type(operands[0]);
  Shape rows = query.shape;
  rows.pop_back();
  const TensorType none{DType::Bool, {0}}, seed{DType::Int64, {}};
  return composite(
      b,
      "aten._scaled_dot_product_fused_attention_overrideable",
      operands,
      {Operand{0}, Operand{1}, Operand{2}, bias, 0.0, causal, false, {}},
      {query, {DType::Float32, rows}, none, none, seed, seed, none});
}

TEST(Attention, MatchesTheDefinition) {
  const at::Tensor q = at::randn({2, 3, 5, 8}), k = at::randn({2, 3, 7, 8}),
                   v = at::randn({2, 3, 7, 8});
  const at::Tensor bias = at::randn({1, 1, 5, 7});
  const at::Tensor mask = bias.gt(-1);
  const at::Tensor none;
  for (const at::Tensor& m : {none, bias, mask}) {
    Builder b;
    Values p;
    Tensors in{q, k, v};
    if (m.defined())
      in.push_back(m);
    for (const auto& t : in)
      p.push_back(b.parameter(type_of(t)));
    const auto y = attention(
        b, p, m.defined() ? Attribute(Operand{3}) : Attribute(), false);
    const at::Tensor added =
        m.defined() && m.scalar_type() == at::kBool
            ? at::zeros({1, 1, 5, 7}).masked_fill(m.logical_not(), -INFINITY)
            : m;
    expect_close(run(b.finish({y[0], y[1]}), in)[0],
                 reference(q, k, v, added, false),
                 1e-4);
  }
}

TEST(Attention, CausalBackward) {
  const at::Tensor q = at::randn({1, 2, 6, 8}), k = at::randn({1, 2, 6, 8}),
                   v = at::randn({1, 2, 6, 8}), g = at::randn({1, 2, 6, 8});
  Builder b;
  Values p;
  for (const auto& t : {q, k, v, g})
    p.push_back(b.parameter(type_of(t)));
  const auto y = attention(b, {p[0], p[1], p[2]}, {}, true);
  const auto grads = composite(
      b,
      "aten._scaled_dot_product_fused_attention_overrideable_backward",
      {p[3], p[0], p[1], p[2], y[0], y[1], y[4], y[5]},
      {Operand{0},
       Operand{1},
       Operand{2},
       Operand{3},
       {},
       std::vector<int64_t>{1, 1, 1, 0},
       Operand{4},
       Operand{5},
       {},
       {},
       int64_t{6},
       int64_t{6},
       0.0,
       true,
       Operand{6},
       Operand{7},
       {}},
      {type_of(q), type_of(k), type_of(v), {DType::Bool, {0}}});
  const auto got =
      run(b.finish({y[0], grads[0], grads[1], grads[2]}), {q, k, v, g});
  expect_close(got[0], reference(q, k, v, {}, true), 1e-4);
  // Against finite differences of sum(g * attention).
  const double step = 1e-3;
  const Tensors xs{q, k, v};
  for (int i = 0; i < 3; ++i) {
    const at::Tensor direction = at::randn({1, 2, 6, 8});
    Tensors up = xs, down = xs;
    for (auto& t : up)
      t = t.to(at::kDouble);
    down = up;
    up[i] = up[i].add(direction, step);
    down[i] = down[i].sub(direction, step);
    const double want =
        (reference(up[0], up[1], up[2], {}, true)
             .sub(reference(down[0], down[1], down[2], {}, true)))
            .mul(g)
            .sum()
            .item()
            .toDouble() /
        (2 * step);
    EXPECT_NEAR(got[1 + i].mul(direction).sum().item().toDouble(),
                want,
                1e-3 * (1 + std::abs(want)));
  }
}

}  // namespace
}  // namespace neuronx::sim
