// SPDX-License-Identifier: Apache-2.0
// StableHLO operations against ATen or closed forms.
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/full.h>
#include <ATen/ops/lgamma.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/nextafter.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/polygamma.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/special_i1e.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <functional>
#include <limits>

#include "sim_executor_fixture.h"

namespace neuronx::sim {
namespace {

using ir::Compare;
using ir::Reduce;
using Function = std::function<Values(Builder&, const Values&)>;

// The results of `f`, given operation by operation.
Tensors evaluate(const Tensors& inputs, const Function& f) {
  Builder b;
  Values parameters;
  for (const at::Tensor& x : inputs)
    parameters.push_back(b.parameter(type_of(x)));
  return run(b.finish(f(b, parameters)), inputs);
}

at::Tensor longs(std::vector<int64_t> values) {
  return at::tensor(values, at::kLong);
}

at::Tensor bools(std::vector<int64_t> values) {
  return longs(std::move(values)).to(at::kBool);
}

at::Tensor floats(std::vector<double> values) {
  return at::tensor(values, at::kFloat);
}

TEST(Unary, MatchesAten) {
  const std::vector<std::pair<std::string, at::Tensor (*)(const at::Tensor&)>>
      cases{
          {"abs", [](const at::Tensor& x) { return x.abs(); }},
          {"ceil", [](const at::Tensor& x) { return x.ceil(); }},
          {"cosine", [](const at::Tensor& x) { return x.cos(); }},
          {"exponential", [](const at::Tensor& x) { return x.exp(); }},
          {"exponential_minus_one",
           [](const at::Tensor& x) { return x.expm1(); }},
          {"floor", [](const at::Tensor& x) { return x.floor(); }},
          {"log", [](const at::Tensor& x) { return x.log(); }},
          {"log_plus_one", [](const at::Tensor& x) { return x.log1p(); }},
          {"logistic", [](const at::Tensor& x) { return x.sigmoid(); }},
          {"negate", [](const at::Tensor& x) { return x.neg(); }},
          {"round_nearest_even", [](const at::Tensor& x) { return x.round(); }},
          {"rsqrt", [](const at::Tensor& x) { return x.rsqrt(); }},
          {"sine", [](const at::Tensor& x) { return x.sin(); }},
          {"sqrt", [](const at::Tensor& x) { return x.sqrt(); }},
          {"tan", [](const at::Tensor& x) { return x.tan(); }},
          {"tanh", [](const at::Tensor& x) { return x.tanh(); }},
          {"sign", [](const at::Tensor& x) { return x.sign(); }},
          {"real", [](const at::Tensor& x) { return x; }},
          {"imag", [](const at::Tensor& x) { return x.mul(0); }},
  };
  const at::Tensor x = floats({-2.5, -0.3, 0.5, 1.5, 2.7, 0});
  for (const auto& [name, f] : cases)
    for (auto type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
      SCOPED_TRACE(name);
      const at::Tensor y = x.to(type);
      const auto got = evaluate({y}, [&](Builder& b, const Values& v) {
        return Values{b.unary(name, v[0])};
      });
      const at::Tensor wide = type == at::kDouble ? y : y.to(at::kFloat);
      expect_close(got[0], f(wide).to(type), 1e-6);
    }
}

TEST(Unary, Chlo) {
  const std::vector<std::pair<std::string, at::Tensor (*)(const at::Tensor&)>>
      cases{
          {"acos", [](const at::Tensor& x) { return x.acos(); }},
          {"acosh", [](const at::Tensor& x) { return x.acosh(); }},
          {"asin", [](const at::Tensor& x) { return x.asin(); }},
          {"asinh", [](const at::Tensor& x) { return x.asinh(); }},
          {"atan", [](const at::Tensor& x) { return x.atan(); }},
          {"atanh", [](const at::Tensor& x) { return x.atanh(); }},
          {"bessel_i1e",
           [](const at::Tensor& x) { return at::special_i1e(x); }},
          {"cosh", [](const at::Tensor& x) { return x.cosh(); }},
          {"digamma", [](const at::Tensor& x) { return x.digamma(); }},
          {"erf", [](const at::Tensor& x) { return x.erf(); }},
          {"erf_inv", [](const at::Tensor& x) { return x.erfinv(); }},
          {"erfc", [](const at::Tensor& x) { return x.erfc(); }},
          {"lgamma", [](const at::Tensor& x) { return x.lgamma(); }},
          {"sinh", [](const at::Tensor& x) { return x.sinh(); }},
          {"square", [](const at::Tensor& x) { return x.square(); }},
          {"tan", [](const at::Tensor& x) { return x.tan(); }},
          {"is_inf", [](const at::Tensor& x) { return x.isinf(); }},
          {"is_neg_inf", [](const at::Tensor& x) { return x.isneginf(); }},
          {"is_pos_inf", [](const at::Tensor& x) { return x.isposinf(); }},
  };
  const at::Tensor x = floats({-0.5, 0.25, 0.75, 1.5, -INFINITY, INFINITY});
  for (const auto& [name, f] : cases) {
    SCOPED_TRACE(name);
    const auto got = evaluate({x}, [&](Builder& b, const Values& v) {
      return Values{b.chlo(name, v[0])};
    });
    expect_close(got[0], f(x));
  }
}

TEST(Unary, ClosedForms) {
  const at::Tensor x = floats({-2.5, 0.5, -27, 0.49999997, NAN, INFINITY});
  const auto got = evaluate({x}, [](Builder& b, const Values& v) {
    return Values{b.unary("round_nearest_afz", v[0]),
                  b.unary("cbrt", v[0]),
                  b.is_finite(v[0]),
                  b.unary("sign", v[0]),
                  b.reduce_precision(v[0], 5, 10)};
  });
  expect_close(got[0], floats({-3, 1, -27, 0, NAN, INFINITY}));
  expect_close(got[1],
               floats({-1.3572088, 0.7937005, -3, 0.7937005, NAN, INFINITY}));
  EXPECT_TRUE(got[2].equal(bools({1, 1, 1, 1, 0, 0})));
  expect_close(got[3], floats({-1, 1, -1, 1, NAN, 1}));
  expect_close(got[4], x.to(at::kHalf).to(at::kFloat), 0);
}

TEST(Unary, ReducePrecisionRoundsLikeNarrowTypes) {
  const at::Tensor x = at::randn({1000}).mul(1e3);
  const auto got = evaluate({x}, [](Builder& b, const Values& v) {
    return Values{b.reduce_precision(v[0], 8, 7),
                  b.reduce_precision(v[0], 5, 10)};
  });
  expect_close(got[0], x.to(at::kBFloat16).to(at::kFloat), 0);
  expect_close(got[1], x.to(at::kHalf).to(at::kFloat), 0);
}

TEST(Binary, FloatsMatchAten) {
  const at::Tensor x = floats({-2.5, 0.3, 0.5, 7.5}),
                   y = floats({1.5, -0.2, 2, 2});
  const std::vector<std::pair<std::string, at::Tensor>> cases{
      {"add", x.add(y)},
      {"subtract", x.sub(y)},
      {"multiply", x.mul(y)},
      {"divide", x.div(y)},
      {"maximum", x.maximum(y)},
      {"minimum", x.minimum(y)},
      {"power", x.pow(y)},
      {"remainder", x.fmod(y)},
      {"atan2", x.atan2(y)}};
  for (const auto& [name, want] : cases) {
    SCOPED_TRACE(name);
    const auto got = evaluate({x, y}, [&](Builder& b, const Values& v) {
      return Values{b.binary(name, v[0], v[1])};
    });
    expect_close(got[0], want);
  }
  const auto got = evaluate({x, y.abs()}, [](Builder& b, const Values& v) {
    return Values{
        b.chlo("next_after", v[0], v[1]),
        b.chlo("polygamma", b.constant(DType::Float32, 2, {4}), v[1]),
        b.chlo("polygamma", b.constant(DType::Float32, 0, {4}), v[1])};
  });
  expect_close(got[0], at::nextafter(x, y.abs()), 0);
  expect_close(got[1], at::polygamma(2, y.abs()), 1e-4);
  expect_close(got[2], y.abs().digamma());
}

TEST(Binary, Bfloat16RoundsOnce) {
  const at::Tensor x = at::randn({100}).to(at::kBFloat16),
                   y = at::randn({100}).to(at::kBFloat16);
  const auto got = evaluate({x, y}, [](Builder& b, const Values& v) {
    return Values{b.div(v[0], v[1])};
  });
  expect_close(
      got[0], x.to(at::kFloat).div(y.to(at::kFloat)).to(at::kBFloat16), 0);
}

TEST(Binary, IntegersHaveXlaSemantics) {
  const int32_t low = std::numeric_limits<int32_t>::min();
  const auto ints = [](std::vector<int64_t> v) {
    return longs(std::move(v)).to(at::kInt);
  };
  const at::Tensor x = ints({7, -7, 5, low, 1, -1}),
                   y = ints({2, 2, 0, -1, 33, 40});
  const std::vector<std::pair<std::string, at::Tensor>> cases{
      {"divide", ints({3, -3, -1, low, 0, 0})},
      {"remainder", ints({1, -1, 5, 0, 1, -1})},
      {"shift_left", ints({28, -28, 5, 0, 0, 0})},
      {"shift_right_arithmetic", ints({1, -2, 5, -1, 0, -1})},
      {"shift_right_logical", ints({1, 1073741822, 5, 0, 0, 0})},
      {"power", ints({49, 49, 1, 0, 1, 1})},
      {"xor", ints({5, -5, 5, INT32_MAX, 32, -41})},
      {"maximum", ints({7, 2, 5, -1, 33, 40})}};
  for (const auto& [name, want] : cases) {
    SCOPED_TRACE(name);
    const auto got = evaluate({x, y}, [&](Builder& b, const Values& v) {
      return Values{b.binary(name, v[0], v[1])};
    });
    expect_close(got[0], want);
  }
  const auto got = evaluate({x}, [](Builder& b, const Values& v) {
    return Values{b.unary("popcnt", v[0]),
                  b.unary("count_leading_zeros", v[0]),
                  b.logical_not(v[0]),
                  b.neg(v[0]),
                  b.unary("abs", v[0])};
  });
  expect_close(got[0], ints({3, 30, 2, 1, 1, 32}));
  expect_close(got[1], ints({29, 0, 29, 0, 31, 0}));
  expect_close(got[2], x.bitwise_not());
  expect_close(got[3], ints({-7, 7, -5, low, -1, 1}));
  expect_close(got[4], ints({7, 7, 5, low, 1, 1}));
}

TEST(Binary, UnsignedCompareAndDivide) {
  const auto got = evaluate(
      {longs({-1, 5}), longs({2, -3})}, [](Builder& b, const Values& v) {
        const Value x = b.bitcast(v[0], DType::UInt64);
        const Value y = b.bitcast(v[1], DType::UInt64);
        return Values{b.compare(Compare::LT, x, y),
                      b.bitcast(b.div(x, y), DType::Int64),
                      b.convert(x, DType::Float32),
                      b.bitcast(b.convert(v[0], DType::UInt32), DType::Int32)};
      });
  EXPECT_TRUE(got[0].equal(bools({0, 1})));
  expect_close(got[1], longs({INT64_MAX, 0}));
  expect_close(got[2], floats({1.8446744e19, 5}));
  expect_close(got[3], longs({-1, 5}).to(at::kInt));
}

TEST(Elementwise, CompareSelectClamp) {
  const at::Tensor x = floats({1, NAN, 3, -4}), y = floats({1, 2, 2, 5});
  const auto got = evaluate({x, y}, [](Builder& b, const Values& v) {
    Values results;
    for (auto d : {Compare::EQ,
                   Compare::NE,
                   Compare::LT,
                   Compare::LE,
                   Compare::GT,
                   Compare::GE})
      results.push_back(b.compare(d, v[0], v[1]));
    results.push_back(b.select(results[2], v[0], v[1]));
    results.push_back(b.clamp(
        b.constant(DType::Float32, -1), v[0], b.constant(DType::Float32, 2)));
    return results;
  });
  const Tensors want{x.eq(y), x.ne(y), x.lt(y), x.le(y), x.gt(y), x.ge(y)};
  for (int i = 0; i < 6; ++i)
    EXPECT_TRUE(got[i].equal(want[i])) << i;
  expect_close(got[6], at::where(x.lt(y), x, y));
  expect_close(got[7], floats({1, NAN, 2, -1}));
}

TEST(Elementwise, ConvertBetweenAllTypes) {
  const at::Tensor x = floats({0, 1, 2.75, 100});
  for (int from = 0; from <= int(DType::Float8E5M2); ++from)
    for (int to = 0; to <= int(DType::Float8E5M2); ++to) {
      SCOPED_TRACE(std::string(name(DType(from))) + " to " +
                   std::string(name(DType(to))));
      const auto got = evaluate({x}, [&](Builder& b, const Values& v) {
        const Value y = b.convert(v[0], DType(from));
        return Values{b.convert(y, DType::Float64),
                      b.convert(b.convert(y, DType(to)), DType::Float64)};
      });
      at::Tensor want = got[0];
      if (DType(to) == DType::Bool)
        want = want.ne(0).to(at::kDouble);
      else if (is_integral(DType(to)))
        want = want.trunc();
      else if (DType(to) != DType::Float64)
        want = want.to(at::kFloat)
                   .to(to_scalar_type(DType(to)))
                   .to(at::kFloat)
                   .to(at::kDouble);
      expect_close(got[1], want, 0);
    }
}

TEST(Elementwise, FloatToIntegerSaturates) {
  const at::Tensor x = floats({1e20, -1e20, NAN, -1.9});
  const auto got = evaluate({x}, [](Builder& b, const Values& v) {
    return Values{b.convert(v[0], DType::Int32),
                  b.convert(b.convert(v[0], DType::UInt8), DType::Int32)};
  });
  expect_close(got[0], longs({INT32_MAX, INT32_MIN, 0, -1}).to(at::kInt));
  expect_close(got[1], longs({255, 0, 0, 0}).to(at::kInt));
}

TEST(Shape, Movement) {
  const at::Tensor x = at::randn({2, 3, 4});
  for (auto type : {at::kFloat, at::kFloat8_e4m3fn, at::kUInt32, at::kBool}) {
    const at::Tensor y = type == at::kUInt32
                             ? at::randint(9, {2, 3, 4}, at::kInt).view(type)
                             : x.to(type);
    const auto bits = [&](const at::Tensor& t) {
      return t.view(t.element_size() == 4 ? at::kInt : at::kByte);
    };
    const auto got = evaluate({y}, [](Builder& b, const Values& v) {
      return Values{b.transpose(v[0], {2, 0, 1}),
                    b.slice(v[0], {0, 1, 0}, {2, 3, 4}, {1, 1, 3}),
                    b.reverse(v[0], {0, 2}),
                    b.concatenate({v[0], v[0]}, 1),
                    b.broadcast_in_dim(v[0], {2, 5, 3, 4}, {0, 2, 3}),
                    b.reshape(b.transpose(v[0], {2, 1, 0}), {6, 4})};
    });
    const at::Tensor z = bits(y);
    EXPECT_TRUE(bits(got[0]).equal(z.permute({2, 0, 1})));
    EXPECT_TRUE(bits(got[1]).equal(z.slice(1, 1).slice(2, 0, 4, 3)));
    EXPECT_TRUE(bits(got[2]).equal(z.flip({0, 2})));
    EXPECT_TRUE(bits(got[3]).equal(at::cat({z, z}, 1)));
    EXPECT_TRUE(bits(got[4]).equal(z.unsqueeze(1).expand({2, 5, 3, 4})));
    EXPECT_TRUE(bits(got[5]).equal(z.permute({2, 1, 0}).reshape({6, 4})));
  }
}

TEST(Shape, Iota) {
  const auto got = evaluate({}, [](Builder& b, const Values&) {
    return Values{b.iota({DType::Int32, {2, 3}}, 1),
                  b.iota({DType::BFloat16, {3, 2}}, 0),
                  b.bitcast(b.iota({DType::UInt32, {4}}, 0), DType::Int32)};
  });
  expect_close(got[0], at::arange(3, at::kInt).expand({2, 3}));
  expect_close(got[1],
               at::arange(3, at::kBFloat16).unsqueeze(1).expand({3, 2}));
  expect_close(got[2], at::arange(4, at::kInt));
}

TEST(Shape, PadNegativeAndInterior) {
  const at::Tensor x = floats({1, 2, 3, 4});
  const auto padded = [&](int64_t low, int64_t high, int64_t interior) {
    return evaluate({x}, [&](Builder& b, const Values& v) {
      return Values{b.pad(
          v[0], b.constant(DType::Float32, 9), {low}, {high}, {interior})};
    })[0];
  };
  expect_close(padded(1, 2, 0), floats({9, 1, 2, 3, 4, 9, 9}));
  expect_close(padded(0, 0, 1), floats({1, 9, 2, 9, 3, 9, 4}));
  expect_close(padded(-1, -1, 0), floats({2, 3}));
  expect_close(padded(-1, 0, 1), floats({9, 2, 9, 3, 9, 4}));
  expect_close(padded(-3, 1, 2), floats({2, 9, 9, 3, 9, 9, 4, 9}));
  expect_close(padded(-5, 3, 0), floats({9, 9}));
}

TEST(Shape, DynamicSliceClampsItsStart) {
  const at::Tensor x = at::arange(12, at::kFloat).view({3, 4});
  const at::Tensor u = at::ones({2, 2});
  for (int64_t start : {-3, 0, 1, 9}) {
    const auto got = evaluate(
        {x, u, at::scalar_tensor(start, at::kLong)},
        [](Builder& b, const Values& v) {
          return Values{b.dynamic_slice(v[0], {v[2], v[2]}, {2, 2}),
                        b.dynamic_update_slice(v[0], v[1], {v[2], v[2]})};
        });
    const int64_t i = std::clamp<int64_t>(start, 0, 1),
                  j = std::clamp<int64_t>(start, 0, 2);
    expect_close(got[0], x.slice(0, i, i + 2).slice(1, j, j + 2));
    at::Tensor want = x.clone();
    want.slice(0, i, i + 2).slice(1, j, j + 2).copy_(u);
    expect_close(got[1], want);
  }
}

TEST(Reduce, NamedCombiners) {
  const at::Tensor x = at::randn({3, 4, 5});
  const auto got = evaluate({x}, [](Builder& b, const Values& v) {
    return Values{b.reduce(v[0], Reduce::Add, {0, 2}),
                  b.reduce(v[0], Reduce::Mul, {1}),
                  b.reduce(v[0], Reduce::Max, {2, 0}),
                  b.reduce(v[0], Reduce::Min, {0, 1, 2})};
  });
  expect_close(got[0], x.sum({0, 2}));
  expect_close(got[1], x.prod(1));
  expect_close(got[2], x.amax({0, 2}));
  expect_close(got[3], x.amin());
  const at::Tensor i = at::randint(-9, 9, {3, 4}, at::kInt);
  const auto ints = evaluate({i}, [](Builder& b, const Values& v) {
    const Value u = b.bitcast(v[0], DType::UInt32);
    return Values{
        b.reduce(v[0], Reduce::Add, {0}),
        b.reduce(v[0], Reduce::And, {1}),
        b.reduce(v[0], Reduce::Or, {1}),
        b.convert(b.reduce(u, Reduce::Max, {0, 1}), DType::Int64),
        b.reduce(
            b.compare(Compare::GT, v[0], b.constant(DType::Int32, 8, {3, 4})),
            Reduce::Or,
            {0})};
  });
  expect_close(ints[0], i.sum(0, false, at::kInt));
  for (int64_t r = 0; r < 3; ++r) {
    int32_t all = -1, any = 0;
    for (int64_t c = 0; c < 4; ++c) {
      all &= i[r][c].item().toInt();
      any |= i[r][c].item().toInt();
    }
    EXPECT_EQ(ints[1][r].item().toInt(), all);
    EXPECT_EQ(ints[2][r].item().toInt(), any);
  }
  EXPECT_EQ(ints[3].item().toLong(),
            i.to(at::kLong).bitwise_and(0xFFFFFFFF).max().item().toLong());
  EXPECT_TRUE(ints[4].equal(i.gt(8).any(0)));
}

TEST(Reduce, Bfloat16AccumulatesInFloat32) {
  const at::Tensor x = at::ones({1000}).to(at::kBFloat16);
  const auto got = evaluate({x}, [](Builder& b, const Values& v) {
    return Values{b.reduce(v[0], Reduce::Add, {0})};
  });
  EXPECT_EQ(got[0].item().toFloat(), 1000);
}

TEST(Reduce, GeneralRegionOfPairs) {
  for (int64_t n : {1, 2, 5, 16, 37}) {
    const at::Tensor x = at::randint(0, 4, {3, n}, at::kFloat);
    const auto got = evaluate({x}, [&](Builder& b, const Values& v) {
      const Value i = b.iota({DType::Int64, {3, n}}, 1);
      return b.reduce(
          {v[0], i},
          {b.constant(DType::Float32, -INFINITY), b.constant(DType::Int64, 0)},
          {1},
          [](Builder& r, const Values& p) -> Values {
            const Value keep = r.compare(Compare::GE, p[0], p[2]);
            return {r.select(keep, p[0], p[2]), r.select(keep, p[1], p[3])};
          });
    });
    expect_close(got[0], x.amax(1));
    expect_close(got[1], x.argmax(1));
  }
}

TEST(ReduceWindow, MaxPoolAndCumulativeSum) {
  const at::Tensor x = at::randn({2, 3, 7, 8});
  const auto got = evaluate({x}, [](Builder& b, const Values& v) {
    const ir::Window pool{
        {1, 1, 3, 2}, {1, 1, 2, 2}, {1, 1, 1, 2}, {0, 0, 1, 1}, {0, 0, 1, 1}};
    const ir::Window sum{
        {1, 1, 1, 8}, {1, 1, 1, 1}, {1, 1, 1, 1}, {0, 0, 0, 7}, {0, 0, 0, 0}};
    return Values{
        b.reduce_window(
            v[0], b.constant(DType::Float32, -INFINITY), pool, Reduce::Max),
        b.reduce_window(v[0], b.constant(DType::Float32, 0), sum, Reduce::Add)};
  });
  expect_close(got[0], at::max_pool2d(x, {3, 2}, {2, 2}, {1, 1}, {1, 2}));
  expect_close(got[1], x.cumsum(3));
}

TEST(SelectAndScatter, IsTheGradientOfMaxPool) {
  const at::Tensor x = floats({1, 5, 2, 7, 7, 0}), g = floats({10, 20, 30});
  const auto got = evaluate({x, g}, [](Builder& b, const Values& v) {
    const ir::Window window{{2}, {2}, {1}, {0}, {0}};
    return Values{b.select_and_scatter(v[0],
                                       v[1],
                                       b.constant(DType::Float32, 0),
                                       window,
                                       Compare::GE,
                                       Reduce::Add)};
  });
  expect_close(got[0], floats({0, 10, 0, 20, 30, 0}));
  const auto padded = evaluate(
      {floats({-3, -1, -2}), floats({1, 2})}, [](Builder& b, const Values& v) {
        const ir::Window window{{2}, {2}, {1}, {1}, {0}};
        return Values{b.select_and_scatter(v[0],
                                           v[1],
                                           b.constant(DType::Float32, 0),
                                           window,
                                           Compare::GE,
                                           Reduce::Add)};
      });
  expect_close(padded[0], floats({1, 2, 0}));
}

TEST(Sort, SimpleAndGeneralComparators) {
  for (int64_t n : {1, 2, 3, 7, 8, 65}) {
    const at::Tensor x = at::randint(0, 5, {3, n}, at::kFloat);
    const auto got = evaluate({x}, [&](Builder& b, const Values& v) {
      const Value i = b.iota({DType::Int64, {3, n}}, 1);
      const auto less = [](Builder& r, const Values& p) -> Values {
        return {r.compare(Compare::LT, p[0], p[1])};
      };
      // Descending by value, by a region that is not just a comparison.
      const auto general = [](Builder& r, const Values& p) -> Values {
        return {r.compare(Compare::LT, r.neg(p[0]), r.neg(p[1]))};
      };
      Values results = b.sort({v[0], i}, 1, true, less);
      for (Value y : b.sort({v[0], i}, 1, true, general))
        results.push_back(y);
      return results;
    });
    for (int k : {0, 1}) {
      const auto [values, indices] = at::sort(x, true, 1, k == 1);
      expect_close(got[2 * k], values);
      expect_close(got[2 * k + 1], indices);
    }
  }
}

TEST(Sort, TwoKeysAlongAnotherDimension) {
  const at::Tensor x = at::randint(0, 3, {20, 2}, at::kInt);
  const at::Tensor y = at::randint(0, 100, {20, 2}, at::kInt);
  const auto got = evaluate({x, y}, [](Builder& b, const Values& v) {
    return b.sort(v, 0, true, [](Builder& r, const Values& p) -> Values {
      const Value first = r.compare(Compare::LT, p[0], p[1]);
      const Value same = r.compare(Compare::EQ, p[0], p[1]);
      const Value second = r.compare(Compare::LT, p[2], p[3]);
      return {r.logical_or(first, r.logical_and(same, second))};
    });
  });
  const at::Tensor key = std::get<0>(at::sort(x.mul(1000).add(y), 0));
  expect_close(got[0].mul(1000).add(got[1]), key.to(at::kInt));
}

TEST(Contraction, DotGeneral) {
  const at::Tensor x = at::randn({5, 2, 3, 4}), y = at::randn({4, 6, 2, 5});
  const auto got = evaluate({x, y}, [](Builder& b, const Values& v) {
    return Values{
        b.dot_general(v[0], v[1], {{1}, {2}, {3, 0}, {0, 3}}, DType::Float32)};
  });
  expect_close(got[0], at::einsum("zbik,kjbz->bij", {x, y}), 1e-4);
  const at::Tensor i = at::randint(-9, 9, {3, 4}, at::kInt);
  const auto ints = evaluate({i}, [](Builder& b, const Values& v) {
    return Values{b.dot_general(v[0], v[0], {{}, {}, {1}, {1}}, DType::Int32)};
  });
  expect_close(ints[0],
               i.to(at::kDouble).matmul(i.to(at::kDouble).t()).to(at::kInt));
  const at::Tensor h = at::randn({3, 64}).to(at::kBFloat16);
  const auto half = evaluate({h}, [](Builder& b, const Values& v) {
    return Values{
        b.dot_general(v[0], v[0], {{}, {}, {1}, {1}}, DType::Float32)};
  });
  expect_close(half[0], h.to(at::kFloat).matmul(h.to(at::kFloat).t()));
}

TEST(Contraction, Convolution) {
  const at::Tensor x = at::randn({2, 4, 9, 8}), w = at::randn({6, 2, 3, 2});
  const auto got = evaluate({x, w}, [](Builder& b, const Values& v) {
    const ir::ConvolutionDimensions d{.stride = {2, 1},
                                      .pad_low = {1, 0},
                                      .pad_high = {1, 0},
                                      .lhs_dilation = {1, 1},
                                      .rhs_dilation = {1, 2},
                                      .groups = 2,
                                      .input = {0, 1, 2, 3},
                                      .kernel = {0, 1, 2, 3},
                                      .output = {0, 1, 2, 3}};
    return Values{b.convolution(v[0], v[1], d, DType::Float32)};
  });
  expect_close(got[0], at::conv2d(x, w, {}, {2, 1}, {1, 0}, {1, 2}, 2), 1e-4);
}

TEST(Contraction, ConvolutionTransposedLayoutAndDilation) {
  // Channels last, with the input dilated: a transposed convolution.
  const at::Tensor x = at::randn({1, 4, 3}), w = at::randn({3, 3, 2});
  const auto got = evaluate({x, w}, [](Builder& b, const Values& v) {
    const ir::ConvolutionDimensions d{.stride = {1},
                                      .pad_low = {2},
                                      .pad_high = {-1},
                                      .lhs_dilation = {2},
                                      .rhs_dilation = {1},
                                      .input = {0, 2, 1},
                                      .kernel = {2, 1, 0},
                                      .output = {0, 2, 1}};
    return Values{b.convolution(v[0], v[1], d, DType::Float32)};
  });
  at::Tensor line = at::zeros({1, 3, 8});
  line.slice(2, 2, 8, 2).copy_(x.transpose(1, 2).slice(2, 0, 3));
  // Element 3 is at position 8, which the negative padding cuts off.
  const at::Tensor want =
      at::conv2d(line.unsqueeze(2), w.permute({2, 1, 0}).unsqueeze(2))
          .squeeze(2)
          .transpose(1, 2);
  expect_close(got[0], want, 1e-4);
}

TEST(Contraction, ConvolutionBatchGroups) {
  const at::Tensor x = at::randn({4, 3, 5}), w = at::randn({6, 3, 2});
  const auto got = evaluate({x, w}, [](Builder& b, const Values& v) {
    const ir::ConvolutionDimensions d{.stride = {1},
                                      .pad_low = {0},
                                      .pad_high = {0},
                                      .lhs_dilation = {1},
                                      .rhs_dilation = {1},
                                      .batch_groups = 2,
                                      .input = {0, 1, 2},
                                      .kernel = {0, 1, 2},
                                      .output = {0, 1, 2}};
    return Values{b.convolution(v[0], v[1], d, DType::Float32)};
  });
  const auto part = [&](int64_t g) {
    return at::conv2d(x.slice(0, 2 * g, 2 * g + 2).unsqueeze(2),
                      w.slice(0, 3 * g, 3 * g + 3).unsqueeze(2))
        .squeeze(2);
  };
  expect_close(got[0], at::cat({part(0), part(1)}, 1), 1e-4);
}

TEST(Gather, RowsAndClampedStarts) {
  const at::Tensor x = at::arange(20, at::kFloat).view({5, 4});
  const at::Tensor i = longs({3, 0, 99, -2}).view({2, 2});
  const auto got = evaluate({x, i}, [](Builder& b, const Values& v) {
    return Values{// Rows, index vectors of length 1.
                  b.gather(v[0],
                           v[1],
                           {.offset = {2},
                            .collapsed = {0},
                            .start_index_map = {0},
                            .index_vector = 2,
                            .slice_sizes = {1, 4}}),
                  // Blocks of 2x2 at (row, column), windows first.
                  b.gather(v[0],
                           v[1],
                           {.offset = {0, 1},
                            .start_index_map = {0, 1},
                            .index_vector = 1,
                            .slice_sizes = {2, 2}})};
  });
  expect_close(got[0], x.index_select(0, longs({3, 0, 4, 0})).view({2, 2, 4}));
  const at::Tensor first = x.slice(0, 3, 5).slice(1, 0, 2);
  const at::Tensor second = x.slice(0, 3, 5).slice(1, 0, 2);
  expect_close(got[1].select(2, 0), first);
  expect_close(got[1].select(2, 1), second);
}

TEST(Scatter, AddsReplacesAndSkips) {
  const at::Tensor x = at::zeros({4, 3});
  const at::Tensor i = longs({1, 1, 7, 3}).view({4, 1});
  const at::Tensor u = at::arange(12, at::kFloat).view({4, 3}).add(1);
  const ir::ScatterDimensions rows{.update_window = {1},
                                   .inserted_window = {0},
                                   .scatter_to_operand = {0},
                                   .index_vector = 1};
  const auto got = evaluate({x, i, u}, [&](Builder& b, const Values& v) {
    const auto with = [&](const ir::Region& region) {
      return b.scatter(v[0], v[1], v[2], rows, region);
    };
    return Values{
        with([](Builder& r, const Values& p) -> Values {
          return {r.add(p[0], p[1])};
        }),
        with([](Builder&, const Values& p) -> Values { return {p[1]}; }),
        with([](Builder& r, const Values& p) -> Values {
          return {r.max(p[0], p[1])};
        }),
        with([](Builder& r, const Values& p) -> Values {
          return {r.add(r.add(p[0], p[0]), p[1])};
        })};
  });
  at::Tensor add = x.clone(), last = x.clone(), twice = x.clone();
  add[1].copy_(u[0].add(u[1]));
  add[3].copy_(u[3]);
  last[1].copy_(u[1]);
  last[3].copy_(u[3]);
  twice[1].copy_(u[0].mul(2).add(u[1]));
  twice[3].copy_(u[3]);
  expect_close(got[0], add);
  expect_close(got[1], last);
  expect_close(got[2], last);
  expect_close(got[3], twice);
}

TEST(Control, WhileAndCase) {
  const at::Tensor x = floats({1, 2});
  const auto got = evaluate({x}, [](Builder& b, const Values& v) {
    return b.while_loop(
        {b.constant(DType::Int32, 0), v[0]},
        [](Builder& r, const Values& p) -> Values {
          return {r.compare(Compare::LT, p[0], r.constant(DType::Int32, 5))};
        },
        [](Builder& r, const Values& p) -> Values {
          return {r.add(p[0], r.constant(DType::Int32, 1)), r.add(p[1], p[1])};
        });
  });
  EXPECT_EQ(got[0].item().toInt(), 5);
  expect_close(got[1], x.mul(32));
  for (int index : {-1, 0, 1, 2, 5}) {
    const auto chosen = evaluate(
        {at::scalar_tensor(index, at::kInt), x},
        [](Builder& b, const Values& v) {
          const auto times = [](int n) {
            return [n](Builder& r, const Values& p) -> Values {
              return {r.mul(p[0], r.constant(DType::Float32, n, {2}))};
            };
          };
          return b.conditional(v[0], {v[1]}, {times(1), times(2), times(3)});
        });
    const int branch = index < 0 || index > 2 ? 2 : index;
    expect_close(chosen[0], x.mul(branch + 1));
  }
}

// Results that a step reads after it has written others, and what it passes on.
TEST(Control, StepsReadBeforeTheyWrite) {
  const at::Tensor x = at::randn({2, 3}), y = at::randn({2, 3});
  const auto got = evaluate({x, y}, [](Builder& b, const Values& v) {
    return b.while_loop(
        {b.constant(DType::Int64, 0), v[0], v[1], v[0]},
        [](Builder& r, const Values& p) -> Values {
          return {r.compare(Compare::LT, p[0], r.constant(DType::Int64, 3))};
        },
        [](Builder& r, const Values& p) -> Values {
          return {r.add(p[0], r.constant(DType::Int64, 1)),
                  p[2],
                  r.add(p[1], p[3]),
                  p[3]};
        });
  });
  at::Tensor a = x, c = y;
  for (int i = 0; i < 3; ++i) {
    const at::Tensor sum = a.add(x);
    a = c;
    c = sum;
  }
  expect_close(got[1], a);
  expect_close(got[2], c);
  expect_close(got[3], x);
}

TEST(Control, LoopsInLoopsAndBranchesKeepTheirMemory) {
  const at::Tensor x = at::randn({4, 4}), w = at::randn({4, 4});
  const auto below = [](int end) {
    return [end](Builder& r, const Values& p) -> Values {
      return {r.compare(Compare::LT, p[0], r.constant(DType::Int64, end))};
    };
  };
  const auto mm = [](Builder& r, Value a, Value b) {
    return composite(
        r, "aten.mm", {a, b}, {Operand{0}, Operand{1}}, {r.type(a)})[0];
  };
  const auto got = evaluate({x, w}, [&](Builder& b, const Values& v) {
    // Needed after the loop, in the memory of intermediate values.
    const Value kept = mm(b, v[1], v[1]);
    const Value zero = b.constant(DType::Int64, 0);
    const auto outer = b.while_loop(
        {zero, v[0], v[1]}, below(2), [&](Builder& r, const Values& p) {
          const Value product = mm(r, p[1], p[2]);
          const auto inner = r.while_loop(
              {r.constant(DType::Int64, 0), product, p[2]},
              below(3),
              [&](Builder& s, const Values& q) -> Values {
                const Value next = mm(s, mm(s, q[1], q[2]), q[2]);
                return {s.add(q[0], s.constant(DType::Int64, 1)), next, q[2]};
              });
          const auto chosen = r.conditional(
              r.convert(p[0], DType::Int32),
              {inner[1], product},
              {[](Builder&, const Values& q) -> Values { return {q[1]}; },
               [&](Builder& s, const Values& q) -> Values {
                 return {s.sub(mm(s, q[0], q[1]), q[1])};
               }});
          return Values{r.add(p[0], r.constant(DType::Int64, 1)),
                        r.tanh(chosen[0]),
                        p[2]};
        });
    return Values{outer[1], kept};
  });
  at::Tensor state = x;
  for (int i = 0; i < 2; ++i) {
    const at::Tensor product = state.mm(w);
    at::Tensor inner = product;
    for (int k = 0; k < 3; ++k)
      inner = inner.mm(w).mm(w);
    state = (i == 0 ? product : inner.mm(product).sub(product)).tanh();
  }
  expect_close(got[0], state, 1e-4);
  expect_close(got[1], w.mm(w), 1e-4);
}

TEST(Control, CompositeInARegion) {
  const at::Tensor x = at::randn({3, 3});
  const auto got = evaluate({x}, [](Builder& b, const Values& v) {
    return b.while_loop(
        {b.constant(DType::Int32, 0), v[0]},
        [](Builder& r, const Values& p) -> Values {
          return {r.compare(Compare::LT, p[0], r.constant(DType::Int32, 2))};
        },
        [](Builder& r, const Values& p) -> Values {
          return {r.add(p[0], r.constant(DType::Int32, 1)),
                  composite(r,
                            "aten.mm",
                            {p[1], p[1]},
                            {Operand{0}, Operand{1}},
                            {r.type(p[1])})[0]};
        });
  });
  const at::Tensor square = x.matmul(x);
  expect_close(got[1], square.matmul(square), 1e-4);
}

// The decompositions of our own composites.
TEST(Decomposed, StridedComposites) {
  const Numerics mode("decomposed");
  struct View {
    Shape size, stride;
    int64_t offset;
  };
  const at::Tensor x = at::arange(24, at::kFloat);
  for (const View& view : {View{{2, 3}, {12, 2}, 1},
                           View{{4, 6}, {1, 4}, 0},
                           View{{3, 2, 2}, {4, 0, 1}, 1},
                           View{{5, 3}, {2, 1}, 3},
                           View{{}, {}, 7}}) {
    const auto got = evaluate({x}, [&](Builder& b, const Values& v) {
      return Values{b.as_strided(v[0], view.size, view.stride, view.offset)};
    });
    expect_close(got[0], x.as_strided(view.size, view.stride, view.offset));
  }
  const at::Tensor u = at::randn({2, 3});
  const auto got = evaluate({x, u}, [](Builder& b, const Values& v) {
    return Values{b.as_strided_scatter(v[0], v[1], {12, 2}, 1),
                  b.to_strided(v[1], {1, 2})};
  });
  at::Tensor want = x.clone();
  want.as_strided({2, 3}, {12, 2}, 1).copy_(u);
  expect_close(got[0], want);
  expect_close(got[1], u.t().reshape({6}));
}

TEST(Check, UnknownOperationIsRefusedAtLoad) {
  Builder b;
  const Value p = b.parameter({DType::Float32, {2}});
  Program program = b.finish({b.exp(p)});
  program.operations[0].name = "stablehlo.rng_bit_generator";
  EXPECT_THROW(from_program(std::move(program), false), std::runtime_error);
}

}  // namespace
}  // namespace neuronx::sim
