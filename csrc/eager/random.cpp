// SPDX-License-Identifier: Apache-2.0
#include "eager/random.h"

#include <algorithm>

namespace neuronx::eager {
namespace {

// One word per score: queries of all heads by keys.
int64_t attention_words(const std::vector<ir::TensorType>& operands) {
  const auto& query = operands.at(0).shape;
  return operands[0].numel() / query.back() * operands.at(1).shape.end()[-2];
}

const std::vector<RandomOp>& table() {
  static const auto* ops = new std::vector<RandomOp>{
      {"aten::uniform_", "neuronx::uniform", {1, 2}},
      {"aten::normal_", "neuronx::normal", {1, 2}, 2},
      {"aten::bernoulli_.float", "neuronx::bernoulli_scalar", {1}},
      {"aten::bernoulli_.Tensor", "neuronx::bernoulli_tensor", {1}},
      {"aten::bernoulli.out", "neuronx::bernoulli_tensor", {0}},
      {"aten::random_.from", "neuronx::random_range", {1, 2}, 2},
      {"aten::random_.to", "neuronx::random_range", {1}, 2},
      {"aten::random_", "neuronx::random_range", {}, 2},
      {"aten::exponential_", "neuronx::exponential", {1}},
      {"aten::log_normal_", "neuronx::log_normal", {1, 2}, 2},
      {"aten::geometric_", "neuronx::geometric", {1}},
      {"aten::cauchy_", "neuronx::cauchy", {1, 2}},
      {"aten::native_dropout", "neuronx::native_dropout", {1, 2}},
      {"aten::_scaled_dot_product_fused_attention_overrideable",
       "neuronx::attention",
       {},
       1,
       4,
       &attention_words},
  };
  return *ops;
}

}  // namespace

const RandomOp* find_random_op(std::string_view name) {
  const auto it = std::ranges::find(table(), name, &RandomOp::name);
  return it == table().end() ? nullptr : &*it;
}

}  // namespace neuronx::eager
