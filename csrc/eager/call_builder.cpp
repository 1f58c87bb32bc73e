// SPDX-License-Identifier: Apache-2.0
#include "eager/call_builder.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>

#include "common/metrics.h"
#include "common/strides.h"
#include "eager/arguments.h"
#include "eager/decompose.h"
#include "eager/draw.h"
#include "eager/random.h"
#include "lowering/lowering.h"

namespace neuronx::eager {
namespace {

using ir::Attribute;
using ir::Shape;
using ir::TensorType;
using ir::Value;

Shape to_shape(c10::IntArrayRef sizes) {
  return {sizes.begin(), sizes.end()};
}

TensorType type_of(const at::Tensor& tensor) {
  const auto dtype = to_dtype(tensor.scalar_type());
  if (!dtype) {
    throw Refused(fmt::format("{} has no device representation",
                              c10::toString(tensor.scalar_type())));
  }
  return {*dtype, to_shape(tensor.sizes())};
}

// An undefined result (None) has this type; its value is never used.
const TensorType kUndefined{DType::Bool, {0}};

// Builds the Program of one call.
class CallBuilder {
 public:
  CallBuilder(OpInfo& info,
              const Call& call,
              const torch::jit::Stack& stack,
              const Inference& inference,
              bool general,
              bool logical_results)
      : info_(info),
        call_(call),
        stack_(stack),
        inference_(inference),
        general_(general),
        logical_results_(logical_results),
        builder_(info.name) {}

  Built build() {
    Built built;
    read_arguments();
    describe_outputs(*built.entry);
    if (anything_to_run(*built.entry)) {
      const auto results = lower(*built.entry);
      finish(built, results);
    }
    return built;
  }

 private:
  const c10::IValue& argument(size_t i) const {
    return stack_[stack_.size() - info_.arguments.size() + i];
  }

  // The value of device tensor number `position`: a parameter, or the view
  // of one.
  Value device_tensor(const at::Tensor& tensor) {
    const int16_t position = next_tensor_++;
    TORCH_INTERNAL_ASSERT(call_.tensors[position] ==
                          tensor.unsafeGetTensorImpl());
    auto type = type_of(tensor);
    if (tensor.numel() == 0) {
      parameters_.push_back(-1);
      extents_.push_back({});
      return builder_.constant(type, std::string{});
    }
    parameters_.push_back(static_cast<int32_t>(inputs_.size()));
    inputs_.push_back(position);
    if (tensor.is_contiguous()) {
      extents_.push_back(builder_.parameter(type));
      return extents_.back();
    }
    const auto size = to_shape(tensor.sizes());
    const auto stride = to_shape(tensor.strides());
    extents_.push_back(
        builder_.parameter({type.dtype, {extent(size, stride)}}));
    return builder_.as_strided(extents_.back(), size, stride, 0);
  }

  // Tensors that are only written are no operands.
  void skip_output(const at::Tensor& tensor) {
    ++next_tensor_;
    parameters_.push_back(-1);
    extents_.push_back({});
  }

  Attribute scalar(const c10::IValue& value, const c10::Type& type) {
    if (value.isNone() || value.isBool()) {
      return plain(value, type);
    }
    const int16_t position = next_scalar_++;
    if (!general_) {
      return plain(value, type);
    }
    return runtime_scalar(position);
  }

  ir::Operand runtime_scalar(int16_t position) {
    const auto dtype =
        call_.scalars[position].floating ? DType::Float32 : DType::Int64;
    scalar_operands_.push_back({position, dtype, operands_.size()});
    operands_.push_back({});  // a parameter behind the tensors', see below
    return {static_cast<int32_t>(operands_.size() - 1)};
  }

  Attribute plain(const c10::IValue& value, const c10::Type& type) {
    auto attribute = to_attribute(value, type);
    if (!attribute) {
      throw Refused("an argument has no device representation");
    }
    return *attribute;
  }

