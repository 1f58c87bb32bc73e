// SPDX-License-Identifier: Apache-2.0
// Tensors of nothing else: empty, resize_, set_, zeros without memory, indices
// of triangles.
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/nonzero_static.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "eager/resize.h"
#include "runtime/allocator.h"
#include "runtime/device.h"
#include "runtime/storage.h"

namespace neuronx {
namespace eager {

void resize(c10::TensorImpl* impl, c10::IntArrayRef sizes) {
  impl->set_sizes_contiguous(sizes);
  const size_t bytes =
      (impl->storage_offset() + impl->numel()) * impl->itemsize();
  if (impl->numel() > 0 && impl->storage().nbytes() < bytes) {
    runtime::resize_storage(*impl->storage().unsafeGetStorageImpl(), bytes);
  }
}

}  // namespace eager

namespace aten {
namespace {

using runtime::kNeuron;

c10::DeviceIndex device_index(std::optional<c10::Device> device) {
  if (device && device->has_index()) {
    runtime::check_device_index(device->index());
    return device->index();
  }
  runtime::check_device_index(runtime::current_device());
  return runtime::current_device();
}

void check_options(const char* op,
                   std::optional<c10::Layout> layout,
                   std::optional<bool> pin_memory) {
  TORCH_CHECK(c10::layout_or_default(layout) == c10::kStrided,
              "[",
              op,
              "] neuron tensors have the strided layout, got ",
              c10::layout_or_default(layout));
  TORCH_CHECK(!c10::pinned_memory_or_default(pin_memory),
              "[",
              op,
              "] only dense CPU tensors can be pinned");
}

at::Tensor wrap(c10::ScalarType dtype, size_t bytes, c10::DeviceIndex index) {
  auto storage =
      c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(),
                                            bytes,
                                            runtime::allocate(bytes, index),
                                            &runtime::allocator(),
                                            /*resizable=*/true);
  return at::Tensor(c10::make_intrusive<c10::TensorImpl>(
      c10::Storage(std::move(storage)),
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::scalarTypeToTypeMeta(dtype)));
}

at::Tensor empty(c10::IntArrayRef size,
                 std::optional<c10::ScalarType> dtype,
                 std::optional<c10::Layout> layout,
                 std::optional<c10::Device> device,
                 std::optional<bool> pin_memory,
                 std::optional<c10::MemoryFormat> memory_format) {
  check_options("empty", layout, pin_memory);
  at::detail::check_size_nonnegative(size);
  const auto scalar = c10::dtype_or_default(dtype);
  const size_t bytes = at::detail::computeStorageNbytesContiguous(
      size, c10::elementSize(scalar));
  auto tensor = wrap(scalar, bytes, device_index(device));
  auto* impl = tensor.unsafeGetTensorImpl();
  if (size.size() != 1 || size[0] != 0) {
    impl->set_sizes_contiguous(size);
  }
  if (memory_format.has_value() &&
      *memory_format != c10::MemoryFormat::Contiguous) {
    impl->empty_tensor_restride(*memory_format);
  }
  return tensor;
}

at::Tensor empty_strided(c10::IntArrayRef size,
                         c10::IntArrayRef stride,
                         std::optional<c10::ScalarType> dtype,
                         std::optional<c10::Layout> layout,
                         std::optional<c10::Device> device,
                         std::optional<bool> pin_memory) {
  check_options("empty_strided", layout, pin_memory);
  at::detail::check_size_nonnegative(size);
  TORCH_CHECK(size.size() == stride.size(),
              "dimensionality of sizes (",
              size.size(),
              ") must match dimensionality of strides (",
              stride.size(),
              ")");
  const auto scalar = c10::dtype_or_default(dtype);
  const size_t bytes =
      at::detail::computeStorageNbytes(size, stride, c10::elementSize(scalar));
  auto tensor = wrap(scalar, bytes, device_index(device));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride);
  return tensor;
}

void grow(c10::TensorImpl* impl, size_t bytes) {
  if (bytes > impl->storage().nbytes()) {
    runtime::resize_storage(*impl->storage().unsafeGetStorageImpl(), bytes);
  }
}

// With memory: kernels that core lets see zeros without would have to know.
at::Tensor efficient_zeros(c10::IntArrayRef size,
                           std::optional<c10::ScalarType> dtype,
                           std::optional<c10::Layout> layout,
                           std::optional<c10::Device> device,
                           std::optional<bool> pin_memory) {
  return at::zeros(size, dtype, layout, device.value_or(kNeuron), pin_memory);
}

// The positions of a triangle, row by row: [2, n].
at::Tensor positions(const at::Tensor& triangle,
                     int64_t n,
                     std::optional<c10::ScalarType> dtype) {
  at::Tensor result =
      at::empty({2, n}, triangle.options().dtype(dtype.value_or(at::kLong)));
  return result.copy_(at::nonzero_static(triangle, n).t());
}

at::Tensor ones(int64_t row,
                int64_t col,
                std::optional<c10::Layout> layout,
                std::optional<c10::Device> device) {
  at::native::check_args(row, col, layout);
  return at::ones({row, col},
                  at::TensorOptions(device.value_or(kNeuron)).dtype(at::kBool));
}

// tril_indices and triu_indices.
template <bool kLower>
at::Tensor triangle_indices(int64_t row,
                            int64_t col,
                            int64_t offset,
                            std::optional<c10::ScalarType> dtype,
                            std::optional<c10::Layout> layout,
                            std::optional<c10::Device> device,
                            std::optional<bool> /*pin_memory*/) {
  const at::Tensor all = ones(row, col, layout, device);
  const int64_t below =
      at::native::get_tril_size(row, col, kLower ? offset : offset - 1);
  return kLower ? positions(all.tril(offset), below, dtype)
                : positions(all.triu(offset), row * col - below, dtype);
}

const at::Tensor& resize_(const at::Tensor& self,
                          c10::IntArrayRef size,
                          std::optional<c10::MemoryFormat> memory_format) {
  at::detail::check_size_nonnegative(size);
  auto* impl = self.unsafeGetTensorImpl();
  if (self.sizes() != size) {
    eager::resize(impl, size);
  }
  if (memory_format.has_value()) {
    TORCH_CHECK(*memory_format != c10::MemoryFormat::Preserve,
                "Unsupported memory format ",
                *memory_format);
    impl->empty_tensor_restride(*memory_format);
  }
  return self;
}

at::Tensor& set_storage(at::Tensor& self,
                        at::Storage source,
                        int64_t offset,
                        c10::IntArrayRef size,
                        c10::IntArrayRef stride) {
  at::native::checkSetStorage(self, source, offset, size, stride);
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(offset);
  if (stride.data() != nullptr) {
    impl->set_sizes_and_strides(size, stride);
  } else {
    impl->set_sizes_contiguous(size);
  }
  if (impl->numel() > 0) {
    grow(impl,
         at::detail::computeStorageNbytes(
             impl->sizes(), impl->strides(), impl->itemsize(), offset));
  }
  return self;
}

at::Tensor& set_source(at::Tensor& self, at::Storage source) {
  const auto elements = static_cast<int64_t>(source.nbytes() / self.itemsize());
  return set_storage(self, std::move(source), 0, {elements}, {});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  if (self.unsafeGetTensorImpl() == source.unsafeGetTensorImpl()) {
    return self;
  }
  return set_storage(self,
                     source.storage(),
                     source.storage_offset(),
                     source.sizes(),
                     source.strides());
}

at::Tensor& set_nothing(at::Tensor& self) {
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(),
      0,
      runtime::allocate(0, self.device().index()),
      &runtime::allocator(),
      true);
  return set_storage(self, c10::Storage(std::move(storage)), 0, {0}, {});
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("_efficientzerotensor", &efficient_zeros);
  m.impl("tril_indices", &triangle_indices<true>);
  m.impl("triu_indices", &triangle_indices<false>);
  m.impl("resize_", &resize_);
  m.impl("set_.source_Storage", &set_source);
  m.impl("set_.source_Storage_storage_offset", &set_storage);
  m.impl("set_.source_Tensor", &set_tensor);
  m.impl("set_", &set_nothing);
}

}  // namespace aten
}  // namespace neuronx
