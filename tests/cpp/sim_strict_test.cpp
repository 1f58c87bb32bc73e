// SPDX-License-Identifier: Apache-2.0
// Strict mode: what hardware would corrupt silently ends the process.
#include <cmath>
#include <csignal>
#include <cstring>

#include "sim_fixture.h"

namespace neuronx {
namespace {

class Strict : public Running {
 protected:
  ScopedEnv strict_{"TORCH_NEURONX_SIM_STRICT", "1"};
  char byte_ = 0;
};

TEST_F(Strict, TheHostCannotTouchDeviceMemory) {
  auto* address =
      static_cast<volatile char*>(api().nrt_tensor_get_va(tensor(64)));
  EXPECT_EXIT((void)*address, testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(*address = 1, testing::KilledBySignal(SIGSEGV), "");
}

TEST_F(Strict, FreshMemoryIsPoisoned) {
  for (size_t size : {64, 1 << 20}) {
    for (const float value : values(tensor(size))) {
      ASSERT_TRUE(std::isnan(value));
    }
  }
}

TEST_F(Strict, AddressesAreNotReusedSoon) {
  nrt_tensor_t* first = tensor(64);
  void* address = api().nrt_tensor_get_va(first);
  api().nrt_tensor_free(&first);
  EXPECT_NE(address, api().nrt_tensor_get_va(tensor(64)));
}

TEST_F(Strict, ReadsPastTheEndAbort) {
  nrt_tensor_t* a = tensor(4);
  EXPECT_DEATH(api().nrt_tensor_read(a, &byte_, 4, 1), "past the end");
  EXPECT_DEATH(api().nrt_tensor_write(a, &byte_, 5, 0), "past the end");
}

TEST_F(Strict, UseAfterFreeAborts) {
  nrt_tensor_t* a = tensor(64);
  nrt_tensor_t* kept = a;
  api().nrt_tensor_free(&a);
  EXPECT_DEATH(api().nrt_tensor_read(kept, &byte_, 0, 1), "freed");
  EXPECT_DEATH(api().nrt_tensor_get_size(kept), "freed");
  EXPECT_DEATH(api().nrt_tensor_free(&kept), "freed");
}

TEST_F(Strict, UseAfterCloseAborts) {
  nrt_tensor_t* a = tensor(64);
  nrt_tensor_set_t* s = set({});
  api().nrt_close();
  EXPECT_DEATH(api().nrt_tensor_read(a, &byte_, 0, 1), "after nrt_close");
  EXPECT_DEATH(api().nrt_tensor_free(&a), "after nrt_close");
  EXPECT_DEATH(api().nrt_destroy_tensor_set(&s), "after nrt_close");
}

TEST_F(Strict, AFreedTensorInASetAborts) {
  nrt_model_t* model = load(add_program(1));
  nrt_tensor_t* a = filled({1});
  nrt_tensor_t* b = filled({1});
  nrt_tensor_set_t* in = set({{"input0", a}, {"input1", b}});
  nrt_tensor_set_t* out = set({{"output0", filled({0})}});
  ASSERT_EQ(NRT_SUCCESS, api().nrt_execute(model, in, out));
  api().nrt_tensor_free(&b);
  EXPECT_DEATH(api().nrt_execute(model, in, out), "\"input1\".*freed");
}

TEST_F(Strict, AFreedTensorInAFreshSetAborts) {
  nrt_model_t* model = load(add_program(1));
  nrt_tensor_t* a = filled({1});
  nrt_tensor_set_t* in = set({{"input0", a}, {"input1", a}});
  api().nrt_tensor_free(&a);
  EXPECT_DEATH(api().nrt_execute(model, in, set({})), "freed");
}

TEST_F(Strict, ALargerTensorThanTheModelsAborts) {
  nrt_model_t* model = load(add_program(1));
  nrt_tensor_t* a = filled({1});
  nrt_tensor_t* large = filled({1, 2});
  nrt_tensor_set_t* in = set({{"input0", a}, {"input1", large}});
  nrt_tensor_set_t* out = set({{"output0", filled({0})}});
  EXPECT_DEATH(api().nrt_execute(model, in, out), "8 bytes.*has 4");
}

TEST_F(Strict, AnUnloadedModelAborts) {
  nrt_model_t* model = load(add_program(1));
  ASSERT_EQ(NRT_SUCCESS, api().nrt_unload(model));
  EXPECT_DEATH(api().nrt_execute(model, set({}), set({})), "model is freed");
}

TEST_F(Strict, FreeingATensorInFlightAborts) {
  constexpr size_t kBytes = 64 << 20;
  nrt_tensor_t* a = tensor(kBytes);
  nrt_tensor_t* b = tensor(kBytes);
  const auto copy_and_free = [&] {
    NRT_STATUS status;
    nrta_seq_t sequence;
    for (int i = 0; i < 4; ++i) {
      api().nrta_tensor_copy(a, 0, b, 0, kBytes, 0, 0, &status, &sequence);
    }
    api().nrt_tensor_free(&b);
  };
  EXPECT_DEATH(copy_and_free(), "has not completed");
}

TEST_F(Strict, ProgramsStillRun) {
  nrt_model_t* model = load(add_program(2));
  nrt_tensor_t* whole = filled({1, 2, 3, 4, 0, 0});
  nrt_tensor_set_t* in =
      set({{"input0", slice(whole, 0, 8)}, {"input1", slice(whole, 8, 8)}});
  nrt_tensor_set_t* out = set({{"output0", slice(whole, 16, 8)}});
  EXPECT_EQ(NRT_SUCCESS, api().nrt_execute(model, in, out)) << last_error();
  EXPECT_EQ((std::vector<float>{1, 2, 3, 4, 4, 6}), values(whole));
}

TEST_F(Strict, ManySmallTensorsFit) {
  std::vector<nrt_tensor_t*> tensors;
  for (int i = 0; i < 100000; ++i) {
    tensors.push_back(tensor(8));
    ASSERT_NE(nullptr, tensors.back());
  }
  for (auto*& made : tensors) {
    api().nrt_tensor_free(&made);
  }
  EXPECT_EQ(0u, used());
}

}  // namespace
}  // namespace neuronx