  Attribute tensor(const at::Tensor& tensor) {
    if (!tensor.defined()) {
      return {};
    }
    if (tensor.is_cpu()) {
      auto number = to_number_tensor(tensor);
      const int16_t position = next_scalar_++;
      if (general_ && number.dtype != DType::Bool) {
        number.operand = runtime_scalar(position).index;
      }
      return number;
    }
    operands_.push_back(device_tensor(tensor));
    return ir::Operand{static_cast<int32_t>(operands_.size() - 1)};
  }

  void read_arguments() {
    const auto& schema = info_.handle.schema();
    for (size_t i = 0; i < info_.arguments.size(); ++i) {
      const auto& declared = schema.arguments()[i];
      const auto& value = argument(i);
      if (info_.arguments[i].out) {
        if (value.isTensor()) {
          skip_output(value.toTensor());
        } else {
          for (const at::Tensor& out : value.toTensorList()) {
            skip_output(out);
          }
        }
        continue;
      }
      arguments_.push_back(
          read_argument(info_.arguments[i].kind, value, *declared.real_type()));
    }
    read_inputs_ = inputs_.size();
    for (auto& [position, dtype, operand] : scalar_operands_) {
      operands_[operand] = builder_.parameter({dtype, {}});
    }
  }

  Attribute read_argument(ArgumentKind kind,
                          const c10::IValue& value,
                          const c10::Type& type) {
    if (value.isTensor()) {
      return tensor(value.toTensor());
    }
    if (kind == ArgumentKind::TensorList && value.isList()) {
      ir::OperandList list;
      for (const c10::IValue& element : value.toListRef()) {
        if (!element.isTensor() || !element.toTensor().defined()) {
          list.indices.push_back(-1);
          continue;
        }
        if (element.toTensor().is_cpu()) {
          throw Refused("a list holds a tensor on the CPU");
        }
        operands_.push_back(device_tensor(element.toTensor()));
        list.indices.push_back(static_cast<int32_t>(operands_.size() - 1));
      }
      return list;
    }
    if (kind == ArgumentKind::Scalar) {
      return scalar(value, type);
    }
    if (kind == ArgumentKind::ScalarList && value.isList()) {
      const auto elements = value.toListRef();
      if (!general_) {
        next_scalar_ += static_cast<int16_t>(elements.size());
        return plain(value, type);
      }
      ir::OperandList list;
      for (const c10::IValue& element : elements) {
        if (element.isBool()) {
          throw lowering::NeedsConstant("a list of scalars holds a bool");
        }
        list.indices.push_back(runtime_scalar(next_scalar_++).index);
      }
      return list;
    }
    return plain(value, type);
  }

  void describe_outputs(Entry& entry) {
    // Written arguments first, in order; they are the results of in-place and
    // out overloads.
    if (info_.writes) {
      for (size_t k = 0; k < inference_.written.size(); ++k) {
        const at::Tensor& meta = inference_.written[k];
        const int16_t position = call_.written[k];
        const c10::TensorImpl* actual = call_.tensors[position];
        Output output;
        output.kind = Output::Kind::Written;
        output.argument = position;
        output.dtype = meta.scalar_type();
        output.resized = meta.sizes() != actual->sizes();
        output.sizes.assign(meta.sizes().begin(), meta.sizes().end());
        // Some meta functions give their out a layout of their own.
        const auto strides =
            output.resized ? meta.strides() : actual->strides();
        output.strides.assign(strides.begin(), strides.end());
        output.contiguous = output.resized
                                ? meta.is_contiguous() || !is_dense(output)
                                : actual->is_contiguous();
        entry.outputs.push_back(std::move(output));
      }
      return;
    }
    for (const c10::IValue& value : inference_.returns) {
      Output output;
      if (value.isInt()) {
        output.kind = Output::Kind::Number;
        output.number = value.toInt();
        entry.outputs.push_back(std::move(output));
        continue;
      }
      if (!value.isTensor()) {
        throw Refused("it returns a number that depends on the data");
      }
      const at::Tensor& meta = value.toTensor();
      if (!meta.defined()) {
        output.kind = Output::Kind::None;
        entry.outputs.push_back(std::move(output));
        continue;
      }
      output.kind = Output::Kind::New;
      output.dtype = meta.scalar_type();
      output.contiguous = logical_results_ || meta.is_contiguous();
      output.sizes.assign(meta.sizes().begin(), meta.sizes().end());
      output.strides.assign(meta.strides().begin(), meta.strides().end());
      const auto size = to_shape(meta.sizes());
      output.bytes =
          static_cast<size_t>(extent(size, to_shape(meta.strides()))) *
          meta.itemsize();
      entry.outputs.push_back(std::move(output));
    }
  }

