// SPDX-License-Identifier: Apache-2.0
// nrt_init, nrt_close, and what the host says about itself.
#include <cstring>

#include "sim_fixture.h"

namespace neuronx {
namespace {

TEST(Lifecycle, CallsBeforeInitAreUninitialized) {
  nrt_tensor_t* tensor = nullptr;
  EXPECT_EQ(NRT_UNINITIALIZED,
            api().nrt_tensor_allocate(
                NRT_TENSOR_PLACEMENT_DEVICE, 0, 64, "t", &tensor));
  nrt_tensor_set_t* set = nullptr;
  EXPECT_EQ(NRT_UNINITIALIZED, api().nrt_allocate_tensor_set(&set));
  nrt_model_t* model = nullptr;
  EXPECT_EQ(NRT_UNINITIALIZED, api().nrt_load("x", 1, 0, 1, &model));
}

TEST(Lifecycle, CountsWorkBeforeInit) {
  uint32_t count = 0;
  EXPECT_EQ(NRT_SUCCESS, api().nrt_get_visible_vnc_count(&count));
  EXPECT_EQ(4u, count);
  EXPECT_EQ(NRT_SUCCESS, api().nrt_get_total_vnc_count(&count));
  EXPECT_EQ(4u, count);
  EXPECT_EQ(NRT_SUCCESS, api().nrt_get_total_nc_count(&count));
  EXPECT_EQ(8u, count);
  EXPECT_EQ(NRT_SUCCESS, api().nrt_get_visible_nc_count(&count));
  EXPECT_EQ(8u, count);
  EXPECT_EQ(NRT_INVALID, api().nrt_get_visible_vnc_count(nullptr));
}

TEST(Lifecycle, InitChecksItsArguments) {
  EXPECT_EQ(NRT_INVALID, api().nrt_init(NRT_FRAMEWORK_TYPE_INVALID, "", ""));
  EXPECT_EQ(NRT_INVALID,
            api().nrt_init(static_cast<nrt_framework_type_t>(6), "", ""));
  EXPECT_EQ(NRT_INVALID,
            api().nrt_init(NRT_FRAMEWORK_TYPE_PYTORCH, nullptr, ""));
  EXPECT_EQ(NRT_INVALID,
            api().nrt_init(NRT_FRAMEWORK_TYPE_PYTORCH, "", nullptr));
}

TEST(Lifecycle, CloseWithoutInitDoesNothing) {
  api().nrt_close();
}

TEST(Lifecycle, InitMayBeRepeated) {
  EXPECT_EQ(NRT_SUCCESS, init());
  EXPECT_EQ(NRT_SUCCESS, init());
  api().nrt_close();
}

TEST(Lifecycle, CallsAfterCloseAreClosed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ASSERT_EQ(NRT_SUCCESS, init());
  nrt_tensor_t* tensor = nullptr;
  ASSERT_EQ(NRT_SUCCESS,
            api().nrt_tensor_allocate(
                NRT_TENSOR_PLACEMENT_DEVICE, 0, 64, "t", &tensor));
  api().nrt_close();
  char byte = 0;
  EXPECT_MISUSE(NRT_CLOSED, api().nrt_tensor_read(tensor, &byte, 0, 1));
  EXPECT_MISUSE(NRT_CLOSED,
                api().nrt_tensor_allocate(
                    NRT_TENSOR_PLACEMENT_DEVICE, 0, 64, "t", &tensor));
}

TEST(Lifecycle, HandlesOfAnEarlierRunAreDead) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ASSERT_EQ(NRT_SUCCESS, init());
  nrt_tensor_t* tensor = nullptr;
  ASSERT_EQ(NRT_SUCCESS,
            api().nrt_tensor_allocate(
                NRT_TENSOR_PLACEMENT_DEVICE, 0, 64, "t", &tensor));
  api().nrt_close();
  ASSERT_EQ(NRT_SUCCESS, init());
  char byte = 0;
  EXPECT_MISUSE(NRT_INVALID_HANDLE, api().nrt_tensor_read(tensor, &byte, 0, 1));
  if (!strict()) {
    api().nrt_tensor_free(&tensor);
    EXPECT_EQ(nullptr, tensor);
  }
  api().nrt_close();
}

TEST(Lifecycle, CloseReturnsAllMemory) {
  ASSERT_EQ(NRT_SUCCESS, init());
  nrt_tensor_t* tensor = nullptr;
  ASSERT_EQ(NRT_SUCCESS,
            api().nrt_tensor_allocate(
                NRT_TENSOR_PLACEMENT_DEVICE, 0, 1 << 20, "t", &tensor));
  api().nrt_close();
  ASSERT_EQ(NRT_SUCCESS, init());
  nrt_vnc_memory_stats_t stats{};
  size_t size = 0;
  EXPECT_EQ(NRT_SUCCESS,
            api().nrt_get_vnc_memory_stats(0, &stats, sizeof(stats), &size));
  EXPECT_EQ(0u, stats.bytes_used);
  api().nrt_close();
}

using Host = Running;

TEST_F(Host, VersionNamesTheSimulator) {
  nrt_version_t version{};
  EXPECT_EQ(NRT_SUCCESS, api().nrt_get_version(&version, sizeof(version)));
  EXPECT_EQ(2u, version.rt_major);
  EXPECT_NE(nullptr, std::strstr(version.rt_detail, "simulator"));
  EXPECT_EQ(NRT_INVALID, api().nrt_get_version(nullptr, sizeof(version)));
  EXPECT_EQ(NRT_INVALID, api().nrt_get_version(&version, 0));
}

TEST_F(Host, AnOlderVersionStructIsFilledAsFarAsItGoes) {
  nrt_version_t version{};
  version.rt_minor = 77;
  EXPECT_EQ(NRT_SUCCESS, api().nrt_get_version(&version, sizeof(uint64_t)));
  EXPECT_EQ(2u, version.rt_major);
  EXPECT_EQ(77u, version.rt_minor);
}

TEST_F(Host, InstanceIsATrn2) {
  nrt_instance_info_t info{};
  EXPECT_EQ(NRT_SUCCESS, api().nrt_get_instance_info(&info, sizeof(info)));
  EXPECT_EQ(uint32_t(NRT_INSTANCE_TRN2), info.family);
  EXPECT_EQ(uint32_t(NRT_INSTANCE_SIZE_3XL), info.size);
  EXPECT_STREQ("trn2", info.arch_name);
  EXPECT_EQ(NRT_INVALID, api().nrt_get_instance_info(&info, 8));
  EXPECT_EQ(NRT_INVALID, api().nrt_get_instance_info(nullptr, sizeof(info)));
}

TEST_F(Host, StatusesHaveNames) {
  EXPECT_STREQ("NRT_SUCCESS", api().nrt_get_status_as_str(NRT_SUCCESS));
  EXPECT_STREQ("NRT_EXEC_OOB", api().nrt_get_status_as_str(NRT_EXEC_OOB));
  EXPECT_STREQ("NRT_UNKNOWN",
               api().nrt_get_status_as_str(static_cast<NRT_STATUS>(77)));
}

TEST_F(Host, MemoryStatsCheckTheirArguments) {
  nrt_vnc_memory_stats_t stats{};
  size_t size = 0;
  const auto call = api().nrt_get_vnc_memory_stats;
  EXPECT_EQ(NRT_SUCCESS, call(3, &stats, sizeof(stats), &size));
  EXPECT_EQ(sizeof(stats), size);
  EXPECT_EQ(NRT_INVALID, call(4, &stats, sizeof(stats), &size));
  EXPECT_EQ(NRT_INVALID, call(0, nullptr, sizeof(stats), &size));
  EXPECT_EQ(NRT_INVALID, call(0, &stats, 0, &size));
  EXPECT_EQ(NRT_INVALID, call(0, &stats, sizeof(stats), nullptr));
}

TEST_F(Host, AWorldOfOneNeedsNoOther) {
  EXPECT_EQ(NRT_SUCCESS, api().nrt_build_global_comm(0, 0, 1));
  EXPECT_EQ(NRT_SUCCESS, api().nrt_barrier(0, 0, 1));
  int sent = 7;
  int received = 0;
  EXPECT_EQ(NRT_SUCCESS,
            api().nrt_all_gather(0, 0, 1, sizeof(int), &sent, &received));
  EXPECT_EQ(7, received);
  EXPECT_EQ(NRT_INVALID, api().nrt_barrier(0, 1, 1));
  EXPECT_EQ(NRT_INVALID, api().nrt_barrier(9, 0, 1));
  EXPECT_EQ(NRT_INVALID, api().nrt_barrier(0, 0, 0));
}

}  // namespace
}  // namespace neuronx
