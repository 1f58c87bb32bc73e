// SPDX-License-Identifier: Apache-2.0
#include "eager/random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>

#include <algorithm>

#include "common/hash.h"
#include "eager/op_info.h"
#include "runtime/generator.h"

namespace neuronx::eager {
namespace {

// One word per score: queries of all heads by keys.
int64_t attention_words(const std::vector<ir::TensorType>& operands) {
  const auto& query = operands.at(0).shape;
  return operands[0].numel() / query.back() * operands.at(1).shape.end()[-2];
}

// One small read, as PyTorch's own normal() makes on every device.
void check_std(const at::Tensor& std) {
  TORCH_CHECK(std.numel() == 0 || std.min().item().toDouble() >= 0,
              "normal expects all elements of std >= 0.0");
}

// The tests of ATen/native/Distributions.cpp and MultinomialKernel.cpp by the
// extremes of the probabilities, in one small read.
void check_multinomial(const c10::IValue* arguments) {
  const at::Tensor p = arguments[0].toTensor().detach();
  if (p.numel() == 0) {
    return;
  }
  const bool race = !arguments[2].toBool() || arguments[1].toInt() == 1;
  const auto [low, high] = at::aminmax(p);
  const at::Tensor total = p.sum(-1, false, at::kFloat).min().to(p.dtype());
  const at::Tensor read = at::stack({low, high, total}).to(at::kFloat).cpu();
  const float* values = read.const_data_ptr<float>();
  const bool positive = values[0] >= 0, finite = values[1] < INFINITY;
  if (race) {
    TORCH_CHECK(positive && finite,
                "probability tensor contains either `inf`, `nan` or element "
                "< 0");
  } else {
    TORCH_CHECK(positive,
                "invalid multinomial distribution (encountering probability "
                "entry < 0)");
    TORCH_CHECK(finite,
                "invalid multinomial distribution (encountering probability "
                "entry = infinity or NaN)");
  }
  TORCH_CHECK(values[2] > 0,
              "invalid multinomial distribution (sum of probabilities <= 0)");
}

// at::native::check_supported_max_int_with_precision, and the dtypes of the
// CPU's kernel.
void check_randperm(int64_t n, const at::Tensor& out) {
  TORCH_CHECK_NOT_IMPLEMENTED(out.scalar_type() != at::kBool,
                              "\"randperm\" not implemented for 'Bool'");
  at::scalar_tensor(n, at::TensorOptions(out.scalar_type()));
  TORCH_CHECK(out.scalar_type() != at::kHalf || n <= (int64_t{1} << 11) + 1,
              "n cannot be greater than 2049 for Half type.");
  TORCH_CHECK(out.scalar_type() != at::kFloat || n <= (int64_t{1} << 24) + 1,
              "n cannot be greater than 2^24+1 for Float type.");
}

constexpr auto kCheckSecond = [](const c10::IValue* arguments) {
  check_std(arguments[1].toTensor());
};

constexpr auto kCheckRandperm = [](const c10::IValue* arguments) {
  check_randperm(arguments[0].toInt(), arguments[1].toTensor());
};
constexpr auto kCheckRandpermWithGenerator = [](const c10::IValue* arguments) {
  check_randperm(arguments[0].toInt(), arguments[2].toTensor());
};

const std::vector<RandomOp>& table() {
  static const auto* ops = new std::vector<RandomOp>{
      {"aten::uniform_", "neuronx::uniform", {1, 2}},
      {"aten::normal_", "neuronx::normal", {1, 2}, 2},
      {"aten::normal.Tensor_float", "neuronx::normal", {0, 1}, 2},
      {"aten::normal.Tensor_float_out", "neuronx::normal", {0, 1}, 2},
      {"aten::normal.float_Tensor", "neuronx::normal", {0, 1}, 2, kCheckSecond},
      {"aten::normal.float_Tensor_out",
       "neuronx::normal",
       {0, 1},
       2,
       kCheckSecond},
      {"aten::normal.Tensor_Tensor",
       "neuronx::normal",
       {0, 1},
       2,
       kCheckSecond},
      {"aten::normal.Tensor_Tensor_out",
       "neuronx::normal",
       {0, 1},
       2,
       kCheckSecond},
      {"aten::bernoulli_.float", "neuronx::bernoulli", {1}},
      {"aten::bernoulli_.Tensor", "neuronx::bernoulli", {1}},
      {"aten::bernoulli.p", "neuronx::bernoulli", {1}},
      {"aten::bernoulli.out", "neuronx::bernoulli", {0}},
      {"aten::random_.from", "neuronx::random_from_to", {1, 2}, 2},
      {"aten::random_.to", "neuronx::random_to", {1}, 2},
      {"aten::random_", "neuronx::random", {}, 2},
      {"aten::exponential_", "neuronx::exponential", {1}},
      {"aten::log_normal_", "neuronx::log_normal", {1, 2}, 2},
      {"aten::geometric_", "neuronx::geometric", {1}},
      {"aten::cauchy_", "neuronx::cauchy", {1, 2}},
      {"aten::native_dropout", "neuronx::native_dropout", {1, 2}},
      {"aten::_scaled_dot_product_fused_attention_overrideable",
       "neuronx::attention",
       {},
       1,
       nullptr,
       4,
       &attention_words},
      {"aten::randperm.out", "neuronx::randperm", {}, 2, kCheckRandperm},
      {"aten::randperm.generator_out",
       "neuronx::randperm",
       {},
       2,
       kCheckRandpermWithGenerator},
      {"aten::multinomial",
       "neuronx::multinomial",
       {1, 2},
       2,
       check_multinomial},
      {"aten::multinomial.out",
       "neuronx::multinomial",
       {1, 2},
       2,
       check_multinomial},
      {"aten::rrelu_with_noise_functional", "neuronx::rrelu", {1, 2, 3, 4}},
      {"aten::poisson", "neuronx::poisson", {}, 32},
      {"aten::binomial", "neuronx::binomial", {1}, 32},
      {"aten::_standard_gamma", "neuronx::standard_gamma", {}, 25},
      {"aten::_sample_dirichlet", "neuronx::dirichlet", {}, 25},
  };
  return *ops;
}

// Distributions check their numbers where they run; one element is enough.
c10::IValue sample(const c10::IValue& value, const at::Generator& generator) {
  if (value.isTensor() && value.toTensor().defined()) {
    return at::ones({1}, at::TensorOptions(value.toTensor().scalar_type()));
  }
  return value.isGenerator() ? c10::IValue(generator) : value;
}

}  // namespace

const RandomOp* find_random_op(std::string_view name) {
  const auto it = std::ranges::find(table(), name, &RandomOp::name);
  return it == table().end() ? nullptr : &*it;
}

KeepRandomState::KeepRandomState(bool needed) {
  if (needed) {
    auto generator = at::globalContext().defaultGenerator(at::kCPU);
    std::lock_guard lock(generator.mutex());
    state_ = generator.get_state();
  }
}

KeepRandomState::~KeepRandomState() {
  if (state_.defined()) {
    auto generator = at::globalContext().defaultGenerator(at::kCPU);
    std::lock_guard lock(generator.mutex());
    generator.set_state(state_);
  }
}

void check_numbers_as_cpu(const OpInfo& info, const torch::jit::Stack& stack) {
  if (info.draw->count != nullptr) {
    return;  // attention, which the CPU does not have under this name
  }
  thread_local const at::Generator generator =
      at::make_generator<at::CPUGeneratorImpl>();
  torch::jit::Stack arguments;
  const auto& declared = info.handle.schema().arguments();
  for (size_t i = 0; i < declared.size(); ++i) {
    if (declared[i].real_type()->kind() == c10::TypeKind::SymIntType) {
      return;  // sizes, which the meta kernel has checked
    }
    const auto& value = stack[stack.size() - declared.size() + i];
    arguments.push_back(info.arguments[i].kind == ArgumentKind::Generator
                            ? c10::IValue(generator)
                            : sample(value, generator));
  }
  const bool given =
      std::ranges::any_of(info.arguments, [](const ArgumentInfo& argument) {
        return argument.kind == ArgumentKind::Generator;
      });
  const KeepRandomState keep(!given);
  at::AutoDispatchBelowAutograd guard;
  info.handle.callBoxed(&arguments);
}

at::Generator host_generator(const std::optional<at::Generator>& generator,
                             c10::DeviceIndex device) {
  const auto [seed, offset] =
      runtime::generator_or_default(generator, device).reserve(1);
  return at::make_generator<at::CPUGeneratorImpl>(hash_combine(seed, offset));
}

}  // namespace neuronx::eager
