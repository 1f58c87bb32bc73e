// SPDX-License-Identifier: Apache-2.0
#include "sim/executor/views.h"

#include <ATen/TensorUtils.h>

#include "sim/executor/arguments.h"

namespace neuronx::sim {
namespace {

using ir::Shape;

const Shape& ints(const FlatOp& op, const char* key) {
  return std::get<Shape>(*op.op->attribute(key));
}

std::optional<Location> reshape(Location x, const Shape& size) {
  if (x.numel() == 0 || x.is_contiguous()) {
    Location result = whole(x.buffer, {x.dtype, size});
    result.offset = x.offset;
    return result;
  }
  const auto stride = at::detail::computeStride(at::IntArrayRef(x.size),
                                                at::IntArrayRef(x.stride),
                                                at::IntArrayRef(size));
  if (!stride)
    return std::nullopt;
  x.size = size;
  x.stride = *stride;
  return x;
}

Location transpose(Location x, const Shape& permutation) {
  const Location from = x;
  for (size_t d = 0; d < permutation.size(); ++d) {
    x.size[d] = from.size[permutation[d]];
    x.stride[d] = from.stride[permutation[d]];
  }
  return x;
}

Location slice(Location x, const FlatOp& op, const Shape& size) {
  const Shape& start = ints(op, "start_indices");
  const Shape& stride = ints(op, "strides");
  for (size_t d = 0; d < size.size(); ++d) {
    x.offset += start[d] * x.stride[d] * int64_t(itemsize(x.dtype));
    x.stride[d] *= stride[d];
  }
  x.size = size;
  return x;
}

Location broadcast(Location x, const Shape& dimensions, const Shape& size) {
  Shape stride(size.size(), 0);
  for (size_t i = 0; i < dimensions.size(); ++i)
    if (x.size[i] != 1)
      stride[dimensions[i]] = x.stride[i];
  x.size = size;
  x.stride = std::move(stride);
  return x;
}

Location as_strided(Location x, const FlatOp& op) {
  x.offset += std::get<int64_t>(*op.op->attribute("offset")) * x.stride[0] *
              int64_t(itemsize(x.dtype));
  const int64_t step = x.stride[0];
  x.size = ints(op, "size");
  x.stride = ints(op, "stride");
  for (int64_t& stride : x.stride)
    stride *= step;
  return x;
}

at::Tensor make_meta(const Location& location) {
  const auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(),
      location.end(),
      at::DataPtr(nullptr, at::Device(at::kMeta)),
      nullptr,
      false);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage),
      c10::DispatchKeySet(c10::DispatchKey::Meta),
      c10::scalarTypeToTypeMeta(to_scalar_type(location.dtype)));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(
      location.size,
      location.stride,
      location.offset / int64_t(itemsize(location.dtype)));
  return tensor;
}

// ATen's own view operators know their results' strides: ask them, on
// tensors without data in case that one decides to copy.
std::optional<std::vector<Location>> aten_view(
    const FlatOp& op,
    const Location& operand,
    const std::vector<ir::TensorType>& types) {
  if (op.call->self() != 0 || op.aten->tensor_returns.empty() ||
      operand.offset % int64_t(itemsize(operand.dtype)) != 0)
    return std::nullopt;
  std::vector<ir::TensorType> operand_types;
  Tensors metas{make_meta(operand)};
  for (size_t i = 0; i < op.operands.size(); ++i) {
    operand_types.push_back(types[op.operands[i]]);
    if (i > 0)
      metas.push_back(make_meta(whole(0, operand_types[i])));
  }
  Arguments arguments(op.aten->functional.schema(), *op.op, operand_types);
  if (arguments.has_scalars())
    return std::nullopt;
  arguments.bind(metas);
  torch::jit::Stack stack = arguments.values();
  try {
    op.aten->functional.callBoxed(&stack);
  } catch (const c10::Error&) {
    return std::nullopt;
  }
  Tensors results;
  for (const c10::IValue& value : stack) {
    if (value.isTensor())
      results.push_back(value.toTensor());
    else if (value.isTensorList())
      for (const at::Tensor& tensor : value.toTensorList())
        results.push_back(tensor);
  }
  if (results.size() != op.results.size())
    return std::nullopt;
  std::vector<Location> locations;
  for (size_t i = 0; i < results.size(); ++i) {
    const at::Tensor& result = results[i];
    const ir::TensorType& type = types[op.results[i]];
    if (!result.defined() || !result.is_alias_of(metas[0]) ||
        result.is_conj() || result.is_neg() ||
        result.scalar_type() != to_scalar_type(type.dtype) ||
        result.sizes() != at::IntArrayRef(type.shape))
      return std::nullopt;
    locations.push_back({operand.buffer,
                         result.storage_offset() * result.element_size(),
                         type.shape,
                         result.strides().vec(),
                         type.dtype});
  }
  return locations;
}

std::optional<Location> stablehlo_view(const FlatOp& op,
                                       const Location& x,
                                       const ir::TensorType& type) {
  const std::string& name = op.op->name;
  if (name == "stablehlo.reshape")
    return reshape(x, type.shape);
  if (name == "stablehlo.transpose")
    return transpose(x, ints(op, "permutation"));
  if (name == "stablehlo.slice")
    return slice(x, op, type.shape);
  if (name == "stablehlo.broadcast_in_dim")
    return broadcast(x, ints(op, "broadcast_dimensions"), type.shape);
  if (name == "stablehlo.bitcast_convert") {
    Location result = x;
    result.dtype = type.dtype;
    return result;
  }
  if (name == "neuronx.as_strided")
    return as_strided(x, op);
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<Location>> view(
    const FlatOp& op,
    const Location& operand,
    const std::vector<ir::TensorType>& types) {
  if (op.aten)
    return op.aten->view ? aten_view(op, operand, types) : std::nullopt;
  if (op.native)
    return std::nullopt;
  if (auto location = stablehlo_view(op, operand, types[op.results[0]]))
    return std::vector{std::move(*location)};
  return std::nullopt;
}

}  // namespace neuronx::sim
