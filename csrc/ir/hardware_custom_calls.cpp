// SPDX-License-Identifier: Apache-2.0
// Composites that the compiler has custom calls for. Names: NCC_EVRF015 of
// the compiler's error codes. Operands, results and backend_config are those
// that the vendor's public transformers-neuronx (hlo.py, activations.py) and
// torch-neuronx (topk) give them; the unary ones have none.
#include <fmt/format.h>

#include <algorithm>

#include "ir/hardware_rewrites.h"

namespace neuronx::ir::hardware {
namespace {

// What the compiler recognises.
constexpr std::string_view kKnown[] = {
    "AwsNeuronErf",
    "AwsNeuronGelu",
    "AwsNeuronGeluApprxTanh",
    "AwsNeuronGeluBackward",
    "AwsNeuronSilu",
    "AwsNeuronSiluBackward",
    "AwsNeuronRmsNorm",
    "AwsNeuronSoftmax",
    "AwsNeuronSoftmaxBackward",
    "AwsNeuronCollectiveMatmul",
    "AwsNeuronIntMatmult",
    "AwsNeuronArgMax",
    "AwsNeuronArgMin",
    "AwsNeuronTopK",
    "AwsNeuronDropoutMaskV1",
    "AwsNeuronCustomNativeKernel",
    "AwsNeuronCustomOp",
    "AwsNeuronDevicePrint",
    "AwsNeuronLNCShardingConstraint",
    "AwsNeuronTransferWithStaticRing",
    "AwsNeuronModuleMarkerStart-Forward",
    "AwsNeuronModuleMarkerStart-Backward",
    "AwsNeuronModuleMarkerEnd-Forward",
    "AwsNeuronModuleMarkerEnd-Backward",
    "NeuronBoundaryMarker-Start",
    "NeuronBoundaryMarker-End",
    "ResizeNearest",
    "ResizeBilinear",
    "ResizeNearestGrad",
    "QuantizeMX",
    "__op$block_scaled_dot",
};

// One call of a composite.
struct Call {
  Builder& b;
  const Program& program;
  const Operation& op;
  const Values& operands;
  std::string_view target;

