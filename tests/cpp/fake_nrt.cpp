// SPDX-License-Identifier: Apache-2.0
// A runtime library that does nothing, for the loader's tests. FAKE_ASYNC is
// 0, 2 or 3; FAKE_INCOMPLETE leaves two required functions out.
#define nrt_get_version fake_get_version
#ifdef FAKE_INCOMPLETE
#define nrt_execute fake_execute
#define nrt_unload fake_unload
#endif

#include "nrt/functions.h"

namespace neuronx {

template <typename Result>
Result zero() {
  return Result();
}

#define FAKE(result, name, parameters)                                       \
  extern "C" __attribute__((visibility("default"))) result name parameters { \
    return zero<result>();                                                   \
  }

NEURONX_NRT_REQUIRED(FAKE)

#undef nrt_get_version
extern "C" __attribute__((visibility("default"))) NRT_STATUS
nrt_get_version(nrt_version_t* version, size_t) {
  version->rt_major = 2;
  version->rt_minor = FAKE_ASYNC == 2 ? 30 : 31;
  return NRT_SUCCESS;
}

#if FAKE_ASYNC == 3
NEURONX_NRTA_GEN3(FAKE)
#elif FAKE_ASYNC == 2
FAKE(NRT_STATUS, nrta_error_tracker_create, (void** tracker))
FAKE(NRT_STATUS, nrta_execute_schedule, (void* model))
#endif

}  // namespace neuronx
