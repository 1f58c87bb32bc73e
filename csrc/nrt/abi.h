// SPDX-License-Identifier: Apache-2.0
// The C interface of the Neuron runtime as of SDK 2.28 to 2.32, declared for
// dynamic loading. The functions are in functions.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace neuronx {

extern "C" {

enum NRT_STATUS : int {
  NRT_SUCCESS = 0,
  NRT_FAILURE = 1,
  NRT_INVALID = 2,
  NRT_INVALID_HANDLE = 3,
  NRT_RESOURCE = 4,
  NRT_TIMEOUT = 5,
  NRT_HW_ERROR = 6,
  NRT_QUEUE_FULL = 7,
  NRT_LOAD_NOT_ENOUGH_NC = 9,
  NRT_UNSUPPORTED_NEFF_VERSION = 10,
  NRT_FAIL_HOST_MEM_ALLOC = 11,
  NRT_UNINITIALIZED = 13,
  NRT_CLOSED = 14,
  NRT_QUEUE_EMPTY = 15,
  NRT_EXEC_UNIT_UNRECOVERABLE = 101,
  NRT_EXEC_BAD_INPUT = 1002,
  NRT_EXEC_COMPLETED_WITH_NUM_ERR = 1003,
  NRT_EXEC_COMPLETED_WITH_ERR = 1004,
  NRT_EXEC_NC_BUSY = 1005,
  NRT_EXEC_OOB = 1006,
  NRT_COLL_PENDING = 1100,
  NRT_EXEC_HW_ERR_COLLECTIVES = 1200,
  NRT_EXEC_HW_ERR_HBM_UE = 1201,
  NRT_EXEC_HW_ERR_NC_UE = 1202,
  NRT_EXEC_HW_ERR_DMA_ABORT = 1203,
  NRT_EXEC_SW_NQ_OVERFLOW = 1204,
  NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE = 1205,
  NRT_NETWORK_PROXY_FAILURE = 1206,
};

enum nrt_tensor_placement_t : int {
  NRT_TENSOR_PLACEMENT_DEVICE = 0,
  NRT_TENSOR_PLACEMENT_HOST = 1,
};

enum nrt_framework_type_t : int {
  NRT_FRAMEWORK_TYPE_INVALID = 0,
  NRT_FRAMEWORK_TYPE_NO_FW = 1,
  NRT_FRAMEWORK_TYPE_PYTORCH = 3,
};

enum nrt_instance_family_t : int {
  NRT_INSTANCE_UNKNOWN = 0,
  NRT_INSTANCE_TRN1 = 2,
  NRT_INSTANCE_TRN1N = 3,
  NRT_INSTANCE_TRN2 = 5,
  NRT_INSTANCE_TRN2N = 6,
  NRT_INSTANCE_TRN2P = 8,
  NRT_INSTANCE_TRN2U = 9,
  NRT_INSTANCE_TRN2E = 10,
  NRT_INSTANCE_TRN2EU = 11,
  NRT_INSTANCE_TRN2AC = 12,
  NRT_INSTANCE_TRN2UAC = 13,
  NRT_INSTANCE_TRN3 = 14,
  NRT_INSTANCE_TRN3PDS98 = 15,
};

enum nrt_instance_size_t : int {
  NRT_INSTANCE_SIZE_48XL = 7,
  NRT_INSTANCE_SIZE_3XL = 8,
  NRT_INSTANCE_SIZE_UNKNOWN = 9,
};

enum nrt_dtype_t : int {
  NRT_DTYPE_UNKNOWN = 0x0,
  NRT_DTYPE_UINT64 = 0x1,
  NRT_DTYPE_INT8 = 0x2,
  NRT_DTYPE_UINT8 = 0x3,
  NRT_DTYPE_INT16 = 0x4,
  NRT_DTYPE_UINT16 = 0x5,
  NRT_DTYPE_BFLOAT16 = 0x6,
  NRT_DTYPE_FLOAT16 = 0x7,
  NRT_DTYPE_INT32 = 0x8,
  NRT_DTYPE_UINT32 = 0x9,
  NRT_DTYPE_FLOAT32 = 0xA,
  NRT_DTYPE_FP32R = 0xB,
  NRT_DTYPE_INT64 = 0xC,
  NRT_DTYPE_FP8_E3 = 0xD,
  NRT_DTYPE_FP8_E4 = 0xE,
  NRT_DTYPE_FP8_E5 = 0xF,
};

enum nrt_tensor_usage_t : int {
  NRT_TENSOR_USAGE_INPUT = 0,
  NRT_TENSOR_USAGE_OUTPUT = 1,
};

struct nrt_model_t;
struct nrt_tensor_t;
using nrt_tensor_set_t = void;

struct nrt_instance_info_t {
  uint32_t family;
  uint32_t size;
  char arch_name[16];
  char device_revision[8];
};
static_assert(sizeof(nrt_instance_info_t) == 32);

struct nrt_version_t {
  uint64_t rt_major;
  uint64_t rt_minor;
  uint64_t rt_patch;
  uint64_t rt_maintenance;
  char rt_detail[128];
  char git_hash[64];
};
static_assert(sizeof(nrt_version_t) == 224);

struct nrt_vnc_memory_stats_t {
  size_t bytes_used;
  size_t bytes_limit;
};

struct nrt_tensor_batch_op_t {
  uint64_t offset;
  uint64_t size;
  void* buffer;
};

struct nrt_tensor_batch_t {
  const nrt_tensor_t* tensor;
  const nrt_tensor_batch_op_t* ops;
  uint32_t num_ops;
};

struct nrt_tensor_device_allocation_info_t {
  uint64_t physical_address;
  size_t size;
  int hbm_index;
};

struct nrt_tensor_info_t {
  char name[256];
  nrt_tensor_usage_t usage;
  size_t size;
  nrt_dtype_t dtype;
  uint32_t* shape;
  uint32_t ndim;
};

// Followed by `tensor_count` entries.
struct nrt_tensor_info_array_t {
  uint64_t tensor_count;
  nrt_tensor_info_t* begin() {
    return reinterpret_cast<nrt_tensor_info_t*>(this + 1);
  }
  nrt_tensor_info_t* end() { return begin() + tensor_count; }
};

struct nrt_model_info_t {
  uint32_t vnc;
};

// Execution units of the third generation; the second one numbers them
// differently (see gen2 below).
enum nrta_xu_t : int {
  NRTA_XU_TENSOR_OP = 0,
  NRTA_XU_COMPUTE = 1,
  NRTA_XU_COLLECTIVES = 2,
  NRTA_XU_NUM = 3,
};

// Upper 16 bits: execution unit and queue, opaque. Lower 48: a counter.
using nrta_seq_t = uint64_t;
inline constexpr uint64_t kSequenceMask = (uint64_t{1} << 48) - 1;

// Second generation (runtime 2.30 only).
struct nrta_error_tracker_t;

}  // extern "C"

}  // namespace neuronx