  template <typename T>
  const T* argument(size_t i) const {
    return i < op.arguments.size() ? std::get_if<T>(&op.arguments[i]) : nullptr;
  }
  // Not given, or given as `expected`.
  template <typename T>
  bool is(size_t i, T expected) const {
    if (i >= op.arguments.size() ||
        std::holds_alternative<std::monostate>(op.arguments[i]))
      return true;
    const T* value = argument<T>(i);
    return value && *value == expected;
  }
  const TensorType& in() const { return program.type(op.operands[0]); }
  const TensorType& out(size_t i = 0) const {
    return program.type(op.results[i]);
  }
  bool floating() const {
    return in().dtype == DType::Float32 || in().dtype == DType::BFloat16 ||
           in().dtype == DType::Float16;
  }
  std::optional<int64_t> dimension(size_t i) const {
    const auto* d = argument<int64_t>(i);
    const int64_t rank = int64_t(in().shape.size());
    if (!d || rank == 0)
      return std::nullopt;
    return *d < 0 ? *d + rank : *d;
  }
  Values call(const Values& values,
              std::vector<TensorType> types,
              std::string config = "") const {
    return b.custom_call(
        std::string(target), values, std::move(types), std::move(config));
  }
};

using Replace = std::optional<Values> (*)(const Call&);

std::optional<Values> unary(const Call& c) {
  if (!c.floating() || c.op.operands.size() != 1)
    return std::nullopt;
  return c.call(c.operands, {c.out()});
}

std::optional<Values> gelu(const Call& c) {
  return c.is<std::string>(1, "none") ? unary(c) : std::nullopt;
}

std::optional<Values> gelu_tanh(const Call& c) {
  const auto* approximate = c.argument<std::string>(1);
  return approximate && *approximate == "tanh" ? unary(c) : std::nullopt;
}

// self, dim, half_to_float
std::optional<Values> softmax(const Call& c) {
  const auto dim = c.dimension(1);
  if (!dim || !c.floating() || c.out() != c.in())
    return std::nullopt;
  return c.call(c.operands, {c.out()}, std::to_string(*dim));
}

// self, dim, keepdim
std::optional<Values> arg_extreme(const Call& c) {
  const auto dim = c.dimension(1);
  if (!dim || !c.floating())
    return std::nullopt;
  Shape shape = c.in().shape;
  shape.erase(shape.begin() + *dim);
  const Value index =
      c.call(c.operands, {{DType::UInt32, shape}}, std::to_string(*dim))[0];
  return Values{c.b.reshape(c.b.convert(index, c.out().dtype), c.out().shape)};
}

// self, k, dim, largest, sorted: of the last dimension, the largest first.
std::optional<Values> topk(const Call& c) {
  const auto* k = c.argument<int64_t>(1);
  const int64_t rank = int64_t(c.in().shape.size());
  const bool last = c.is<int64_t>(2, -1) || c.is<int64_t>(2, rank - 1);
  if (!k || rank == 0 || !last || !c.is(3, true) || !c.floating())
    return std::nullopt;
  const Values results = c.call(c.operands,
                                {c.out(0), {DType::Int32, c.out(1).shape}},
                                std::to_string(*k));
  return Values{results[0], c.b.convert(results[1], c.out(1).dtype)};
}

// input, normalized_shape, weight, eps: result and rstd, which the body
// computes if anyone wants it.
std::optional<Values> rms_norm(const Call& c) {
  const auto* shape = c.argument<Shape>(1);
  const auto* weight = c.argument<Operand>(2);
  const auto* eps = c.argument<double>(3);
  if (!shape || shape->size() != 1 || !weight || !eps || !c.floating() ||
      c.op.results.size() != 2)
    return std::nullopt;
  Builder& b = c.b;
  const Value x = b.convert(c.operands[0], DType::Float32);
  const Value out =
      c.call({x,
              b.convert(c.operands[weight->index], DType::Float32),
              b.constant(DType::Float32, *eps)},
             {{c.out().dtype, c.out().shape}},
             std::to_string(c.in().shape.size() - 1))[0];
  return Values{out, Value{}};
}

struct Replacement {
  std::string_view composite;
  std::string_view target;
  Replace replace;
};

constexpr Replacement kReplacements[] = {
    {"aten.gelu", "AwsNeuronGelu", gelu},
    {"aten.gelu", "AwsNeuronGeluApprxTanh", gelu_tanh},
    {"aten.silu", "AwsNeuronSilu", unary},
    {"aten._softmax", "AwsNeuronSoftmax", softmax},
    {"aten._fused_rms_norm", "AwsNeuronRmsNorm", rms_norm},
    {"aten.argmax", "AwsNeuronArgMax", arg_extreme},
    {"aten.argmin", "AwsNeuronArgMin", arg_extreme},
    {"aten.topk", "AwsNeuronTopK", topk},
};

}  // namespace

std::vector<std::string> custom_call_names() {
  std::vector<std::string> names;
  for (const Replacement& entry : kReplacements)
    names.emplace_back(entry.target);
  return names;
}

std::vector<std::string> parse_custom_calls(std::string_view text) {
  const auto all = custom_call_names();
  if (text == "1")
    return all;
  std::vector<std::string> names;
  if (text.empty() || text == "0")
    return names;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    names.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
    if (std::find(all.begin(), all.end(), names.back()) == all.end())
      throw std::invalid_argument(
          fmt::format("'{}' is no custom call that replaces an operator; "
                      "expected 0, 1 or names of {}",
                      names.back(),
                      fmt::join(all, ", ")));
  }
  return names;
}

bool is_known_custom_call(std::string_view name) {
  return std::find(std::begin(kKnown), std::end(kKnown), name) !=
         std::end(kKnown);
}

std::optional<Values> custom_call(Builder& b,
                                  const Program& program,
                                  const Operation& composite,
                                  const Values& operands,
                                  const Target& target) {
  for (const Replacement& entry : kReplacements) {
    if (entry.composite != composite.name ||
        std::find(target.custom_calls.begin(),
                  target.custom_calls.end(),
                  entry.target) == target.custom_calls.end())
      continue;
    if (auto values =
            entry.replace({b, program, composite, operands, entry.target}))
      return values;
  }
  return std::nullopt;
}

}  // namespace neuronx::ir::hardware
