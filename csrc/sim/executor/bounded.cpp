// SPDX-License-Identifier: Apache-2.0
// Results of data-dependent size, padded with zeros: see lowering/bounded.cpp.
#include <ATen/ops/bincount.h>
#include <ATen/ops/masked_select.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/unique_consecutive.h>
#include <ATen/ops/unique_dim.h>
#include <ATen/ops/unique_dim_consecutive.h>
#include <ATen/ops/zeros.h>

#include "sim/executor/native.h"

namespace neuronx::sim {
namespace {

at::Tensor padded(const at::Tensor& x, int64_t size) {
  auto sizes = x.sizes().vec();
  const int64_t n = std::min(sizes[0], size);
  sizes[0] = size;
  at::Tensor result = at::zeros(sizes, x.options());
  result.narrow(0, 0, n).copy_(x.narrow(0, 0, n));
  return result;
}

at::Tensor number(int64_t value) {
  return at::scalar_tensor(value, at::kLong);
}

int64_t integer(const ir::Operation& op, size_t argument) {
  return std::get<int64_t>(op.arguments[argument]);
}

// These write their results where they belong: as large as the operand, they
// would else be copied, for a few numbers.
void put(const at::Tensor& from, const at::Tensor& to) {
  const int64_t n = from.size(0);
  to.narrow(0, 0, n).copy_(from);
  to.narrow(0, n, to.size(0) - n).zero_();
}

// Results: indices [dimensions, numbers], count.
void nonzero(const ir::Operation&,
             const Tensors& operands,
             const Tensors& results) {
  const at::Tensor found = at::nonzero(operands[0]);
  for (int64_t d = 0; d < found.size(1); ++d)
    put(found.select(1, d), results[0].select(0, d));
  results[1].fill_(found.size(0));
}

void masked_select(const ir::Operation&,
                   const Tensors& operands,
                   const Tensors& results) {
  const at::Tensor found =
      at::masked_select(operands[0], operands[1].to(at::kBool));
  put(found, results[0]);
  results[1].fill_(found.size(0));
}

Tensors unique(const ir::Operation& op, const Tensors& operands) {
  const at::Tensor& x = operands[0];
  const bool sorted = std::get<bool>(op.arguments[1]);
  const auto [values, inverse, counts] =
      sorted ? at::unique_dim(x, 0, true, true, true)
             : at::unique_dim_consecutive(x, 0, true, true);
  const int64_t n = x.size(0);
  return {
      padded(values, n), inverse, padded(counts, n), number(values.size(0))};
}

Tensors repeat_interleave(const ir::Operation& op, const Tensors& operands) {
  const at::Tensor rows = at::repeat_interleave(operands[0].to(at::kLong));
  return {padded(rows, integer(op, 1))};
}

Tensors bincount(const ir::Operation& op, const Tensors& operands) {
  const std::optional<at::Tensor> weights =
      operands.size() > 1 ? std::optional(operands[1]) : std::nullopt;
  return {padded(at::bincount(operands[0], weights, integer(op, 2)),
                 integer(op, 2))};
}

}  // namespace

Native find_bounded(std::string_view name) {
  static constexpr std::pair<std::string_view, Native> kTable[] = {
      {"neuronx_bounded.unique", unique},
      {"neuronx_bounded.repeat_interleave", repeat_interleave},
      {"neuronx_bounded.bincount", bincount},
  };
  for (const auto& [known, native] : kTable)
    if (known == name)
      return native;
  return nullptr;
}

Writer find_bounded_writer(std::string_view name) {
  if (name == "neuronx_bounded.nonzero")
    return nonzero;
  if (name == "neuronx_bounded.masked_select")
    return masked_select;
  return nullptr;
}

}  // namespace neuronx::sim