  static bool is_dense(const Output& output) {
    return is_non_overlapping_and_dense(
        Shape(output.sizes.begin(), output.sizes.end()),
        Shape(output.strides.begin(), output.strides.end()));
  }

  bool anything_to_run(const Entry& entry) const {
    for (const Output& output : entry.outputs) {
      if (output.kind != Output::Kind::None &&
          output.kind != Output::Kind::Number &&
          numel(Shape(output.sizes.begin(), output.sizes.end())) > 0) {
        return true;
      }
    }
    return false;
  }

  TensorType result_type(const Output& output) const {
    if (output.kind == Output::Kind::None) {
      return kUndefined;
    }
    const auto dtype = to_dtype(output.dtype);
    if (!dtype) {
      throw Refused(fmt::format("{} has no device representation",
                                c10::toString(output.dtype)));
    }
    return {*dtype, Shape(output.sizes.begin(), output.sizes.end())};
  }

  std::vector<Value> lower(Entry& entry) {
    std::vector<TensorType> types;
    for (const Output& output : entry.outputs) {
      if (output.kind != Output::Kind::Number) {
        types.push_back(result_type(output));
      }
    }
    if (draws()) {
      return lower_random(entry, types);
    }
    if (info_.functional.empty()) {
      throw Refused("it has no functional overload");
    }
    if (info_.random && !lowering::has_lowering(info_.functional)) {
      throw Refused("its random numbers have no device program");
    }
    std::string reason =
        can_decompose() ? "it has no lowering and no decomposition"
                        : "it has no lowering, and decompositions need Python";
    try {
      if (auto results = lowering::call(
              builder_, info_.functional, operands_, arguments_, types)) {
        return *results;
      }
    } catch (const lowering::Unsupported& unsupported) {
      reason = unsupported.what();
    }
    if (auto results =
            decompose(builder_, info_, stack_, operands_, arguments_, types)) {
      metrics::count(metrics::Metric::Decompositions);
      return *results;
    }
    throw Refused(reason, !can_decompose());
  }

  bool draws() const {
    if (info_.draw == nullptr || info_.draw->rate < 0) {
      return info_.draw != nullptr;
    }
    const auto& rate = arguments_.at(info_.draw->rate);
    if (std::holds_alternative<ir::Operand>(rate)) {
      throw lowering::NeedsConstant("whether it draws depends on its rate");
    }
    return std::get<double>(rate) != 0;
  }

  std::vector<Value> add_seed() {
    std::vector<Value> seed;
    for (int i = 0; i < 2; ++i) {
      seed.push_back(builder_.parameter({DType::Int64, {}}));
    }
    seed_parameters_ = seed.size();
    return seed;
  }

  std::vector<Value> lower_random(Entry& entry,
                                  const std::vector<TensorType>& types) {
    const auto seed = add_seed();
    auto drawn = draw(builder_,
                      *info_.draw,
                      info_.arguments[0].kind == ArgumentKind::Tensor &&
                          !info_.arguments[0].out,
                      operands_,
                      arguments_,
                      types,
                      seed[0],
                      seed[1]);
    if (!drawn) {
      throw Refused(fmt::format("{} is not lowered", info_.draw->lowering));
    }
    entry.random_blocks = drawn->blocks;
    return std::move(drawn->results);
  }

