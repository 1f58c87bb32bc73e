// SPDX-License-Identifier: Apache-2.0
// Programs that several tests of the IR use.
#pragma once

#include "ir/builder.h"

namespace neuronx::ir {

// softmax over the last dimension of float32[2, 3], as a composite.
inline Program softmax_program() {
  const TensorType type{DType::Float32, {2, 3}};
  const Program body = build_region(
      [&](Builder& b, const Values& v) -> Values {
        const auto rows = [&](Value x) {
          return b.broadcast_in_dim(x, type.shape, {0});
        };
        const Value e =
            b.exp(b.sub(v[0], rows(b.reduce(v[0], Reduce::Max, {1}))));
        return {b.div(e, rows(b.reduce(e, Reduce::Add, {1})))};
      },
      {type},
      "softmax");
  Builder b;
  const Value x = b.parameter(type);
  const Values results =
      b.composite("aten.softmax.int", {x}, {Operand{0}, int64_t(1), {}}, body);
  return b.finish(results);
}

// One of everything: regions, composites, aliases, all kinds of attributes.
inline Program mixed_program() {
  Builder b("mixed");
  const TensorType type{DType::Float32, {2, 3}};
  const Value x = b.parameter(type);
  const Value extent = b.parameter({DType::Float32, {12}});
  const Value seed = b.parameter({DType::Int64, {}});
  const Value view = b.as_strided(extent, {2, 3}, {1, 4}, 1);
  const Value sum = b.add(x, view);
  const Value written = b.as_strided_scatter(extent, sum, {6, 2}, 0);
  const Values sorted =
      b.sort({sum, x}, 1, true, [](Builder& b, const Values& v) -> Values {
        return {b.compare(Compare::GT, v[0], v[1])};
      });
  const Program body = build_region(
      [](Builder& b, const Values& v) -> Values {
        return {b.reduce(v[0], Reduce::Add, {0}), b.transpose(v[0], {1, 0})};
      },
      {type});
  const Values called =
      b.composite("custom.everything",
                  {sorted[0]},
                  {std::monostate{},
                   true,
                   int64_t(-7),
                   -0.0,
                   std::string("a\"b\n"),
                   std::vector<int64_t>{1, -2},
                   std::vector<double>{0.5, 1e300},
                   DType::BFloat16,
                   Operand{0},
                   OperandList{{0, -1}},
                   NumberTensor{DType::Float64, true, 2.5},
                   NumberTensor{DType::Int64, false, int64_t(3), 0}},
                  body);
  const Value random = b.philox(seed, seed, 6);
  const Value zeros = b.constant({DType::Int8, {5}}, {1, 2, 3, 4, 5});
  return b.finish({written, called[0], called[1], random, zeros, sorted[1]},
                  {1, -1, -1, -1, -1, 0});
}

}  // namespace neuronx::ir
