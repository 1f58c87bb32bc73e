// SPDX-License-Identifier: Apache-2.0
// Launches whose inputs and results share memory, and programs that are
// loaded from a compiler's file.
#include <numeric>
#include <vector>

#include "common/metrics.h"
#include "compiler/executable.h"
#include "ir/builder.h"
#include "ir/serialize.h"
#include "nrt/status.h"
#include "runtime/storage.h"
#include "runtime_fixture.h"

namespace neuronx::runtime {
namespace {

using compiler::Executable;
using metrics::Metric;

constexpr int64_t kSide = 64;
constexpr size_t kCount = kSide * kSide;
using Numbers = std::vector<float>;

// x transposed, over x where `in_place`: wrong if it writes before it reads.
ir::Program transpose(bool in_place, int64_t side = kSide) {
  ir::Builder b("transpose");
  const auto x = b.parameter({DType::Float32, {side, side}});
  return b.finish({b.transpose(x, {1, 0})}, {in_place ? 0 : -1});
}

class BindingsTest : public Backend {
 protected:
  void SetUp() override {
    Backend::SetUp();
    std::iota(numbers_.begin(), numbers_.end(), 0.0f);
    for (size_t i = 0; i < kCount; ++i) {
      transposed_[i] = numbers_[i % kSide * kSide + i / kSide];
    }
    before_ = copies();
  }

  static uint64_t copies() {
    return metrics::counter(Metric::AliasCopies).load();
  }

  at::DataPtr memory(c10::DeviceIndex device, const Numbers& numbers) {
    exchange_stream(default_stream(device));
    at::DataPtr data = allocate(kCount * sizeof(float), device);
    copy_to_device(
        data.get(), numbers.data(), kCount * sizeof(float), device, false);
    return data;
  }

  static Numbers read(c10::DeviceIndex device, const at::DataPtr& data) {
    Numbers numbers(kCount);
    copy_to_host(
        numbers.data(), data.get(), kCount * sizeof(float), device, false);
    return numbers;
  }

  static void launch(Executable& executable,
                     c10::DeviceIndex device,
                     const std::vector<void*>& addresses) {
    Queue& q = queue(default_stream(device));
    q.push([&](Launch& slot) {
      slot.executable = &executable;
      std::ranges::copy(addresses, slot.addresses);
    });
    q.synchronize();
  }

  Numbers numbers_ = Numbers(kCount), transposed_ = Numbers(kCount);
  uint64_t before_ = 0;
};

TEST_F(BindingsTest, ProgramThatOverwritesItsInputIsBoundToOneTensor) {
  const auto program = transpose(true);
  Executable executable("transpose", program, ir::serialize(program), {}, 0);
  const auto& ports = executable.ports(0);
  EXPECT_EQ("input0.must_alias_input", ports.inputs[0].name);
  EXPECT_TRUE(ports.outputs[0].in_place);
  const auto x = memory(0, numbers_);
  launch(executable, 0, {x.get()});
  EXPECT_EQ(transposed_, read(0, x));
  EXPECT_EQ(before_, copies());
}

TEST_F(BindingsTest, FileThatDoesNotOverwriteItsInputGivesTheSameNumbers) {
  const auto program = transpose(true);
  Executable executable("transpose",
                        program,
                        ir::serialize(program),
                        {ir::serialize(transpose(false))},
                        0);
  EXPECT_EQ("input0", executable.ports(0).inputs[0].name);
  EXPECT_FALSE(executable.ports(0).outputs[0].in_place);
  for (int i = 0; i < 2; ++i) {
    const auto x = memory(0, numbers_);
    launch(executable, 0, {x.get()});
    EXPECT_EQ(transposed_, read(0, x));
    launch(executable, 0, {x.get()});
    EXPECT_EQ(numbers_, read(0, x));
  }
  EXPECT_EQ(before_ + 4, copies());
}

TEST_F(BindingsTest, ResultInTheMemoryOfAnInputIsWrittenAfterTheLastRead) {
  const auto program = transpose(false);
  Executable executable("transpose", program, ir::serialize(program), {}, 0);
  const auto x = memory(0, numbers_), y = memory(0, numbers_);
  launch(executable, 0, {x.get(), x.get()});
  EXPECT_EQ(transposed_, read(0, x));
  EXPECT_EQ(before_ + 1, copies());
  launch(executable, 0, {x.get(), y.get()});  // and apart again
  EXPECT_EQ(numbers_, read(0, y));
  EXPECT_EQ(before_ + 1, copies());
}

int reads = 0;

TEST_F(BindingsTest, FileIsReadAgainForAnotherCore) {
  const auto program = transpose(false);
  Executable executable("transpose",
                        program,
                        "not the program",
                        {ir::serialize(program),
                         [](const Executable&) {
                           ++reads;
                           return ir::serialize(transpose(false));
                         }},
                        0);
  for (int i = 0; i < 2; ++i) {
    for (const c10::DeviceIndex device : {0, 1}) {
      const auto x = memory(device, numbers_), y = memory(device, numbers_);
      launch(executable, device, {x.get(), y.get()});
      EXPECT_EQ(transposed_, read(device, y));
      EXPECT_EQ(i == 0 ? device : 1, reads);
    }
  }
  EXPECT_EQ(1, reads);
}

TEST_F(BindingsTest, FileOfOtherSizesIsRefused) {
  const auto program = transpose(false);
  Executable executable("transpose",
                        program,
                        ir::serialize(program),
                        {ir::serialize(transpose(false, kSide / 2))},
                        0);
  try {
    executable.ports(0);
    FAIL() << "taken";
  } catch (const nrt::LoadError& error) {
    EXPECT_STREQ(
        "[transpose] on (float32[64, 64]): the compiled program's \"input0\" "
        "has 4096 bytes, the program's 16384",
        error.what());
  }
}

}  // namespace
}  // namespace neuronx::runtime
