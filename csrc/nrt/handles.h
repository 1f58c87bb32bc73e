// SPDX-License-Identifier: Apache-2.0
// Owners of the runtime's objects. All throw NrtError; all may outlive
// nrt::close(), after which they release nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nrt/abi.h"

namespace neuronx::nrt {

template <typename Handle, void (*release)(Handle*)>
class Owner {
 public:
  Owner() = default;
  Owner(Handle* handle, uint64_t generation)
      : handle_(handle), generation_(generation) {}
  Owner(Owner&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)),
        generation_(other.generation_) {}
  Owner& operator=(Owner&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(generation_, other.generation_);
    return *this;
  }
  ~Owner();

  Handle* get() const { return handle_; }

 private:
  Handle* handle_ = nullptr;
  uint64_t generation_ = 0;
};

void release_tensor(nrt_tensor_t* tensor);
void release_tensor_set(nrt_tensor_set_t* set);
void release_model(nrt_model_t* model);

extern template class Owner<nrt_tensor_t, release_tensor>;
extern template class Owner<nrt_tensor_set_t, release_tensor_set>;
extern template class Owner<nrt_model_t, release_model>;

class Tensor {
 public:
  Tensor() = default;
  // Device memory of logical core `vnc`.
  static Tensor allocate(int vnc, size_t bytes);
  // The same, nullopt when the core has not enough memory.
  static std::optional<Tensor> try_allocate(int vnc, size_t bytes);
  // Another handle on part of the source's memory, which stays allocated
  // while a slice lives.
  static Tensor slice(const nrt_tensor_t* source, size_t offset, size_t bytes);

  nrt_tensor_t* get() const { return owner_.get(); }
  explicit operator bool() const { return get() != nullptr; }
  // The device address; not readable by the host.
  void* address() const;
  size_t size() const;

 private:
  explicit Tensor(nrt_tensor_t* tensor);
  Owner<nrt_tensor_t, release_tensor> owner_;
};

void write(nrt_tensor_t* tensor, const void* from, size_t offset, size_t bytes);
void read(const nrt_tensor_t* tensor, void* to, size_t offset, size_t bytes);
// Within one core only.
void copy(const nrt_tensor_t* source,
          size_t source_offset,
          nrt_tensor_t* destination,
          size_t destination_offset,
          size_t bytes);

// Named tensors of one launch. Made on first use.
class TensorSet {
 public:
  // Adds or replaces. The set does not own the tensor.
  void set(const char* name, nrt_tensor_t* tensor);
  nrt_tensor_set_t* get();

 private:
  Owner<nrt_tensor_set_t, release_tensor_set> owner_;
};

struct TensorInfo {
  std::string name;
  bool output;
  size_t bytes;
  nrt_dtype_t dtype;
  std::vector<uint32_t> shape;
};

class Model {
 public:
  Model() = default;
  static Model load(const void* neff, size_t bytes, int vnc);
  // With collectives among `world` participants, of which this is `rank`.
  static Model load_collectives(
      const void* neff, size_t bytes, int vnc, uint32_t rank, uint32_t world);

  nrt_model_t* get() const { return owner_.get(); }
  explicit operator bool() const { return get() != nullptr; }
  // Runs to completion. NumericalError, IndexOutOfRange...
  void execute(TensorSet& inputs, TensorSet& outputs);
  std::vector<TensorInfo> tensors() const;

 private:
  explicit Model(nrt_model_t* model);
  Owner<nrt_model_t, release_model> owner_;
};

}  // namespace neuronx::nrt
