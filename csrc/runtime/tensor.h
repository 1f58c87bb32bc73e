// SPDX-License-Identifier: Apache-2.0
// New tensors on the device, and views, without the dispatcher.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include "runtime/allocator.h"

namespace neuronx::runtime {

// A tensor of uninitialised memory, `bytes` of it, on the current stream of
// `device`. Empty `strides` mean row-major.
inline at::Tensor new_tensor(c10::ScalarType dtype,
                             c10::IntArrayRef sizes,
                             c10::IntArrayRef strides,
                             size_t bytes,
                             c10::DeviceIndex device) {
  auto storage =
      c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(),
                                            bytes,
                                            allocate(bytes, device),
                                            &allocator(),
                                            /*resizable=*/true);
  auto impl = c10::make_intrusive<c10::TensorImpl>(
      c10::Storage(std::move(storage)),
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::scalarTypeToTypeMeta(dtype));
  if (strides.empty()) {
    impl->set_sizes_contiguous(sizes);
  } else {
    impl->set_sizes_and_strides(sizes, strides);
  }
  return at::Tensor(std::move(impl));
}

// A view of the memory of `base`; `offset` counts elements from its start.
inline at::Tensor new_view(const at::Tensor& base,
                           c10::IntArrayRef sizes,
                           c10::IntArrayRef strides,
                           int64_t offset) {
  auto impl = c10::make_intrusive<c10::TensorImpl>(c10::TensorImpl::VIEW,
                                                   c10::Storage(base.storage()),
                                                   base.key_set(),
                                                   base.dtype());
  impl->set_sizes_and_strides(sizes, strides, offset);
  return at::Tensor(std::move(impl));
}

// Of the first element.
inline void* address(const c10::TensorImpl* impl) {
  return static_cast<char*>(impl->storage().mutable_data()) +
         impl->storage_offset() * impl->itemsize();
}

}  // namespace neuronx::runtime
