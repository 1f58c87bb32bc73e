// SPDX-License-Identifier: Apache-2.0
// A program in C++ without Python. examples/cpp/main.cpp is linked into this
// test, its main renamed: what the documentation shows is what runs here.
#include "torch_neuronx.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/native_dropout.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/renorm.h>
#include <ATen/ops/trace.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceType.h>
#include <link.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "eager/decompose.h"
#include "eager/kernel.h"
#include "lowering/lowering.h"
#include "runtime_fixture.h"

int train_example();

namespace neuronx {
namespace {

using eager::FallbackMode;

std::vector<std::string> loaded_libraries() {
  std::vector<std::string> names;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* result) {
        static_cast<std::vector<std::string>*>(result)->push_back(
            info->dlpi_name);
        return 0;
      },
      &names);
  return names;
}

std::string folder_of(const std::string& library) {
  for (const auto& path : loaded_libraries()) {
    if (std::filesystem::path(path).filename() == library) {
      return std::filesystem::canonical(path).parent_path();
    }
  }
  return "not loaded: " + library;
}

eager::OpInfo& info(const char* name) {
  return eager::op_info(
      c10::Dispatcher::singleton().findSchemaOrThrow(name, ""));
}

class Initialize : public runtime::Backend {
 protected:
  void SetUp() override {
    torch_neuronx::initialize();
    Backend::SetUp();
    eager::set_fallback_mode(FallbackMode::Error);
  }
};

// Each in a process of its own, as this one may have a runtime.
TEST(InitializeFirst, NamesTheDeviceAndStartsNothing) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        torch_neuronx::initialize();
        const bool named = at::Device("neuron:1") ==
                           at::Device(c10::DeviceType::PrivateUse1, 1);
        _exit(named && !runtime::initialized() ? 0 : 1);
      },
      testing::ExitedWithCode(0),
      "");
}

TEST(InitializeFirst, ThrowsWhenAnotherBackendHasNamedTheDevice) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        c10::register_privateuse1_backend("other");
        try {
          torch_neuronx::initialize();
        } catch (const c10::Error& error) {
          fprintf(stderr, "%s", error.what_without_backtrace());
          _exit(0);
        }
        _exit(1);
      },
      testing::ExitedWithCode(0),
      "another PyTorch extension has registered the device 'other'");
}

TEST_F(Initialize, MayBeCalledAgainFromAnyThread) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back(&torch_neuronx::initialize);
  }
  for (auto& thread : threads) {
    thread.join();
  }
  const auto x = at::arange(4, at::Device("neuron"));
  EXPECT_TRUE(at::equal(x.add(x).cpu(), at::arange(4).mul(2)));
}

TEST_F(Initialize, TrainsTheExampleOnTheDeviceWithoutPython) {
  EXPECT_EQ(0, train_example());
  for (const auto& path : loaded_libraries()) {
    const auto name = std::filesystem::path(path).filename().string();
    EXPECT_EQ(std::string::npos, name.find("python")) << path;
    EXPECT_FALSE(name.starts_with("_C.")) << path;
  }
}

TEST_F(Initialize, FindsTheSimulatorBesideTheLibrary) {
  EXPECT_EQ(folder_of("libtorch_neuronx.so"), folder_of("libnrt_sim.so"));
}

// Python brings most meta functions; results are inferred without them.
struct Case {
  const char* name;
  std::function<at::Tensor(const at::Device&)> call;
};

TEST_F(Initialize, RunsOperatorsWhoseMetaFunctionsArePythons) {
  const auto grid = [](const at::Device& device) {
    return at::linspace(-2, 2, 24).reshape({4, 6}).to(device);
  };
  const Case cases[] = {
      {"relu", [&](auto& d) { return at::relu(grid(d)); }},
      {"relu_", [&](auto& d) { return grid(d).relu_(); }},
      {"relu of a transpose", [&](auto& d) { return at::relu(grid(d).t()); }},
      {"floor_divide",  // zeros would be no divisors
       [](auto& d) {
         return at::floor_divide(at::arange(8, 16).to(d),
                                 at::arange(1, 9).to(d));
       }},
      {"embedding",  // ones would be out of range
       [&](auto& d) {
         return at::embedding(grid(d).slice(0, 0, 1),
                              at::zeros({3}, at::kLong).to(d));
       }},
      {"native_layer_norm", [&](auto& d) {
         return std::get<0>(at::native_layer_norm(grid(d), {6}, {}, {}, 1e-5));
       }}};
  for (const auto& [name, call] : cases) {
    const auto expected = call(at::kCPU);
    const auto actual = call(at::Device("neuron"));
    EXPECT_EQ(expected.strides(), actual.strides()) << name;
    EXPECT_EQ(expected.scalar_type(), actual.scalar_type()) << name;
    EXPECT_TRUE(at::allclose(expected, actual.cpu())) << name;
  }
}

