// SPDX-License-Identifier: Apache-2.0
// The runtime's functions as tables: F(result, name, (parameters)).
#pragma once

#include "nrt/abi.h"

// A library is usable with the REQUIRED ones; older runtimes may lack others.
#define NEURONX_NRT_REQUIRED(F)                                              \
  F(NRT_STATUS,                                                              \
    nrt_init,                                                                \
    (nrt_framework_type_t framework, const char* fw, const char* fal))       \
  F(void, nrt_close, ())                                                     \
  F(NRT_STATUS, nrt_get_version, (nrt_version_t * version, size_t size))     \
  F(NRT_STATUS, nrt_get_visible_vnc_count, (uint32_t* count))                \
  F(NRT_STATUS,                                                              \
    nrt_load,                                                                \
    (const void* neff,                                                       \
     size_t size,                                                            \
     int32_t vnc,                                                            \
     int32_t vnc_count,                                                      \
     nrt_model_t** model))                                                   \
  F(NRT_STATUS, nrt_unload, (nrt_model_t * model))                           \
  F(NRT_STATUS,                                                              \
    nrt_execute,                                                             \
    (nrt_model_t * model,                                                    \
     const nrt_tensor_set_t* inputs,                                         \
     nrt_tensor_set_t* outputs))                                             \
  F(NRT_STATUS,                                                              \
    nrt_tensor_allocate,                                                     \
    (nrt_tensor_placement_t placement,                                       \
     int vnc,                                                                \
     size_t size,                                                            \
     const char* name,                                                       \
     nrt_tensor_t** tensor))                                                 \
  F(void, nrt_tensor_free, (nrt_tensor_t * *tensor))                         \
  F(NRT_STATUS,                                                              \
    nrt_tensor_allocate_slice,                                               \
    (const nrt_tensor_t* source,                                             \
     size_t offset,                                                          \
     size_t size,                                                            \
     const char* name,                                                       \
     nrt_tensor_t** slice))                                                  \
  F(NRT_STATUS,                                                              \
    nrt_tensor_read,                                                         \
    (const nrt_tensor_t* tensor, void* buffer, size_t offset, size_t size))  \
  F(NRT_STATUS,                                                              \
    nrt_tensor_write,                                                        \
    (nrt_tensor_t * tensor, const void* buffer, size_t offset, size_t size)) \
  F(NRT_STATUS,                                                              \
    nrt_tensor_copy,                                                         \
    (const nrt_tensor_t* source,                                             \
     size_t source_offset,                                                   \
     nrt_tensor_t* destination,                                              \
     size_t destination_offset,                                              \
     size_t size))                                                           \
  F(size_t, nrt_tensor_get_size, (const nrt_tensor_t* tensor))               \
  F(void*, nrt_tensor_get_va, (const nrt_tensor_t* tensor))                  \
  F(NRT_STATUS, nrt_allocate_tensor_set, (nrt_tensor_set_t * *set))          \
  F(void, nrt_destroy_tensor_set, (nrt_tensor_set_t * *set))                 \
  F(NRT_STATUS,                                                              \
    nrt_add_tensor_to_tensor_set,                                            \
    (nrt_tensor_set_t * set, const char* name, nrt_tensor_t* tensor))

