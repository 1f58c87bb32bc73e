// SPDX-License-Identifier: Apache-2.0
// Loading and unloading of programs, and what they tell about themselves.
#include "sim/model.h"

#include <fmt/format.h>

#include <cstring>

#include "ir/program.h"
#include "ir/serialize.h"
#include "sim/core.h"
#include "sim/exports.h"
#include "sim/fault.h"

namespace neuronx {

using namespace sim;

namespace {

constexpr const char* kAliasSuffix = ".must_alias_input";

std::vector<Port> make_ports(const char* prefix,
                             const std::vector<ir::TensorType>& types) {
  std::vector<Port> ports;
  for (size_t i = 0; i < types.size(); ++i) {
    const auto name = prefix + std::to_string(i);
    ports.push_back({name, name, static_cast<size_t>(types[i].bytes())});
  }
  return ports;
}

// "First free": the first core without a model, else the first.
Core* choose_core(int32_t vnc) {
  if (vnc != -1) {
    return find_core(vnc, "nrt_load");
  }
  auto& cores = simulator().cores;
  for (auto& core : cores) {
    std::lock_guard lock(core->models_mutex);
    if (core->models.empty()) {
      return core.get();
    }
  }
  return cores.front().get();
}

std::unique_ptr<nrt_model_t> make_model(const void* neff, size_t size) {
  static std::atomic<uint64_t> next_id{1};
  auto model = std::make_unique<nrt_model_t>();
  model->id = next_id++;
  model->executor = Executor::load(neff, size);
  model->inputs = make_ports("input", model->executor->inputs());
  model->outputs = make_ports("output", model->executor->outputs());
  const auto aliases = ir::deserialize(neff, size).aliases;
  for (size_t i = 0; i < aliases.size(); ++i) {
    if (aliases[i] >= 0) {
      model->aliases.emplace_back(static_cast<int32_t>(i), aliases[i]);
      Port& port = model->inputs[aliases[i]];
      port.name = port.plain_name + kAliasSuffix;
    }
  }
  return model;
}

NRT_STATUS load(const void* neff,
                size_t size,
                int32_t vnc,
                nrt_model_t** result) {
  Core* core = choose_core(vnc);
  if (core == nullptr) {
    return vnc < -1 ? NRT_INVALID : NRT_LOAD_NOT_ENOUGH_NC;
  }
  if (const auto status = fault(FaultKind::Load)) {
    return status;
  }
  std::unique_ptr<nrt_model_t> model;
  try {
    model = make_model(neff, size);
  } catch (const std::invalid_argument& error) {
    return fail(NRT_UNSUPPORTED_NEFF_VERSION, error.what());
  }
  model->core = core;
  model->bytes = size;
  if (!charge(*core, size)) {
    return fail(NRT_RESOURCE,
                fmt::format("core {} has no room for a program of {} bytes",
                            core->index,
                            size));
  }
  std::lock_guard lock(core->models_mutex);
  core->models.insert(model.get());
  *result = model.release();
  return NRT_SUCCESS;
}

NRT_STATUS check_load(const void* neff,
                      size_t size,
                      int32_t vnc_count,
                      nrt_model_t** model,
                      const char* call) {
  if (const auto status = running(call)) {
    return status;
  }
  if (neff == nullptr || size == 0 || model == nullptr) {
    return fail(NRT_INVALID, std::string(call) + ": there is no program");
  }
  if (vnc_count != -1 && vnc_count != 1) {
    return fail(
        NRT_INVALID,
        fmt::format("{}: a program uses one core, not {}", call, vnc_count));
  }
  return NRT_SUCCESS;
}

nrt_dtype_t runtime_dtype(DType dtype) {
  switch (dtype) {
    case DType::Bool:
    case DType::UInt8:
      return NRT_DTYPE_UINT8;
    case DType::Int8:
      return NRT_DTYPE_INT8;
    case DType::UInt16:
      return NRT_DTYPE_UINT16;
    case DType::Int16:
      return NRT_DTYPE_INT16;
    case DType::UInt32:
      return NRT_DTYPE_UINT32;
    case DType::Int32:
      return NRT_DTYPE_INT32;
    case DType::UInt64:
      return NRT_DTYPE_UINT64;
    case DType::Int64:
      return NRT_DTYPE_INT64;
    case DType::Float16:
      return NRT_DTYPE_FLOAT16;
    case DType::BFloat16:
      return NRT_DTYPE_BFLOAT16;
    case DType::Float32:
      return NRT_DTYPE_FLOAT32;
    case DType::Float8E4M3FN:
      return NRT_DTYPE_FP8_E4;
    case DType::Float8E5M2:
      return NRT_DTYPE_FP8_E5;
    default:
      return NRT_DTYPE_UNKNOWN;
  }
}

nrt_tensor_info_t describe(const Port& port,
                           const ir::TensorType& type,
                           nrt_tensor_usage_t usage) {
  nrt_tensor_info_t info{};
  std::strncpy(info.name, port.name.c_str(), sizeof(info.name) - 1);
  info.usage = usage;
  info.size = port.bytes;
  info.dtype = runtime_dtype(type.dtype);
  info.ndim = static_cast<uint32_t>(type.shape.size());
  info.shape = new uint32_t[type.shape.size()];
  for (size_t i = 0; i < type.shape.size(); ++i) {
    info.shape[i] = static_cast<uint32_t>(type.shape[i]);
  }
  return info;
}

}  // namespace

namespace sim {

void unload_all(Core& core) noexcept {
  std::scoped_lock lock(core.execution, core.models_mutex);
  for (nrt_model_t* model : core.models) {
    model->executor.reset();
    discharge(core, model->bytes);
  }
  core.models.clear();
}

}  // namespace sim

NRT_STATUS nrt_load(const void* neff,
                    size_t size,
                    int32_t vnc,
                    int32_t vnc_count,
                    nrt_model_t** model) {
  if (const auto status = check_load(neff, size, vnc_count, model, __func__)) {
    return status;
  }
  return guarded([&] { return load(neff, size, vnc, model); });
}

NRT_STATUS nrt_load_collectives(const void* neff,
                                size_t size,
                                int32_t vnc,
                                int32_t vnc_count,
                                uint32_t ctx_device_id,
                                uint32_t ctx_device_count,
                                nrt_model_t** model) {
  if (const auto status = check_load(neff, size, vnc_count, model, __func__)) {
    return status;
  }
  if (const auto status =
          nrt_build_global_comm(vnc, ctx_device_id, ctx_device_count)) {
    return status;
  }
  return guarded([&] { return load(neff, size, vnc, model); });
}

NRT_STATUS nrt_unload(nrt_model_t* model) {
  if (const auto status = running(__func__)) {
    return status;
  }
  if (const auto status = check_handle(model, __func__)) {
    return status;
  }
  Core& core = *model->core;
  core.queue(NRTA_XU_COMPUTE, 0).drain();
  {
    std::scoped_lock lock(core.execution, core.models_mutex);
    core.models.erase(model);
    model->executor.reset();
  }
  discharge(core, model->bytes);
  dispose(model);
  return NRT_SUCCESS;
}

NRT_STATUS nrt_get_model_tensor_info(nrt_model_t* model,
                                     nrt_tensor_info_array_t** info) {
  if (const auto status = running(__func__)) {
    return status;
  }
  if (const auto status = check_handle(model, __func__)) {
    return status;
  }
  if (info == nullptr) {
    return fail(NRT_INVALID,
                "nrt_get_model_tensor_info: the result pointer is null");
  }
  return guarded([&] {
    const size_t count = model->inputs.size() + model->outputs.size();
    auto* array = static_cast<nrt_tensor_info_array_t*>(::operator new(
        sizeof(nrt_tensor_info_array_t) + count * sizeof(nrt_tensor_info_t)));
    array->tensor_count = count;
    nrt_tensor_info_t* next = array->begin();
    for (size_t i = 0; i < model->inputs.size(); ++i) {
      *next++ = describe(model->inputs[i],
                         model->executor->inputs()[i],
                         NRT_TENSOR_USAGE_INPUT);
    }
    for (size_t i = 0; i < model->outputs.size(); ++i) {
      *next++ = describe(model->outputs[i],
                         model->executor->outputs()[i],
                         NRT_TENSOR_USAGE_OUTPUT);
    }
    *info = array;
    return NRT_SUCCESS;
  });
}

NRT_STATUS nrt_free_model_tensor_info(nrt_tensor_info_array_t* info) {
  if (info == nullptr) {
    return fail(NRT_INVALID, "nrt_free_model_tensor_info: the array is null");
  }
  for (const auto& entry : *info) {
    delete[] entry.shape;
  }
  ::operator delete(info);
  return NRT_SUCCESS;
}

NRT_STATUS nrt_get_model_info(const nrt_model_t* model,
                              nrt_model_info_t* info,
                              size_t size_in,
                              size_t* size_out) {
  if (const auto status = running(__func__)) {
    return status;
  }
  if (const auto status = check_handle(model, __func__)) {
    return status;
  }
  if (info == nullptr || size_out == nullptr || size_in < sizeof(*info)) {
    return fail(NRT_INVALID, "nrt_get_model_info: no room for the result");
  }
  info->vnc = static_cast<uint32_t>(model->core->index);
  *size_out = sizeof(*info);
  return NRT_SUCCESS;
}

NRT_STATUS nrt_get_model_instance_count(nrt_model_t* model, uint32_t* count) {
  if (const auto status = running(__func__)) {
    return status;
  }
  if (const auto status = check_handle(model, __func__)) {
    return status;
  }
  if (count == nullptr) {
    return fail(NRT_INVALID,
                "nrt_get_model_instance_count: the result pointer is null");
  }
  *count = 1;
  return NRT_SUCCESS;
}

}  // namespace neuronx
