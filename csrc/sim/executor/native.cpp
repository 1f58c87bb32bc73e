// SPDX-License-Identifier: Apache-2.0
#include "sim/executor/native.h"

#include <ATen/ops/aminmax.h>
#include <fmt/format.h>

#include <stdexcept>

namespace neuronx::sim {

Native find_native(const ir::Operation& op) {
  if (op.name == "neuronx.philox")
    return philox;
  if (attention_fits(op))
    return op.name.find("_backward") == std::string::npos ? attention
                                                          : attention_backward;
  return find_bounded(op.name);
}

Tensors check_index(const ir::Operation& op, const Tensors& operands) {
  const at::Tensor& index = operands[0];
  if (index.numel() == 0)
    return {index};
  const auto low = std::get<int64_t>(*op.attribute("low"));
  const auto high = std::get<int64_t>(*op.attribute("high"));
  const auto [least, greatest] = at::aminmax(index);
  for (const at::Tensor& value : {least, greatest}) {
    const auto i = value.item<int64_t>();
    if (i < low || i >= high)
      throw std::out_of_range(fmt::format(
          "index {} is out of bounds for a dimension of size {}", i, high));
  }
  return {index};
}

}  // namespace neuronx::sim
