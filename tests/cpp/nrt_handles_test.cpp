// SPDX-License-Identifier: Apache-2.0
// The process's runtime, its handles and its exceptions, on the simulator.
#include "nrt/handles.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nrt/runtime.h"
#include "nrt/status.h"
#include "sim_fixture.h"

namespace neuronx::nrt {
namespace {

class Handles : public testing::Test {
 protected:
  void SetUp() override {
    setenv("TORCH_NEURONX_LIBNRT", NEURONX_SIM_LIBRARY, 1);
    initialize();
  }
  void TearDown() override { close(); }
};

TEST_F(Handles, AProgramRuns) {
  const auto program = add_program(2);
  Model model = Model::load(program.data(), program.size(), 0);
  ASSERT_EQ(3u, model.tensors().size());
  EXPECT_EQ("output0", model.tensors()[2].name);
  EXPECT_TRUE(model.tensors()[2].output);
  EXPECT_EQ((std::vector<uint32_t>{2}), model.tensors()[2].shape);
  Tensor memory = Tensor::allocate(0, 24);
  const float sent[4] = {1, 2, 3, 4};
  write(memory.get(), sent, 0, sizeof(sent));
  TensorSet inputs, outputs;
  Tensor parts[3];
  for (int i = 0; i < 3; ++i) {
    parts[i] = Tensor::slice(memory.get(), 8 * i, 8);
  }
  inputs.set("input0", parts[0].get());
  inputs.set("input1", parts[1].get());
  outputs.set("output0", parts[2].get());
  model.execute(inputs, outputs);
  float received[2];
  read(memory.get(), received, 16, 8);
  EXPECT_EQ(4, received[0]);
  EXPECT_EQ(6, received[1]);
  copy(memory.get(), 16, memory.get(), 0, 8);
  read(memory.get(), received, 0, 8);
  EXPECT_EQ(6, received[1]);
}

TEST_F(Handles, DescribeTheMachine) {
  EXPECT_EQ(4u, device_count_without_init());
  EXPECT_EQ("", why_no_device());
  const Instance found = instance();
  EXPECT_EQ("Trainium2", found.name);
  EXPECT_EQ("trn2", found.architecture);
  EXPECT_EQ(2, found.logical_core_config);
  EXPECT_TRUE(found.simulated);
  EXPECT_EQ(size_t{24} << 30, memory(3).limit);
}

TEST_F(Handles, MemoryReturns) {
  {
    Tensor a = Tensor::allocate(0, 100);
    EXPECT_EQ(100u, memory(0).used);
    Tensor b = std::move(a);
    EXPECT_FALSE(a);
    EXPECT_EQ(100u, b.size());
    b = Tensor::allocate(0, 50);
    EXPECT_EQ(50u, memory(0).used);
  }
  EXPECT_EQ(0u, memory(0).used);
}

TEST_F(Handles, TryAllocateIsEmptyWhenFull) {
  EXPECT_FALSE(Tensor::try_allocate(0, size_t{25} << 30));
  EXPECT_TRUE(Tensor::try_allocate(0, 64));
  EXPECT_THROW(Tensor::try_allocate(9, 64), InvalidArgument);
  EXPECT_THROW(Tensor::allocate(0, size_t{25} << 30), OutOfMemory);
}

TEST_F(Handles, OutliveTheRuntime) {
  Tensor tensor = Tensor::allocate(0, 64);
  TensorSet set;
  set.set("input0", tensor.get());
  const auto program = add_program(2);
  Model model = Model::load(program.data(), program.size(), 0);
  close();
  EXPECT_FALSE(initialized());
}

TEST_F(Handles, OfAnEarlierRunAreNotReleasedInTheNext) {
  Tensor tensor = Tensor::allocate(0, 64);
  close();
  initialize();
  Tensor other = Tensor::allocate(0, 32);
  tensor = Tensor();
  EXPECT_EQ(32u, memory(0).used);
}

TEST_F(Handles, ErrorsCarryTheRuntimesText) {
  Tensor tensor = Tensor::allocate(0, 64);
  try {
    Tensor::slice(tensor.get(), 60, 8);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_EQ(NRT_INVALID, error.code);
    const std::string text = error.what();
    EXPECT_NE(std::string::npos, text.find("[slice device memory]")) << text;
    EXPECT_NE(std::string::npos, text.find("NRT_INVALID, status 2")) << text;
    EXPECT_NE(std::string::npos, text.find("bytes 60 to 68")) << text;
  }
}

TEST_F(Handles, AForkedChildCannotUseTheDevice) {
  Tensor tensor = Tensor::allocate(0, 64);
  const pid_t child = fork();
  if (child == 0) {
    bool refused = false;
    try {
      initialize();
    } catch (const NotRunning&) {
      refused = true;
    }
    tensor = Tensor();
    _exit(refused && !initialized() ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(0, status);
  EXPECT_TRUE(initialized());
}

template <typename Error>
bool raises(NRT_STATUS status) {
  try {
    raise(status, "work");
  } catch (const Error& error) {
    return error.code == status;
  } catch (...) {
    return false;
  }
}

TEST(Status, HasAnExceptionOfItsKind) {
  EXPECT_TRUE(raises<InvalidArgument>(NRT_INVALID));
  EXPECT_TRUE(raises<InvalidArgument>(NRT_EXEC_BAD_INPUT));
  EXPECT_TRUE(raises<OutOfMemory>(NRT_RESOURCE));
  EXPECT_TRUE(raises<Timeout>(NRT_TIMEOUT));
  EXPECT_TRUE(raises<QueueFull>(NRT_QUEUE_FULL));
  EXPECT_TRUE(raises<NotRunning>(NRT_CLOSED));
  EXPECT_TRUE(raises<LoadError>(NRT_UNSUPPORTED_NEFF_VERSION));
  EXPECT_TRUE(raises<NumericalError>(NRT_EXEC_COMPLETED_WITH_NUM_ERR));
  EXPECT_TRUE(raises<IndexOutOfRange>(NRT_EXEC_OOB));
  EXPECT_TRUE(raises<ExecutionError>(NRT_EXEC_COMPLETED_WITH_ERR));
  EXPECT_TRUE(raises<HardwareError>(NRT_EXEC_UNIT_UNRECOVERABLE));
  EXPECT_TRUE(raises<HardwareError>(NRT_EXEC_HW_ERR_HBM_UE));
  EXPECT_TRUE(raises<NrtError>(static_cast<NRT_STATUS>(77)));
}

TEST(Status, UnknownCodesHaveTexts) {
  EXPECT_EQ("unknown status 77", name(static_cast<NRT_STATUS>(77)));
  EXPECT_FALSE(explain(static_cast<NRT_STATUS>(77)).empty());
  EXPECT_EQ("NRT_RESOURCE", name(NRT_RESOURCE));
  EXPECT_NE(std::string_view::npos,
            explain(NRT_RESOURCE).find("out of memory"));
}

}  // namespace
}  // namespace neuronx::nrt
