// SPDX-License-Identifier: Apache-2.0
// The environment variables that describe the simulated host.
#include <memory>

#include "sim_fixture.h"

namespace neuronx {
namespace {

struct Case {
  std::vector<std::pair<const char*, const char*>> environment;
  uint32_t cores;         // visible, 0: malformed
  size_t gibibytes = 24;  // per core
  uint32_t total = 4;
};

std::string describe(const Case& tested) {
  std::string text;
  for (const auto& [name, value] : tested.environment) {
    text += std::string(name) + "=" + value + " ";
  }
  return text;
}

constexpr const char* kVisible = "NEURON_RT_VISIBLE_CORES";
constexpr const char* kNumber = "NEURON_RT_NUM_CORES";
constexpr const char* kConfig = "NEURON_LOGICAL_NC_CONFIG";
constexpr const char* kOldConfig = "NEURON_RT_VIRTUAL_CORE_SIZE";
constexpr const char* kChip = "TORCH_NEURONX_SIM_CHIP";
constexpr const char* kChips = "TORCH_NEURONX_SIM_CHIPS";

const Case kCases[] = {
    {{}, 4},
    {{{kVisible, "0,1"}}, 2},
    {{{kVisible, "0-3"}}, 4},
    {{{kVisible, "2"}}, 1},
    {{{kVisible, "3,0-1"}}, 3},
    {{{kVisible, "1"}, {kNumber, "3"}}, 1},
    {{{kVisible, ""}}, 4},
    {{{kNumber, "2"}}, 2},
    {{{kNumber, "0"}}, 4},
    {{{kConfig, "1"}}, 8, 12, 8},
    {{{kConfig, "2"}}, 4},
    {{{kOldConfig, "1"}}, 8, 12, 8},
    {{{kConfig, "2"}, {kOldConfig, "1"}}, 4},
    {{{kChip, "trn2"}}, 4},
    {{{kChip, "trn3"}}, 4, 36},
    {{{kChip, "trn3"}, {kConfig, "1"}}, 8, 18, 8},
    {{{kChips, "16"}}, 64, 24, 64},
    {{{kChips, "2"}, {kVisible, "4-7"}}, 4, 24, 8},
    {{{kVisible, "4"}}, 0},
    {{{kVisible, "-1"}}, 0},
    {{{kVisible, "0,"}}, 0},
    {{{kVisible, "0,0"}}, 0},
    {{{kVisible, "2-1"}}, 0},
    {{{kVisible, "0-"}}, 0},
    {{{kVisible, "0-1-2"}}, 0},
    {{{kVisible, "zero"}}, 0},
    {{{kVisible, "99999999999999999999"}}, 0},
    {{{kNumber, "5"}}, 0},
    {{{kNumber, "-1"}}, 0},
    {{{kNumber, "two"}}, 0},
    {{{kConfig, "3"}}, 0},
    {{{kConfig, "0"}}, 0},
    {{{kOldConfig, "x"}}, 0},
    {{{kChip, "trn9"}}, 0},
    {{{kChips, "0"}}, 0},
    {{{"TORCH_NEURONX_SIM_STRICT", "maybe"}}, 0},
    {{{"TORCH_NEURONX_SIM_FAULT", "execute:1"}}, 0},
};

class Machine : public testing::TestWithParam<Case> {
 protected:
  Machine() {
    for (const auto& [name, value] : GetParam().environment) {
      scopes_.push_back(std::make_unique<ScopedEnv>(name, value));
    }
  }
  std::vector<std::unique_ptr<ScopedEnv>> scopes_;
};

TEST_P(Machine, IsWhatTheEnvironmentSays) {
  const Case& tested = GetParam();
  SCOPED_TRACE(describe(tested));
  if (tested.cores == 0) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(NRT_INVALID, init());
    const auto log = testing::internal::GetCapturedStderr();
    const auto& [name, value] = tested.environment[0];
    for (const auto& text : {log, last_error()}) {
      EXPECT_NE(std::string::npos, text.find(name)) << text;
      EXPECT_NE(std::string::npos, text.find(value)) << text;
    }
    return;
  }
  uint32_t before = 0;
  EXPECT_EQ(NRT_SUCCESS, api().nrt_get_visible_vnc_count(&before));
  EXPECT_EQ(tested.cores, before);
  ASSERT_EQ(NRT_SUCCESS, init()) << last_error();
  uint32_t count = 0;
  EXPECT_EQ(NRT_SUCCESS, api().nrt_get_visible_vnc_count(&count));
  EXPECT_EQ(tested.cores, count);
  EXPECT_EQ(NRT_SUCCESS, api().nrt_get_total_vnc_count(&count));
  EXPECT_EQ(tested.total, count);
  nrt_vnc_memory_stats_t stats{};
  size_t size = 0;
  EXPECT_EQ(NRT_SUCCESS,
            api().nrt_get_vnc_memory_stats(
                tested.cores - 1, &stats, sizeof(stats), &size));
  EXPECT_EQ(tested.gibibytes << 30, stats.bytes_limit);
  EXPECT_EQ(NRT_INVALID,
            api().nrt_get_vnc_memory_stats(
                tested.cores, &stats, sizeof(stats), &size));
  api().nrt_close();
}

INSTANTIATE_TEST_SUITE_P(Environment, Machine, testing::ValuesIn(kCases));

TEST(MachineCounts, FailWhenTheEnvironmentIsMalformed) {
  const ScopedEnv scope(kVisible, "0-9");
  uint32_t count = 77;
  EXPECT_EQ(NRT_INVALID, api().nrt_get_visible_vnc_count(&count));
  EXPECT_EQ(NRT_INVALID, api().nrt_get_total_nc_count(&count));
  EXPECT_EQ(77u, count);
}

TEST(MachineCounts, AreFixedByInit) {
  ASSERT_EQ(NRT_SUCCESS, init());
  const ScopedEnv scope(kNumber, "1");
  uint32_t count = 0;
  EXPECT_EQ(NRT_SUCCESS, api().nrt_get_visible_vnc_count(&count));
  EXPECT_EQ(4u, count);
  api().nrt_close();
  EXPECT_EQ(NRT_SUCCESS, api().nrt_get_visible_vnc_count(&count));
  EXPECT_EQ(1u, count);
}

}  // namespace
}  // namespace neuronx
