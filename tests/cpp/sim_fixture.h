// SPDX-License-Identifier: Apache-2.0
// What the conformance tests share. They drive a runtime library through its C
// interface only: NRT_CONFORMANCE_LIB, or the simulator of this build.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "common/env.h"
#include "ir/builder.h"
#include "ir/serialize.h"
#include "nrt/runtime.h"

namespace neuronx {

inline const nrt::Runtime& api() {
  static const auto* library = new nrt::Runtime(nrt::load(
      env::text("NRT_CONFORMANCE_LIB", std::string(NEURONX_SIM_LIBRARY))));
  return *library;
}

inline bool strict() {
  return env::flag("TORCH_NEURONX_SIM_STRICT", false);
}

// A misuse fails with `status`, and aborts in strict mode.
#define EXPECT_MISUSE(status, call)                        \
  if (strict()) {                                          \
    EXPECT_DEATH((void)(call), "libnrt_sim \\(strict\\)"); \
  } else {                                                 \
    EXPECT_EQ(status, call);                               \
  }

class ScopedEnv {
 public:
  ScopedEnv(const char* name, const char* value)
      : name_(name), old_(env::text(name)) {
    setenv(name, value, 1);
  }
  ScopedEnv(const ScopedEnv&) = delete;
  ~ScopedEnv() {
    if (old_) {
      setenv(name_, old_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

inline NRT_STATUS init() {
  return api().nrt_init(NRT_FRAMEWORK_TYPE_PYTORCH, "2.13", "");
}

inline std::string last_error() {
  char text[512] = "";
  if (api().nrt_sim_last_error != nullptr) {
    api().nrt_sim_last_error(text, sizeof(text));
  }
  return text;
}

// output0[i] = input0[i] + input1[i] over float32[n].
inline std::string add_program(int64_t n) {
  ir::Builder b("add");
  const auto x = b.parameter({DType::Float32, {n}});
  const auto y = b.parameter({DType::Float32, {n}});
  return ir::serialize(b.finish({b.add(x, y)}));
}

// The same, written over input0.
inline std::string add_in_place_program(int64_t n) {
  ir::Builder b("add_");
  const auto x = b.parameter({DType::Float32, {n}});
  const auto y = b.parameter({DType::Float32, {n}});
  return ir::serialize(b.finish({b.add(x, y)}, {0}));
}

// A running runtime, closed after each test.
class Running : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    ASSERT_EQ(NRT_SUCCESS, init()) << last_error();
  }
  void TearDown() override { api().nrt_close(); }

  nrt_tensor_t* tensor(size_t bytes, int vnc = 0) {
    nrt_tensor_t* made = nullptr;
    EXPECT_EQ(NRT_SUCCESS,
              api().nrt_tensor_allocate(
                  NRT_TENSOR_PLACEMENT_DEVICE, vnc, bytes, "t", &made))
        << last_error();
    return made;
  }

  nrt_tensor_t* filled(const std::vector<float>& values, int vnc = 0) {
    nrt_tensor_t* made = tensor(values.size() * sizeof(float), vnc);
    EXPECT_EQ(NRT_SUCCESS,
              api().nrt_tensor_write(
                  made, values.data(), 0, values.size() * sizeof(float)));
    return made;
  }

  std::vector<float> values(const nrt_tensor_t* tensor) {
    std::vector<float> read(api().nrt_tensor_get_size(tensor) / sizeof(float));
    EXPECT_EQ(NRT_SUCCESS,
              api().nrt_tensor_read(
                  tensor, read.data(), 0, read.size() * sizeof(float)));
    return read;
  }

  nrt_tensor_t* slice(const nrt_tensor_t* source, size_t offset, size_t size) {
    nrt_tensor_t* made = nullptr;
    EXPECT_EQ(NRT_SUCCESS,
              api().nrt_tensor_allocate_slice(source, offset, size, "s", &made))
        << last_error();
    return made;
  }

  nrt_tensor_set_t* set(
      const std::vector<std::pair<const char*, nrt_tensor_t*>>& tensors) {
    nrt_tensor_set_t* made = nullptr;
    EXPECT_EQ(NRT_SUCCESS, api().nrt_allocate_tensor_set(&made));
    for (const auto& [name, tensor] : tensors) {
      EXPECT_EQ(NRT_SUCCESS,
                api().nrt_add_tensor_to_tensor_set(made, name, tensor));
    }
    return made;
  }

  nrt_model_t* load(const std::string& program, int vnc = 0) {
    nrt_model_t* model = nullptr;
    EXPECT_EQ(NRT_SUCCESS,
              api().nrt_load(program.data(), program.size(), vnc, 1, &model))
        << last_error();
    return model;
  }

  size_t used(uint32_t vnc = 0) {
    nrt_vnc_memory_stats_t stats{};
    size_t size = 0;
    EXPECT_EQ(
        NRT_SUCCESS,
        api().nrt_get_vnc_memory_stats(vnc, &stats, sizeof(stats), &size));
    return stats.bytes_used;
  }

  size_t limit(uint32_t vnc = 0) {
    nrt_vnc_memory_stats_t stats{};
    size_t size = 0;
    EXPECT_EQ(
        NRT_SUCCESS,
        api().nrt_get_vnc_memory_stats(vnc, &stats, sizeof(stats), &size));
    return stats.bytes_limit;
  }
};

}  // namespace neuronx
