// SPDX-License-Identifier: Apache-2.0
// Shells: CPU tensors over memory that somebody else owns. A storage's
// pointer is swapped before each run; sizes and strides never change.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "ir/program.h"

namespace neuronx::sim {

using Tensors = std::vector<at::Tensor>;

at::ScalarType to_scalar_type(DType dtype);

// A strided view of a buffer; `offset` counts bytes.
struct Location {
  int32_t buffer = -1;
  int64_t offset = 0;
  ir::Shape size, stride;
  DType dtype = DType::Float32;

  bool operator==(const Location&) const = default;
  int64_t numel() const;
  bool is_contiguous() const;
  // First and one past the last byte within the buffer; equal if empty.
  int64_t begin() const { return offset; }
  int64_t end() const;
};

// Row-major over the whole of `buffer`.
Location whole(int32_t buffer, const ir::TensorType& type);

bool overlaps(const Location& a, const Location& b);

using StoragePtr = c10::intrusive_ptr<c10::StorageImpl>;

// A storage of `bytes` bytes that owns nothing and cannot be resized.
StoragePtr make_storage(int64_t bytes, void* data = nullptr);

inline void point(c10::StorageImpl& storage, void* data) {
  storage.set_data_ptr_noswap(at::DataPtr(data, at::Device(at::kCPU)));
}

at::Tensor make_shell(const StoragePtr& storage, const Location& location);

// A new contiguous tensor.
at::Tensor make_empty(const ir::TensorType& type);
at::Tensor make_empty(DType dtype, at::IntArrayRef size);

// to.copy_(from) for tensors of one shape.
void copy(const at::Tensor& to, const at::Tensor& from);

// "float32[2, 3]"
std::string describe(const at::Tensor& tensor);

}  // namespace neuronx::sim