  void finish(Built& built, const std::vector<Value>& results) {
    Entry& entry = *built.entry;
    std::vector<Value> program_results;
    std::vector<int32_t> aliases;
    int16_t fresh = 0;
    size_t k = 0;
    for (const Output& output : entry.outputs) {
      if (output.kind == Output::Kind::Number) {
        continue;
      }
      const Value value = results[k++];
      const int16_t this_fresh = fresh;
      if (output.kind != Output::Kind::Written) {
        ++fresh;
      }
      const Shape size(output.sizes.begin(), output.sizes.end());
      if (output.kind == Output::Kind::None || numel(size) == 0) {
        continue;
      }
      store(entry, output, value, this_fresh, program_results, aliases);
    }
    // Parameters that arise while storing come last; scalars follow them, so
    // the program's order is: tensors, extents to update, scalars, seed.
    auto program = builder_.finish(program_results, aliases);
    order_parameters(program);
    entry.inputs.assign(inputs_.begin(), inputs_.end());
    for (const auto& operand : scalar_operands_) {
      entry.scalars.push_back(operand.position);
    }
    built.scalars = static_cast<int>(scalar_operands_.size()) +
                    (entry.random_blocks > 0 ? 2 : 0);
    built.program = std::move(program);
  }

  void store(Entry& entry,
             const Output& output,
             Value value,
             int16_t fresh,
             std::vector<Value>& results,
             std::vector<int32_t>& aliases) {
    const Shape size(output.sizes.begin(), output.sizes.end());
    Shape stride(output.strides.begin(), output.strides.end());
    if (output.kind == Output::Kind::New) {
      entry.results.push_back(fresh);
      aliases.push_back(-1);
      if (output.contiguous) {
        results.push_back(value);
        return;
      }
      if (!is_dense(output)) {
        throw Refused("its result has a layout with gaps");
      }
      results.push_back(builder_.to_strided(value, stride));
      return;
    }
    const int16_t position = static_cast<int16_t>(output.argument);
    const bool dense = output.resized || is_dense(output);
    int32_t parameter = parameters_[position];
    if (parameter < 0 && dense) {
      // Written as a whole and never read.
      entry.results.push_back(static_cast<int16_t>(-1 - position));
      aliases.push_back(-1);
      results.push_back(output.contiguous ? value
                                          : builder_.to_strided(value, stride));
      return;
    }
    if (parameter < 0) {
      parameter = static_cast<int32_t>(inputs_.size());
      inputs_.push_back(position);
      extents_[position] =
          builder_.parameter({builder_.dtype(value), {extent(size, stride)}});
    }
    aliases.push_back(parameter);
    results.push_back(output.contiguous
                          ? value
                          : builder_.as_strided_scatter(
                                extents_[position], value, stride, 0));
  }

  // Moves the scalars' parameters behind the extents that stores added.
  // Aliases stay: they count tensors only.
  void order_parameters(ir::Program& program) {
    std::vector<Value> tensors, scalars;
    const size_t first_scalar = read_inputs_;
    const size_t scalar_count = scalar_operands_.size() + seed_parameters_;
    for (size_t i = 0; i < program.parameters.size(); ++i) {
      const bool scalar = i >= first_scalar && i < first_scalar + scalar_count;
      (scalar ? scalars : tensors).push_back(program.parameters[i]);
    }
    tensors.insert(tensors.end(), scalars.begin(), scalars.end());
    program.parameters = std::move(tensors);
  }

  OpInfo& info_;
  const Call& call_;
  const torch::jit::Stack& stack_;
  const Inference& inference_;
  const bool general_;
  // Results row-major whatever layout PyTorch would give them.
  const bool logical_results_;
  ir::Builder builder_;

  int16_t next_tensor_ = 0;
  int16_t next_scalar_ = 0;
  std::vector<Value> operands_;
  std::vector<Attribute> arguments_;
  std::vector<int16_t> inputs_;      // tensor position of each parameter
  std::vector<int32_t> parameters_;  // by tensor position, -1 for none
  std::vector<Value> extents_;       // by tensor position
  struct ScalarOperand {
    int16_t position;
    DType dtype;
    size_t operand;
  };
  std::vector<ScalarOperand> scalar_operands_;
  size_t seed_parameters_ = 0;
  size_t read_inputs_ = 0;  // tensor parameters before the scalars'
};

}  // namespace

Built build_call(OpInfo& info,
                 const Call& call,
                 const torch::jit::Stack& stack,
                 const Inference& inference,
                 bool general,
                 bool logical_results) {
  return CallBuilder(info, call, stack, inference, general, logical_results)
      .build();
}

}  // namespace neuronx::eager