#define NEURONX_NRT_OPTIONAL(F)                                               \
  F(const char*, nrt_get_status_as_str, (NRT_STATUS status))                  \
  F(NRT_STATUS,                                                               \
    nrt_get_instance_info,                                                    \
    (nrt_instance_info_t * info, size_t size))                                \
  F(NRT_STATUS, nrt_get_total_nc_count, (uint32_t* count))                    \
  F(NRT_STATUS, nrt_get_visible_nc_count, (uint32_t* count))                  \
  F(NRT_STATUS, nrt_get_total_vnc_count, (uint32_t* count))                   \
  F(NRT_STATUS,                                                               \
    nrt_get_vnc_memory_stats,                                                 \
    (uint32_t vnc,                                                            \
     nrt_vnc_memory_stats_t* stats,                                           \
     size_t size_in,                                                          \
     size_t* size_out))                                                       \
  F(NRT_STATUS,                                                               \
    nrt_host_device_id_get,                                                   \
    (int neuron_device, uint32_t* host_device_id))                            \
  F(NRT_STATUS,                                                               \
    nrt_host_device_id_rid_map_get,                                           \
    (uint32_t* count, uint32_t* map))                                         \
  F(NRT_STATUS,                                                               \
    nrt_load_collectives,                                                     \
    (const void* neff,                                                        \
     size_t size,                                                             \
     int32_t vnc,                                                             \
     int32_t vnc_count,                                                       \
     uint32_t ctx_device_id,                                                  \
     uint32_t ctx_device_count,                                               \
     nrt_model_t** model))                                                    \
  F(NRT_STATUS,                                                               \
    nrt_execute_repeat,                                                       \
    (nrt_model_t * model,                                                     \
     const nrt_tensor_set_t* inputs,                                          \
     nrt_tensor_set_t* outputs,                                               \
     int count))                                                              \
  F(NRT_STATUS,                                                               \
    nrt_build_global_comm,                                                    \
    (int32_t vnc, uint32_t device_id, uint32_t device_count))                 \
  F(NRT_STATUS,                                                               \
    nrt_tensor_allocate_empty,                                                \
    (const char* name, nrt_tensor_t** tensor))                                \
  F(NRT_STATUS,                                                               \
    nrt_tensor_attach_buffer,                                                 \
    (nrt_tensor_t * tensor, void* buffer, size_t size))                       \
  F(NRT_STATUS,                                                               \
    nrt_tensor_read_batch,                                                    \
    (const nrt_tensor_batch_t* batches, uint64_t count, bool unsafe))         \
  F(NRT_STATUS,                                                               \
    nrt_tensor_write_batch,                                                   \
    (const nrt_tensor_batch_t* batches, uint64_t count, bool unsafe))         \
  F(NRT_STATUS,                                                               \
    nrt_tensor_memset,                                                        \
    (nrt_tensor_t * tensor, uint64_t offset, int value, size_t size))         \
  F(NRT_STATUS,                                                               \
    nrt_tensor_get_device_allocation_info,                                    \
    (const nrt_tensor_t* tensor, nrt_tensor_device_allocation_info_t* info))  \
  F(NRT_STATUS,                                                               \
    nrt_tensor_check_output_completion,                                       \
    (const nrt_tensor_t* tensor, int64_t timeout_us, uint64_t count))         \
  F(NRT_STATUS, nrt_tensor_reset_output_completion, (nrt_tensor_t * tensor))  \
  F(NRT_STATUS,                                                               \
    nrt_get_tensor_from_tensor_set,                                           \
    (nrt_tensor_set_t * set, const char* name, nrt_tensor_t** tensor))        \
  F(NRT_STATUS,                                                               \
    nrt_get_model_tensor_info,                                                \
    (nrt_model_t * model, nrt_tensor_info_array_t * *info))                   \
  F(NRT_STATUS, nrt_free_model_tensor_info, (nrt_tensor_info_array_t * info)) \
  F(NRT_STATUS,                                                               \
    nrt_get_model_info,                                                       \
    (const nrt_model_t* model,                                                \
     nrt_model_info_t* info,                                                  \
     size_t size_in,                                                          \
     size_t* size_out))                                                       \
  F(NRT_STATUS,                                                               \
    nrt_get_model_instance_count,                                             \
    (nrt_model_t * model, uint32_t* count))                                   \
  F(NRT_STATUS, nrt_async_drain_queued_execs, (int32_t vnc))                  \
  F(NRT_STATUS,                                                               \
    nrt_barrier,                                                              \
    (int32_t vnc, uint32_t device_id, uint32_t device_count))                 \
  F(NRT_STATUS,                                                               \
    nrt_all_gather,                                                           \
    (int32_t vnc,                                                             \
     uint32_t device_id,                                                      \
     uint32_t device_count,                                                   \
     uint32_t bytes_per_rank,                                                 \
     void* input,                                                             \
     void* output))

// Extensions of the simulator. last_error: text of this thread's last failed
// call, cut to `size`; returns its whole length. inject: see sim/fault.h.
#define NEURONX_NRT_SIMULATOR(F)                             \
  F(size_t, nrt_sim_last_error, (char* buffer, size_t size)) \
  F(NRT_STATUS, nrt_sim_inject, (const char* faults))

// Third generation, runtime >= 2.31.24, symbol version NRT_3.0.0. `status` is
// written at completion and must stay in place until then.
#define NEURONX_NRTA_GEN3(F)                                               \
  F(NRT_STATUS,                                                            \
    nrta_tensor_write,                                                     \
    (nrt_tensor_t * tensor,                                                \
     const void* buffer,                                                   \
     uint64_t offset,                                                      \
     uint64_t size,                                                        \
     int lnc_idx,                                                          \
     int queue,                                                            \
     NRT_STATUS* status,                                                   \
     nrta_seq_t* sequence))                                                \
  F(NRT_STATUS,                                                            \
    nrta_tensor_read,                                                      \
    (void* buffer,                                                         \
     nrt_tensor_t* tensor,                                                 \
     uint64_t offset,                                                      \
     uint64_t size,                                                        \
     int lnc_idx,                                                          \
     int queue,                                                            \
     NRT_STATUS* status,                                                   \
     nrta_seq_t* sequence))                                                \
  F(NRT_STATUS,                                                            \
    nrta_tensor_copy,                                                      \
    (nrt_tensor_t * source,                                                \
     uint64_t source_offset,                                               \
     nrt_tensor_t* destination,                                            \
     uint64_t destination_offset,                                          \
     uint64_t size,                                                        \
     int lnc_idx,                                                          \
     int queue,                                                            \
     NRT_STATUS* status,                                                   \
     nrta_seq_t* sequence))                                                \
  F(NRT_STATUS,                                                            \
    nrta_execute_schedule,                                                 \
    (nrt_model_t * model,                                                  \
     const nrt_tensor_set_t* inputs,                                       \
     nrt_tensor_set_t* outputs,                                            \
     int queue,                                                            \
     NRT_STATUS* status,                                                   \
     nrta_seq_t* sequence))                                                \
  F(NRT_STATUS, nrta_is_completed, (nrta_seq_t sequence, bool* completed)) \
  F(NRT_STATUS,                                                            \
    nrta_get_sequence,                                                     \
    (uint32_t lnc, nrta_xu_t xu, int queue, nrta_seq_t* last_completed))

// Runtime >= 2.32. `fd` is an eventfd of the caller's, -1 deregisters.
#define NEURONX_NRTA_EVENTS(F)             \
  F(NRT_STATUS,                            \
    nrta_event_register_seq_id_completion, \
    (nrta_seq_t sequence, int fd))         \
  F(NRT_STATUS,                            \
    nrta_event_register_xu_completion,     \
    (int lnc, nrta_xu_t xu, int queue, int fd))