TEST_F(Initialize, RandomOperatorsLeaveTheCpusGeneratorAlone) {
  auto generator = at::globalContext().defaultGenerator(at::kCPU);
  const auto before = at::Tensor(generator.get_state()).clone();
  const auto x = at::ones({64}, at::Device("neuron"));
  const auto kept = std::get<0>(at::native_dropout(x, 0.5, true)).cpu();
  EXPECT_TRUE(at::equal(before, at::Tensor(generator.get_state())));
  const auto sum = kept.sum().item<float>();
  EXPECT_GT(sum, 0);
  EXPECT_LT(sum, 128);
}

TEST_F(Initialize, RaisesTheCpusErrorForWrongArguments) {
  const auto message = [](const at::Device& device) -> std::string {
    try {
      at::native_layer_norm(at::ones({4, 6}, device), {5}, {}, {}, 1e-5);
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    }
    return "no error";
  };
  EXPECT_NE("no error", message(at::kCPU));
  EXPECT_EQ(message(at::kCPU), message(at::Device("neuron")));
}

TEST_F(Initialize, WarnsOfAFallbackOnce) {
  eager::set_fallback_mode(FallbackMode::Warn);
  ASSERT_FALSE(lowering::has_lowering("aten::trace"));
  const auto x = at::linspace(0, 8, 9).reshape({3, 3});
  const auto on_device = x.to(at::Device("neuron"));
  testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(12, at::trace(on_device).item<float>());
  }
  const std::string said = testing::internal::GetCapturedStderr();
  const std::string warning =
      "[aten::trace] ran on the CPU: it has no lowering, and decompositions "
      "need Python";
  const size_t first = said.find(warning);
  ASSERT_NE(std::string::npos, first) << said;
  EXPECT_EQ(std::string::npos, said.find(warning, first + 1)) << said;
  EXPECT_EQ(2u, info("aten::trace").fallen_back.load());
}

TEST_F(Initialize, RaisesInsteadOfFallingBackWhenAsked) {
  ASSERT_FALSE(lowering::has_lowering("aten::renorm"));
  const auto x = at::ones({2, 2}, at::Device("neuron"));
  try {
    at::renorm(x, 2, 0, 1);
    FAIL() << "renorm ran";
  } catch (const c10::NotImplementedError& error) {
    const std::string text = error.what_without_backtrace();
    EXPECT_NE(std::string::npos, text.find("[aten::renorm]")) << text;
    EXPECT_NE(std::string::npos, text.find("decompositions need Python"))
        << text;
  }
  EXPECT_EQ(4, x.sum().item<float>());
}

// As when a program imports torch later.
TEST_F(Initialize, AsksAgainOnceThereAreDecompositions) {
  eager::set_fallback_mode(FallbackMode::Silent);
  const auto x = at::linspace(-1, 1, 6).reshape({2, 3});
  const auto renormed = [&](double limit) {
    const auto result = at::renorm(x.to(at::Device("neuron")), 2, 0, limit);
    EXPECT_TRUE(at::allclose(at::renorm(x, 2, 0, limit), result.cpu()));
  };
  auto& renorm = info("aten::renorm");
  const auto fallen_back = renorm.fallen_back.load();
  renormed(100);
  EXPECT_EQ(fallen_back + 1, renorm.fallen_back.load());

  // Rows within the limit stay as they are.
  eager::set_decompose_callback(
      [](ir::Builder&,
         const std::string& functional,
         const torch::jit::Stack& arguments,
         const ir::Values& operands) -> std::optional<ir::Values> {
        EXPECT_EQ("aten::renorm", functional);
        return arguments[3].toScalar().toDouble() == 100
                   ? std::optional(operands)
                   : std::nullopt;
      });
  const auto executed = renorm.executed.load();
  renormed(100);
  renormed(100);
  EXPECT_EQ(executed + 2, renorm.executed.load());
  renormed(1);
  EXPECT_EQ(fallen_back + 2, renorm.fallen_back.load());
  eager::set_decompose_callback(nullptr);
}

}  // namespace
}  // namespace neuronx
