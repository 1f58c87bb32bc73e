// SPDX-License-Identifier: Apache-2.0
#include "sim/executor/shell.h"

#include <ATen/ops/copy_ops.h>
#include <ATen/ops/empty.h>

#include <cstring>

#include "common/strides.h"

namespace neuronx::sim {
namespace {

// memcpy is faster than a TensorIterator until threads help.
constexpr int64_t kMemcpyBytes = int64_t{1} << 20;

}  // namespace

at::ScalarType to_scalar_type(DType dtype) {
  switch (dtype) {
    case DType::Bool:
      return at::kBool;
    case DType::UInt8:
      return at::kByte;
    case DType::Int8:
      return at::kChar;
    case DType::UInt16:
      return at::kUInt16;
    case DType::Int16:
      return at::kShort;
    case DType::UInt32:
      return at::kUInt32;
    case DType::Int32:
      return at::kInt;
    case DType::UInt64:
      return at::kUInt64;
    case DType::Int64:
      return at::kLong;
    case DType::Float16:
      return at::kHalf;
    case DType::BFloat16:
      return at::kBFloat16;
    case DType::Float32:
      return at::kFloat;
    case DType::Float64:
      return at::kDouble;
    case DType::Float8E4M3FN:
      return at::kFloat8_e4m3fn;
    case DType::Float8E5M2:
      return at::kFloat8_e5m2;
    case DType::Complex64:
      return at::kComplexFloat;
    case DType::Complex128:
      return at::kComplexDouble;
  }
  return at::ScalarType::Undefined;
}

int64_t Location::numel() const {
  return neuronx::numel(size);
}

bool Location::is_contiguous() const {
  return neuronx::is_contiguous(size, stride);
}

int64_t Location::end() const {
  return offset + extent(size, stride) * int64_t(itemsize(dtype));
}

Location whole(int32_t buffer, const ir::TensorType& type) {
  return {buffer, 0, type.shape, contiguous_strides(type.shape), type.dtype};
}

bool overlaps(const Location& a, const Location& b) {
  return a.buffer == b.buffer && a.begin() < b.end() && b.begin() < a.end();
}

StoragePtr make_storage(int64_t bytes, void* data) {
  return c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(),
      bytes,
      at::DataPtr(data, at::Device(at::kCPU)),
      nullptr,
      false);
}

at::Tensor make_shell(const StoragePtr& storage, const Location& location) {
  at::Tensor shell = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage),
      c10::DispatchKeySet(c10::DispatchKey::CPU),
      c10::scalarTypeToTypeMeta(to_scalar_type(location.dtype)));
  shell.unsafeGetTensorImpl()->set_sizes_and_strides(
      location.size,
      location.stride,
      location.offset / int64_t(itemsize(location.dtype)));
  return shell;
}

at::Tensor make_empty(DType dtype, at::IntArrayRef size) {
  return at::empty(size, at::dtype(to_scalar_type(dtype)).device(at::kCPU));
}

at::Tensor make_empty(const ir::TensorType& type) {
  return make_empty(type.dtype, type.shape);
}

void copy(const at::Tensor& to, const at::Tensor& from) {
  const int64_t bytes = int64_t(to.nbytes());
  if (to.scalar_type() == from.scalar_type() && bytes <= kMemcpyBytes &&
      to.is_contiguous() && from.is_contiguous()) {
    if (bytes > 0)
      std::memmove(to.mutable_data_ptr(), from.const_data_ptr(), bytes);
    return;
  }
  at::Tensor destination = to;
  at::_ops::copy_::redispatch(
      c10::DispatchKeySet(c10::DispatchKey::CPU), destination, from, false);
}

std::string describe(const at::Tensor& tensor) {
  if (!tensor.defined())
    return "an undefined tensor";
  return c10::str(tensor.scalar_type(), tensor.sizes());
}

}  // namespace neuronx::sim
