// SPDX-License-Identifier: Apache-2.0
// Tensor sets, loading, execution.
#include <set>
#include <thread>

#include "sim_fixture.h"

namespace neuronx {
namespace {

class Execute : public Running {
 protected:
  void SetUp() override {
    Running::SetUp();
    model = load(add_program(2));
    a = filled({1, 2});
    b = filled({10, 20});
    c = filled({0, 0});
    inputs = set({{"input0", a}, {"input1", b}});
    outputs = set({{"output0", c}});
  }
  NRT_STATUS run() { return api().nrt_execute(model, inputs, outputs); }

  nrt_model_t* model;
  nrt_tensor_t *a, *b, *c;
  nrt_tensor_set_t *inputs, *outputs;
};

TEST_F(Execute, RunsTheProgram) {
  EXPECT_EQ(NRT_SUCCESS, run()) << last_error();
  EXPECT_EQ((std::vector<float>{11, 22}), values(c));
}

TEST_F(Execute, ReplacedTensorsAreUsed) {
  ASSERT_EQ(NRT_SUCCESS, run());
  nrt_tensor_t* other = filled({5, 6});
  nrt_tensor_t* result = filled({0, 0});
  ASSERT_EQ(NRT_SUCCESS,
            api().nrt_add_tensor_to_tensor_set(inputs, "input0", other));
  ASSERT_EQ(NRT_SUCCESS,
            api().nrt_add_tensor_to_tensor_set(outputs, "output0", result));
  EXPECT_EQ(NRT_SUCCESS, run());
  EXPECT_EQ((std::vector<float>{15, 26}), values(result));
  EXPECT_EQ((std::vector<float>{11, 22}), values(c));
  nrt_tensor_t* found = nullptr;
  EXPECT_EQ(NRT_SUCCESS,
            api().nrt_get_tensor_from_tensor_set(inputs, "input0", &found));
  EXPECT_EQ(other, found);
}

TEST_F(Execute, OneSetServesSeveralModels) {
  nrt_model_t* other = load(add_program(2));
  EXPECT_EQ(NRT_SUCCESS, run());
  EXPECT_EQ(NRT_SUCCESS, api().nrt_execute(other, inputs, outputs));
  EXPECT_EQ(NRT_SUCCESS, run());
  EXPECT_EQ(NRT_SUCCESS, api().nrt_execute(model, inputs, outputs));
}

TEST_F(Execute, ExtraTensorsAreIgnored) {
  api().nrt_add_tensor_to_tensor_set(inputs, "unknown", c);
  EXPECT_EQ(NRT_SUCCESS, run());
}

TEST_F(Execute, AMissingTensorIsABadInput) {
  nrt_tensor_set_t* one = set({{"input0", a}});
  EXPECT_EQ(NRT_EXEC_BAD_INPUT, api().nrt_execute(model, one, outputs));
  EXPECT_NE(std::string::npos, last_error().find("input1"));
  EXPECT_EQ(NRT_EXEC_BAD_INPUT, api().nrt_execute(model, inputs, set({})));
}

TEST_F(Execute, ATensorOfAnotherSizeIsABadInput) {
  nrt_tensor_t* small = filled({1});
  ASSERT_EQ(NRT_SUCCESS, run());
  api().nrt_add_tensor_to_tensor_set(inputs, "input1", small);
  EXPECT_MISUSE(NRT_EXEC_BAD_INPUT, run());
}

TEST_F(Execute, ATensorOfAnotherCoreIsABadInput) {
  nrt_tensor_t* far = filled({1, 2}, 1);
  api().nrt_add_tensor_to_tensor_set(inputs, "input1", far);
  EXPECT_EQ(NRT_EXEC_BAD_INPUT, run());
  EXPECT_NE(std::string::npos, last_error().find("core 1"));
}

TEST_F(Execute, ATensorWithoutMemoryIsABadInput) {
  nrt_tensor_t* empty = nullptr;
  ASSERT_EQ(NRT_SUCCESS, api().nrt_tensor_allocate_empty("e", &empty));
  api().nrt_add_tensor_to_tensor_set(inputs, "input1", empty);
  EXPECT_EQ(NRT_EXEC_BAD_INPUT, run());
}

TEST_F(Execute, ChecksItsArguments) {
  EXPECT_EQ(NRT_INVALID, api().nrt_execute(nullptr, inputs, outputs));
  EXPECT_EQ(NRT_INVALID, api().nrt_execute(model, nullptr, outputs));
  EXPECT_EQ(NRT_INVALID, api().nrt_execute(model, inputs, nullptr));
  EXPECT_EQ(NRT_INVALID, api().nrt_execute_repeat(model, inputs, outputs, 0));
}

TEST_F(Execute, SetsCheckTheirArguments) {
  const auto add = api().nrt_add_tensor_to_tensor_set;
  const auto get = api().nrt_get_tensor_from_tensor_set;
  nrt_tensor_t* found = nullptr;
  EXPECT_EQ(NRT_INVALID, add(nullptr, "x", a));
  EXPECT_EQ(NRT_INVALID, add(inputs, nullptr, a));
  EXPECT_EQ(NRT_INVALID, add(inputs, "", a));
  EXPECT_EQ(NRT_INVALID, add(inputs, "x", nullptr));
  EXPECT_EQ(NRT_INVALID, get(inputs, "x", &found));
  EXPECT_EQ(NRT_INVALID, get(inputs, nullptr, &found));
  EXPECT_EQ(NRT_INVALID, get(inputs, "input0", nullptr));
  EXPECT_EQ(NRT_INVALID, api().nrt_allocate_tensor_set(nullptr));
  nrt_tensor_set_t* none = nullptr;
  api().nrt_destroy_tensor_set(&none);
  api().nrt_destroy_tensor_set(nullptr);
}

TEST_F(Execute, ManyNamesInAnyOrder) {
  nrt_tensor_set_t* many = set({});
  std::vector<nrt_tensor_t*> tensors;
  for (int i = 40; i >= 0; --i) {
    tensors.push_back(filled({float(i)}));
    const auto name = "input" + std::to_string(i);
    ASSERT_EQ(
        NRT_SUCCESS,
        api().nrt_add_tensor_to_tensor_set(many, name.c_str(), tensors.back()));
  }
  for (int i = 0; i <= 40; ++i) {
    nrt_tensor_t* found = nullptr;
    const auto name = "input" + std::to_string(i);
    ASSERT_EQ(NRT_SUCCESS,
              api().nrt_get_tensor_from_tensor_set(many, name.c_str(), &found));
    EXPECT_EQ(tensors[40 - i], found);
  }
}

TEST_F(Execute, CompletionsAreCounted) {
  const auto check = api().nrt_tensor_check_output_completion;
  EXPECT_EQ(NRT_TIMEOUT, check(c, 0, 1));
  EXPECT_EQ(NRT_SUCCESS, api().nrt_execute_repeat(model, inputs, outputs, 3));
  EXPECT_EQ(NRT_SUCCESS, check(c, 0, 3));
  EXPECT_EQ(NRT_TIMEOUT, check(c, 1000, 4));
  EXPECT_EQ(NRT_TIMEOUT, check(a, 0, 1)) << "an input is not written";
  EXPECT_EQ(NRT_SUCCESS, api().nrt_tensor_reset_output_completion(c));
  EXPECT_EQ(NRT_TIMEOUT, check(c, 0, 1));
  std::thread later([this] { run(); });
  EXPECT_EQ(NRT_SUCCESS, check(c, -1, 1));
  later.join();
}

TEST_F(Execute, AnAliasedResultIsItsInput) {
  nrt_model_t* in_place = load(add_in_place_program(2));
  nrt_tensor_set_t* same = set({{"output0", a}});
  EXPECT_EQ(NRT_EXEC_BAD_INPUT, api().nrt_execute(in_place, inputs, outputs));
  EXPECT_EQ(NRT_SUCCESS, api().nrt_execute(in_place, inputs, same))
      << last_error();
  EXPECT_EQ((std::vector<float>{11, 22}), values(a));
  nrt_tensor_set_t* named =
      set({{"input0.must_alias_input", a}, {"input1", b}});
  EXPECT_EQ(NRT_SUCCESS, api().nrt_execute(in_place, named, same));
  EXPECT_EQ((std::vector<float>{21, 42}), values(a));
}

TEST_F(Execute, ModelInfoNamesTensors) {
  nrt_model_t* in_place = load(add_in_place_program(3));
  nrt_tensor_info_array_t* info = nullptr;
  ASSERT_EQ(NRT_SUCCESS, api().nrt_get_model_tensor_info(in_place, &info));
  ASSERT_EQ(3u, info->tensor_count);
  const auto* entry = info->begin();
  EXPECT_STREQ("input0.must_alias_input", entry[0].name);
  EXPECT_STREQ("input1", entry[1].name);
  EXPECT_STREQ("output0", entry[2].name);
  EXPECT_EQ(NRT_TENSOR_USAGE_INPUT, entry[1].usage);
  EXPECT_EQ(NRT_TENSOR_USAGE_OUTPUT, entry[2].usage);
  EXPECT_EQ(12u, entry[2].size);
  EXPECT_EQ(NRT_DTYPE_FLOAT32, entry[2].dtype);
  ASSERT_EQ(1u, entry[2].ndim);
  EXPECT_EQ(3u, entry[2].shape[0]);
  EXPECT_EQ(NRT_SUCCESS, api().nrt_free_model_tensor_info(info));
  nrt_model_info_t model_info{77};
  size_t size = 0;
  EXPECT_EQ(NRT_SUCCESS,
            api().nrt_get_model_info(
                in_place, &model_info, sizeof(model_info), &size));
  EXPECT_EQ(0u, model_info.vnc);
  EXPECT_EQ(sizeof(model_info), size);
  EXPECT_EQ(NRT_INVALID, api().nrt_get_model_tensor_info(in_place, nullptr));
  EXPECT_EQ(NRT_INVALID, api().nrt_free_model_tensor_info(nullptr));
}

TEST_F(Execute, LoadChecksItsArguments) {
  const auto program = add_program(2);
  nrt_model_t* loaded = nullptr;
  const auto call = [&](const void* data, size_t size, int vnc, int count) {
    return api().nrt_load(data, size, vnc, count, &loaded);
  };
  EXPECT_EQ(NRT_INVALID, call(nullptr, 5, 0, 1));
  EXPECT_EQ(NRT_INVALID, call(program.data(), 0, 0, 1));
  EXPECT_EQ(NRT_INVALID, call(program.data(), program.size(), -2, 1));
  EXPECT_EQ(NRT_INVALID, call(program.data(), program.size(), 0, 2));
  EXPECT_EQ(NRT_LOAD_NOT_ENOUGH_NC, call(program.data(), program.size(), 4, 1));
  EXPECT_EQ(NRT_UNSUPPORTED_NEFF_VERSION, call("garbage", 7, 0, 1));
  EXPECT_EQ(NRT_UNSUPPORTED_NEFF_VERSION,
            call(program.data(), program.size() - 1, 0, 1));
  EXPECT_EQ(NRT_INVALID,
            api().nrt_load(program.data(), program.size(), 0, 1, nullptr));
  EXPECT_EQ(nullptr, loaded);
  EXPECT_EQ(NRT_SUCCESS, call(program.data(), program.size(), 0, -1));
}

TEST_F(Execute, LoadTakesTheFirstFreeCore) {
  std::set<uint32_t> cores;
  for (int i = 0; i < 3; ++i) {
    nrt_model_t* loaded = load(add_program(2), -1);
    nrt_model_info_t info{};
    size_t size = 0;
    api().nrt_get_model_info(loaded, &info, sizeof(info), &size);
    cores.insert(info.vnc);
  }
  EXPECT_EQ((std::set<uint32_t>{1, 2, 3}), cores);
}

TEST_F(Execute, CollectivesOfOneParticipantLoad) {
  const auto program = add_program(2);
  nrt_model_t* loaded = nullptr;
  const auto call = api().nrt_load_collectives;
  EXPECT_EQ(NRT_SUCCESS,
            call(program.data(), program.size(), 0, 1, 0, 1, &loaded));
  EXPECT_EQ(NRT_SUCCESS, api().nrt_execute(loaded, inputs, outputs));
  EXPECT_EQ(NRT_INVALID,
            call(program.data(), program.size(), 0, 1, 1, 1, &loaded));
}

TEST_F(Execute, UnloadGivesMemoryBack) {
  const size_t before = used();
  nrt_model_t* other = load(add_program(2));
  EXPECT_GT(used(), before);
  EXPECT_EQ(NRT_SUCCESS, api().nrt_unload(other));
  EXPECT_EQ(before, used());
  EXPECT_EQ(NRT_INVALID, api().nrt_unload(nullptr));
}

TEST_F(Execute, AnEmptyParameterNeedsNoTensor) {
  nrt_model_t* empty = load(add_program(0));
  EXPECT_EQ(NRT_SUCCESS, api().nrt_execute(empty, set({}), set({})))
      << last_error();
}

TEST_F(Execute, OneProgramRunsAtATime) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 2000;
  nrt_model_t* in_place = load(add_in_place_program(4));
  nrt_tensor_t* total = filled({0, 0, 0, 0});
  nrt_tensor_t* one = filled({1, 1, 1, 1});
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    nrt_tensor_set_t* in = set({{"input0", total}, {"input1", one}});
    nrt_tensor_set_t* out = set({{"output0", total}});
    threads.emplace_back([=] {
      for (int n = 0; n < kRounds; ++n) {
        ASSERT_EQ(NRT_SUCCESS, api().nrt_execute(in_place, in, out));
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(float(kThreads * kRounds), values(total)[3]);
}

}  // namespace
}  // namespace neuronx
