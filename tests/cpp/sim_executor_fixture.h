// SPDX-License-Identifier: Apache-2.0
// Builds Programs and runs them on ATen tensors.
#pragma once

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/serialize.h"
#include "sim/executor/executor.h"
#include "sim/executor/shell.h"

namespace neuronx::sim {

using ir::Attribute;
using ir::Builder;
using ir::Operand;
using ir::Program;
using ir::Shape;
using ir::TensorType;
using ir::Value;
using ir::Values;

inline DType dtype_of(const at::Tensor& x) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (to_scalar_type(DType(i)) == x.scalar_type())
      return DType(i);
  throw std::runtime_error("no such dtype");
}

inline TensorType type_of(const at::Tensor& x) {
  return {dtype_of(x), x.sizes().vec()};
}

// A composite whose body returns zeros: only ATen gives the right answer.
inline Values composite(Builder& b,
                        const std::string& name,
                        const Values& operands,
                        std::vector<Attribute> arguments,
                        const std::vector<TensorType>& results) {
  Builder body("body");
  for (Value v : operands)
    body.parameter(b.type(v));
  Values zeros;
  for (const TensorType& type : results)
    zeros.push_back(body.constant(type.dtype, 0, type.shape));
  return b.composite(name, operands, std::move(arguments), body.finish(zeros));
}

// Runs on the memory of `inputs`, which must be contiguous; aliased results
// are the inputs themselves.
inline Tensors run(Executor& executor,
                   const Tensors& inputs,
                   const std::vector<int32_t>& aliases = {}) {
  Tensors outputs;
  std::vector<void*> in, out;
  for (const at::Tensor& x : inputs)
    in.push_back(x.mutable_data_ptr());
  for (size_t k = 0; k < executor.outputs().size(); ++k) {
    const bool aliased = k < aliases.size() && aliases[k] >= 0;
    outputs.push_back(aliased ? inputs[aliases[k]]
                              : make_empty(executor.outputs()[k]));
    out.push_back(outputs.back().mutable_data_ptr());
  }
  executor.run(in.data(), out.data());
  return outputs;
}

inline std::unique_ptr<Executor> load(const Program& program) {
  const std::string bytes = ir::serialize(program);
  return Executor::load(bytes.data(), bytes.size());
}

// Runs twice, as the first run may differ from the others; once if results
// alias.
inline Tensors run(const Program& program, const Tensors& inputs) {
  const auto executor = load(program);
  bool aliased = false;
  for (int32_t alias : program.aliases)
    aliased |= alias >= 0;
  if (!aliased)
    run(*executor, inputs, program.aliases);
  return run(*executor, inputs, program.aliases);
}

struct Numerics {
  explicit Numerics(const char* mode) {
    setenv("TORCH_NEURONX_SIM_NUMERICS", mode, 1);
  }
  ~Numerics() { unsetenv("TORCH_NEURONX_SIM_NUMERICS"); }
};

inline void expect_close(const at::Tensor& got,
                         const at::Tensor& want,
                         double tolerance = 1e-5) {
  ASSERT_EQ(got.sizes(), want.sizes());
  ASSERT_EQ(got.scalar_type(), want.scalar_type());
  const at::Tensor a = got.is_complex() ? got : got.to(at::kDouble);
  const at::Tensor b = want.is_complex() ? want : want.to(at::kDouble);
  EXPECT_TRUE(a.allclose(b, tolerance, tolerance, true)) << "got\n"
                                                         << got << "\nwant\n"
                                                         << want;
}

}  // namespace neuronx::sim
