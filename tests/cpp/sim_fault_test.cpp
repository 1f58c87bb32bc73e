// SPDX-License-Identifier: Apache-2.0
// Injected faults and how failures are reported.
#include "sim_fixture.h"

namespace neuronx {
namespace {

class Fault : public Running {
 protected:
  void TearDown() override {
    api().nrt_sim_inject("");
    Running::TearDown();
  }
};

TEST_F(Fault, TheNthAllocationFails) {
  ASSERT_EQ(NRT_SUCCESS, api().nrt_sim_inject("allocate:3:4"));
  nrt_tensor_t* made = nullptr;
  const auto allocate = [&] {
    return api().nrt_tensor_allocate(
        NRT_TENSOR_PLACEMENT_DEVICE, 0, 8, "t", &made);
  };
  EXPECT_EQ(NRT_SUCCESS, allocate());
  EXPECT_EQ(NRT_SUCCESS, allocate());
  EXPECT_EQ(NRT_RESOURCE, allocate());
  EXPECT_EQ("injected fault: allocate", last_error());
  EXPECT_EQ(NRT_SUCCESS, allocate());
}

TEST_F(Fault, SeveralMayWait) {
  ASSERT_EQ(NRT_SUCCESS, api().nrt_sim_inject("write:1:5,read:2:6"));
  nrt_tensor_t* a = tensor(8);
  char byte = 0;
  EXPECT_EQ(NRT_TIMEOUT, api().nrt_tensor_write(a, &byte, 0, 1));
  EXPECT_EQ(NRT_SUCCESS, api().nrt_tensor_read(a, &byte, 0, 1));
  EXPECT_EQ(NRT_HW_ERROR, api().nrt_tensor_read(a, &byte, 0, 1));
}

TEST_F(Fault, AnEmptyTextRemovesAll) {
  ASSERT_EQ(NRT_SUCCESS, api().nrt_sim_inject("copy:1:6"));
  ASSERT_EQ(NRT_SUCCESS, api().nrt_sim_inject(""));
  nrt_tensor_t* a = tensor(8);
  EXPECT_EQ(NRT_SUCCESS, api().nrt_tensor_copy(a, 0, a, 0, 8));
}

TEST_F(Fault, MalformedTextIsRefused) {
  for (const char* text : {"execute",
                           "execute:1",
                           "execute:0:4",
                           "execute:1:0",
                           "execute:one:4",
                           "explode:1:4",
                           "execute:1:4:9",
                           ",execute:1:4"}) {
    EXPECT_EQ(NRT_INVALID, api().nrt_sim_inject(text)) << text;
    EXPECT_NE(std::string::npos, last_error().find("kind:nth:status"));
  }
}

TEST_F(Fault, ExecutionsFailWithAnyStatus) {
  nrt_model_t* model = load(add_program(1));
  nrt_tensor_t* a = filled({1});
  nrt_tensor_set_t* in = set({{"input0", a}, {"input1", a}});
  nrt_tensor_set_t* out = set({{"output0", filled({0})}});
  for (const int status : {1003, 1004, 1006, 5, 1201}) {
    const auto text = "execute:1:" + std::to_string(status);
    ASSERT_EQ(NRT_SUCCESS, api().nrt_sim_inject(text.c_str()));
    EXPECT_EQ(status, api().nrt_execute(model, in, out));
    EXPECT_EQ(NRT_SUCCESS, api().nrt_execute(model, in, out));
  }
}

TEST_F(Fault, AnUnrecoverableCoreStaysDead) {
  nrt_model_t* model = load(add_program(1));
  nrt_tensor_t* a = filled({1});
  nrt_tensor_set_t* in = set({{"input0", a}, {"input1", a}});
  nrt_tensor_set_t* out = set({{"output0", filled({0})}});
  ASSERT_EQ(NRT_SUCCESS, api().nrt_sim_inject("execute:1:101"));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(NRT_EXEC_UNIT_UNRECOVERABLE, api().nrt_execute(model, in, out));
  }
  NRT_STATUS status;
  nrta_seq_t sequence;
  EXPECT_EQ(NRT_EXEC_UNIT_UNRECOVERABLE,
            api().nrta_execute_schedule(model, in, out, 0, &status, &sequence));
  api().nrt_close();
  ASSERT_EQ(NRT_SUCCESS, init());
  model = load(add_program(1));
  a = filled({1});
  in = set({{"input0", a}, {"input1", a}});
  out = set({{"output0", filled({0})}});
  EXPECT_EQ(NRT_SUCCESS, api().nrt_execute(model, in, out));
}

TEST(FaultEnvironment, IsReadAtInit) {
  const ScopedEnv scope("TORCH_NEURONX_SIM_FAULT", "load:1:4");
  ASSERT_EQ(NRT_SUCCESS, init());
  const auto program = add_program(1);
  nrt_model_t* model = nullptr;
  EXPECT_EQ(NRT_RESOURCE,
            api().nrt_load(program.data(), program.size(), 0, 1, &model));
  EXPECT_EQ(NRT_SUCCESS,
            api().nrt_load(program.data(), program.size(), 0, 1, &model));
  api().nrt_close();
}

TEST(LastError, IsCutToTheBuffer) {
  ASSERT_EQ(NRT_SUCCESS, init());
  nrt_tensor_set_t* set = nullptr;
  EXPECT_EQ(NRT_INVALID, api().nrt_allocate_tensor_set(nullptr));
  const size_t length = api().nrt_sim_last_error(nullptr, 0);
  EXPECT_EQ(last_error().size(), length);
  char text[8];
  EXPECT_EQ(length, api().nrt_sim_last_error(text, sizeof(text)));
  EXPECT_EQ(last_error().substr(0, 7), text);
  (void)set;
  api().nrt_close();
}

}  // namespace
}  // namespace neuronx
