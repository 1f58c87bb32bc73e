// SPDX-License-Identifier: Apache-2.0
#include "nrt/handles.h"

#include <fmt/format.h>

#include "nrt/runtime.h"
#include "nrt/status.h"

namespace neuronx::nrt {

template <typename Handle, void (*release)(Handle*)>
Owner<Handle, release>::~Owner() {
  if (handle_ != nullptr && generation_ == generation()) {
    release(handle_);
  }
}

template class Owner<nrt_tensor_t, release_tensor>;
template class Owner<nrt_tensor_set_t, release_tensor_set>;
template class Owner<nrt_model_t, release_model>;

void release_tensor(nrt_tensor_t* tensor) {
  runtime().nrt_tensor_free(&tensor);
}

void release_tensor_set(nrt_tensor_set_t* set) {
  runtime().nrt_destroy_tensor_set(&set);
}

void release_model(nrt_model_t* model) {
  runtime().nrt_unload(model);
}

Tensor::Tensor(nrt_tensor_t* tensor) : owner_(tensor, generation()) {}

Tensor Tensor::allocate(int vnc, size_t bytes) {
  nrt_tensor_t* tensor = nullptr;
  const auto status = runtime().nrt_tensor_allocate(
      NRT_TENSOR_PLACEMENT_DEVICE, vnc, bytes, "", &tensor);
  if (status != NRT_SUCCESS) {
    raise(status, fmt::format("allocate {} bytes on neuron:{}", bytes, vnc));
  }
  return Tensor(tensor);
}

std::optional<Tensor> Tensor::try_allocate(int vnc, size_t bytes) {
  nrt_tensor_t* tensor = nullptr;
  const auto status = runtime().nrt_tensor_allocate(
      NRT_TENSOR_PLACEMENT_DEVICE, vnc, bytes, "", &tensor);
  if (status == NRT_RESOURCE) {
    return std::nullopt;
  }
  if (status != NRT_SUCCESS) {
    raise(status, fmt::format("allocate {} bytes on neuron:{}", bytes, vnc));
  }
  return Tensor(tensor);
}

Tensor Tensor::slice(const nrt_tensor_t* source, size_t offset, size_t bytes) {
  nrt_tensor_t* tensor = nullptr;
  check(runtime().nrt_tensor_allocate_slice(source, offset, bytes, "", &tensor),
        "slice device memory");
  return Tensor(tensor);
}

void* Tensor::address() const {
  return runtime().nrt_tensor_get_va(get());
}
size_t Tensor::size() const {
  return runtime().nrt_tensor_get_size(get());
}

void write(nrt_tensor_t* tensor,
           const void* from,
           size_t offset,
           size_t bytes) {
  check(runtime().nrt_tensor_write(tensor, from, offset, bytes),
        "copy to the device");
}

void read(const nrt_tensor_t* tensor, void* to, size_t offset, size_t bytes) {
  check(runtime().nrt_tensor_read(tensor, to, offset, bytes),
        "copy to the host");
}

void copy(const nrt_tensor_t* source,
          size_t source_offset,
          nrt_tensor_t* destination,
          size_t destination_offset,
          size_t bytes) {
  check(runtime().nrt_tensor_copy(
            source, source_offset, destination, destination_offset, bytes),
        "copy on the device");
}

nrt_tensor_set_t* TensorSet::get() {
  if (owner_.get() == nullptr) {
    nrt_tensor_set_t* set = nullptr;
    check(runtime().nrt_allocate_tensor_set(&set), "make a tensor set");
    owner_ = {set, generation()};
  }
  return owner_.get();
}

void TensorSet::set(const char* name, nrt_tensor_t* tensor) {
  const auto status =
      runtime().nrt_add_tensor_to_tensor_set(get(), name, tensor);
  if (status != NRT_SUCCESS) {
    raise(status, fmt::format("add tensor \"{}\" to a set", name));
  }
}

Model::Model(nrt_model_t* model) : owner_(model, generation()) {}

Model Model::load(const void* neff, size_t bytes, int vnc) {
  nrt_model_t* model = nullptr;
  const auto status = runtime().nrt_load(neff, bytes, vnc, 1, &model);
  if (status != NRT_SUCCESS) {
    raise(status, fmt::format("load a program on neuron:{}", vnc));
  }
  return Model(model);
}

Model Model::load_collectives(
    const void* neff, size_t bytes, int vnc, uint32_t rank, uint32_t world) {
  const Runtime& library = runtime();
  if (library.nrt_load_collectives == nullptr) {
    throw LoadError(NRT_FAILURE,
                    "this Neuron runtime has no collectives; update it");
  }
  nrt_model_t* model = nullptr;
  const auto status =
      library.nrt_load_collectives(neff, bytes, vnc, 1, rank, world, &model);
  if (status != NRT_SUCCESS) {
    raise(status,
          fmt::format("load a collective program on neuron:{} as rank {} of "
                      "{}",
                      vnc,
                      rank,
                      world));
  }
  return Model(model);
}

void Model::execute(TensorSet& inputs, TensorSet& outputs) {
  check(runtime().nrt_execute(get(), inputs.get(), outputs.get()),
        "execute a program");
}

std::vector<TensorInfo> Model::tensors() const {
  const Runtime& library = runtime();
  std::vector<TensorInfo> result;
  if (library.nrt_get_model_tensor_info == nullptr) {
    return result;
  }
  nrt_tensor_info_array_t* array = nullptr;
  check(library.nrt_get_model_tensor_info(get(), &array),
        "read a program's inputs and outputs");
  for (const auto& info : *array) {
    result.push_back({info.name,
                      info.usage == NRT_TENSOR_USAGE_OUTPUT,
                      info.size,
                      info.dtype,
                      {info.shape, info.shape + info.ndim}});
  }
  library.nrt_free_model_tensor_info(array);
  return result;
}

}  // namespace neuronx::nrt
