// SPDX-License-Identifier: Apache-2.0
#include "ir/program.h"

namespace neuronx::ir {

int64_t TensorType::numel() const {
  int64_t n = 1;
  for (int64_t size : shape)
    n *= size;
  return n;
}

int64_t TensorType::bytes() const {
  return numel() * int64_t(itemsize(dtype));
}

std::string to_string(const TensorType& type) {
  std::string text(name(type.dtype));
  text += '[';
  for (size_t i = 0; i < type.shape.size(); ++i) {
    if (i)
      text += ", ";
    text += std::to_string(type.shape[i]);
  }
  return text + ']';
}

const Attribute* Operation::attribute(const std::string& key) const {
  for (const auto& [k, value] : attributes)
    if (k == key)
      return &value;
  return nullptr;
}

bool Operation::is_composite() const {
  return !name.starts_with("stablehlo.") && !name.starts_with("chlo.");
}

}  // namespace neuronx::ir
