// SPDX-License-Identifier: Apache-2.0
// Tensors: allocation, accounting, slices, transfers, copies.
#include <chrono>
#include <cstring>
#include <limits>
#include <thread>

#include "sim_fixture.h"

namespace neuronx {
namespace {

using Tensor = Running;
constexpr size_t kHuge = std::numeric_limits<size_t>::max();

TEST_F(Tensor, AllocateChecksItsArguments) {
  nrt_tensor_t* made = nullptr;
  const auto call = api().nrt_tensor_allocate;
  EXPECT_EQ(NRT_INVALID, call(NRT_TENSOR_PLACEMENT_DEVICE, 4, 64, "t", &made));
  EXPECT_EQ(NRT_INVALID, call(NRT_TENSOR_PLACEMENT_DEVICE, -1, 64, "t", &made));
  EXPECT_EQ(NRT_INVALID, call(NRT_TENSOR_PLACEMENT_DEVICE, 0, 0, "t", &made));
  EXPECT_EQ(NRT_INVALID,
            call(NRT_TENSOR_PLACEMENT_DEVICE, 0, 64, "t", nullptr));
  EXPECT_EQ(NRT_INVALID, call(NRT_TENSOR_PLACEMENT_HOST, 0, 64, "t", &made));
  EXPECT_EQ(NRT_INVALID,
            call(static_cast<nrt_tensor_placement_t>(2), 0, 64, "t", &made));
  EXPECT_EQ(nullptr, made);
}

TEST_F(Tensor, ANullNameIsAllowed) {
  nrt_tensor_t* made = nullptr;
  EXPECT_EQ(NRT_SUCCESS,
            api().nrt_tensor_allocate(
                NRT_TENSOR_PLACEMENT_DEVICE, 0, 64, nullptr, &made));
  api().nrt_tensor_free(&made);
}

TEST_F(Tensor, FreeClearsThePointerAndIgnoresNull) {
  nrt_tensor_t* made = tensor(64);
  api().nrt_tensor_free(&made);
  EXPECT_EQ(nullptr, made);
  api().nrt_tensor_free(&made);
  api().nrt_tensor_free(nullptr);
}

TEST_F(Tensor, MemoryIsAccountedExactly) {
  EXPECT_EQ(0u, used());
  nrt_tensor_t* small = tensor(1);
  EXPECT_EQ(1u, used());
  nrt_tensor_t* large = tensor(3 << 20);
  EXPECT_EQ(1u + (3 << 20), used());
  EXPECT_EQ(0u, used(1));
  nrt_tensor_t* view = slice(large, 0, 8);
  api().nrt_tensor_free(&large);
  EXPECT_EQ(1u + (3 << 20), used()) << "the slice keeps the storage";
  api().nrt_tensor_free(&view);
  api().nrt_tensor_free(&small);
  EXPECT_EQ(0u, used());
}

TEST_F(Tensor, HostMemoryIsNotTheCores) {
  nrt_tensor_t* host = nullptr;
  ASSERT_EQ(NRT_SUCCESS,
            api().nrt_tensor_allocate(
                NRT_TENSOR_PLACEMENT_HOST, -1, 1 << 20, "h", &host));
  EXPECT_EQ(0u, used());
  std::memset(api().nrt_tensor_get_va(host), 1, 1 << 20);
  nrt_tensor_device_allocation_info_t info{};
  EXPECT_EQ(NRT_INVALID,
            api().nrt_tensor_get_device_allocation_info(host, &info));
  api().nrt_tensor_free(&host);
}

TEST_F(Tensor, TooMuchIsAResourceError) {
  nrt_tensor_t* most = tensor(limit() - 100);
  nrt_tensor_t* more = nullptr;
  const auto allocate = [&](size_t bytes) {
    return api().nrt_tensor_allocate(
        NRT_TENSOR_PLACEMENT_DEVICE, 0, bytes, "t", &more);
  };
  EXPECT_EQ(NRT_RESOURCE, allocate(101));
  EXPECT_EQ(NRT_RESOURCE, allocate(kHuge));
  EXPECT_EQ(limit() - 100, used());
  EXPECT_EQ(NRT_SUCCESS, allocate(100));
  api().nrt_tensor_free(&more);
  api().nrt_tensor_free(&most);
  EXPECT_EQ(0u, used());
}

TEST_F(Tensor, AHugeAllocationCostsNothing) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) {
    nrt_tensor_t* huge = tensor(size_t{20} << 30);
    api().nrt_tensor_free(&huge);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
}

TEST_F(Tensor, BytesComeBack) {
  for (size_t size : {1, 63, 65536, 5 << 20}) {
    std::vector<char> written(size);
    for (size_t i = 0; i < size; ++i) {
      written[i] = static_cast<char>(i * 7 + size);
    }
    nrt_tensor_t* made = tensor(size);
    EXPECT_EQ(size, api().nrt_tensor_get_size(made));
    EXPECT_EQ(NRT_SUCCESS,
              api().nrt_tensor_write(made, written.data(), 0, size));
    std::vector<char> read(size);
    EXPECT_EQ(NRT_SUCCESS, api().nrt_tensor_read(made, read.data(), 0, size));
    EXPECT_EQ(written, read);
    api().nrt_tensor_free(&made);
  }
}

TEST_F(Tensor, TransfersCheckTheirArguments) {
  nrt_tensor_t* made = tensor(64);
  char buffer[65] = {};
  for (const auto& [offset, size] : {std::pair<size_t, size_t>{0, 65},
                                     {64, 1},
                                     {65, 0},
                                     {kHuge, 2},
                                     {2, kHuge}}) {
    EXPECT_MISUSE(NRT_INVALID,
                  api().nrt_tensor_read(made, buffer, offset, size));
    EXPECT_MISUSE(NRT_INVALID,
                  api().nrt_tensor_write(made, buffer, offset, size));
    EXPECT_MISUSE(NRT_INVALID, api().nrt_tensor_memset(made, offset, 0, size));
  }
  EXPECT_EQ(NRT_SUCCESS, api().nrt_tensor_read(made, buffer, 64, 0));
  EXPECT_EQ(NRT_INVALID, api().nrt_tensor_read(made, nullptr, 0, 1));
  EXPECT_EQ(NRT_INVALID, api().nrt_tensor_write(made, nullptr, 0, 1));
  EXPECT_EQ(NRT_INVALID, api().nrt_tensor_read(nullptr, buffer, 0, 1));
  EXPECT_EQ(NRT_INVALID, api().nrt_tensor_write(nullptr, buffer, 0, 1));
  api().nrt_tensor_free(&made);
}

TEST_F(Tensor, AHandleOfAnotherKindIsRefused) {
  nrt_tensor_set_t* tensors = set({});
  char byte = 0;
  EXPECT_MISUSE(
      NRT_INVALID_HANDLE,
      api().nrt_tensor_read(static_cast<nrt_tensor_t*>(tensors), &byte, 0, 1));
  api().nrt_destroy_tensor_set(&tensors);
}

TEST_F(Tensor, SlicesShareMemory) {
  nrt_tensor_t* whole = filled({0, 1, 2, 3, 4, 5, 6, 7});
  nrt_tensor_t* part = slice(whole, 8, 16);
  nrt_tensor_t* inner = slice(part, 4, 8);
  EXPECT_EQ((std::vector<float>{2, 3, 4, 5}), values(part));
  EXPECT_EQ((std::vector<float>{3, 4}), values(inner));
  const float written = 9;
  EXPECT_EQ(NRT_SUCCESS, api().nrt_tensor_write(inner, &written, 4, 4));
  EXPECT_EQ((std::vector<float>{0, 1, 2, 3, 9, 5, 6, 7}), values(whole));
  const auto* base = static_cast<char*>(api().nrt_tensor_get_va(whole));
  EXPECT_EQ(base + 12, api().nrt_tensor_get_va(inner));
  api().nrt_tensor_free(&whole);
  api().nrt_tensor_free(&part);
  EXPECT_EQ((std::vector<float>{3, 9}), values(inner));
  api().nrt_tensor_free(&inner);
}

TEST_F(Tensor, SlicesStayInside) {
  nrt_tensor_t* whole = tensor(64);
  nrt_tensor_t* part = nullptr;
  const auto call = api().nrt_tensor_allocate_slice;
  EXPECT_EQ(NRT_INVALID, call(whole, 0, 65, "s", &part));
  EXPECT_EQ(NRT_INVALID, call(whole, 60, 5, "s", &part));
  EXPECT_EQ(NRT_INVALID, call(whole, kHuge, 2, "s", &part));
  EXPECT_EQ(NRT_INVALID, call(whole, 1, kHuge, "s", &part));
  EXPECT_EQ(NRT_INVALID, call(nullptr, 0, 1, "s", &part));
  EXPECT_EQ(NRT_INVALID, call(whole, 0, 1, "s", nullptr));
  EXPECT_EQ(nullptr, part);
  api().nrt_tensor_free(&whole);
}

TEST_F(Tensor, EmptyTensorsTakeTheCallersBuffer) {
  nrt_tensor_t* empty = nullptr;
  ASSERT_EQ(NRT_SUCCESS, api().nrt_tensor_allocate_empty("e", &empty));
  EXPECT_EQ(0u, api().nrt_tensor_get_size(empty));
  EXPECT_EQ(nullptr, api().nrt_tensor_get_va(empty));
  char byte = 0;
  EXPECT_EQ(NRT_INVALID, api().nrt_tensor_read(empty, &byte, 0, 1));
  float first[2] = {1, 2};
  float second[3] = {3, 4, 5};
  EXPECT_EQ(NRT_SUCCESS, api().nrt_tensor_attach_buffer(empty, first, 8));
  EXPECT_EQ(first, api().nrt_tensor_get_va(empty));
  EXPECT_EQ(NRT_SUCCESS, api().nrt_tensor_attach_buffer(empty, second, 12));
  EXPECT_EQ((std::vector<float>{3, 4, 5}), values(empty));
  EXPECT_EQ(NRT_INVALID, api().nrt_tensor_attach_buffer(empty, nullptr, 8));
  api().nrt_tensor_free(&empty);
  nrt_tensor_t* device = tensor(8);
  EXPECT_EQ(NRT_INVALID, api().nrt_tensor_attach_buffer(device, first, 8));
  api().nrt_tensor_free(&device);
}

TEST_F(Tensor, CopiesWithinACore) {
  nrt_tensor_t* from = filled({1, 2, 3, 4});
  nrt_tensor_t* to = filled({0, 0, 0, 0});
  EXPECT_EQ(NRT_SUCCESS, api().nrt_tensor_copy(from, 4, to, 8, 8));
  EXPECT_EQ((std::vector<float>{0, 0, 2, 3}), values(to));
  EXPECT_EQ(NRT_SUCCESS, api().nrt_tensor_copy(from, 0, from, 4, 12))
      << "overlap";
  EXPECT_EQ((std::vector<float>{1, 1, 2, 3}), values(from));
  EXPECT_MISUSE(NRT_INVALID, api().nrt_tensor_copy(from, 8, to, 0, 9));
  EXPECT_MISUSE(NRT_INVALID, api().nrt_tensor_copy(from, 0, to, 8, 9));
  EXPECT_EQ(NRT_INVALID, api().nrt_tensor_copy(nullptr, 0, to, 0, 4));
  EXPECT_EQ(NRT_INVALID, api().nrt_tensor_copy(from, 0, nullptr, 0, 4));
  api().nrt_tensor_free(&from);
  api().nrt_tensor_free(&to);
}

TEST_F(Tensor, CopiesBetweenCoresAreRefused) {
  nrt_tensor_t* from = filled({1, 2}, 0);
  nrt_tensor_t* to = filled({0, 0}, 1);
  EXPECT_EQ(NRT_INVALID, api().nrt_tensor_copy(from, 0, to, 0, 8));
  EXPECT_EQ((std::vector<float>{0, 0}), values(to));
  api().nrt_tensor_free(&from);
  api().nrt_tensor_free(&to);
}

TEST_F(Tensor, MemsetFillsARange) {
  nrt_tensor_t* made = filled({1, 2, 3});
  EXPECT_EQ(NRT_SUCCESS, api().nrt_tensor_memset(made, 4, 0, 4));
  EXPECT_EQ((std::vector<float>{1, 0, 3}), values(made));
  api().nrt_tensor_free(&made);
}

TEST_F(Tensor, BatchesTransferSeveralRanges) {
  nrt_tensor_t* a = filled({1, 2, 3});
  nrt_tensor_t* b = filled({4, 5, 6});
  float read[3] = {};
  const nrt_tensor_batch_op_t of_a[] = {{0, 4, &read[0]}, {8, 4, &read[1]}};
  const nrt_tensor_batch_op_t of_b[] = {{4, 4, &read[2]}};
  const nrt_tensor_batch_t batches[] = {{a, of_a, 2}, {b, of_b, 1}};
  EXPECT_EQ(NRT_SUCCESS, api().nrt_tensor_read_batch(batches, 2, false));
  EXPECT_EQ(1, read[0]);
  EXPECT_EQ(3, read[1]);
  EXPECT_EQ(5, read[2]);
  read[0] = 7;
  EXPECT_EQ(NRT_SUCCESS, api().nrt_tensor_write_batch(batches, 2, true));
  EXPECT_EQ((std::vector<float>{7, 2, 3}), values(a));
  EXPECT_EQ(NRT_INVALID, api().nrt_tensor_read_batch(nullptr, 1, false));
  const nrt_tensor_batch_t bad[] = {{a, nullptr, 1}};
  EXPECT_EQ(NRT_INVALID, api().nrt_tensor_read_batch(bad, 1, false));
  api().nrt_tensor_free(&a);
  api().nrt_tensor_free(&b);
}

TEST_F(Tensor, AllocationInfoNamesTheStack) {
  nrt_tensor_t* made = tensor(64, 3);
  nrt_tensor_device_allocation_info_t info{};
  EXPECT_EQ(NRT_SUCCESS,
            api().nrt_tensor_get_device_allocation_info(made, &info));
  EXPECT_EQ(64u, info.size);
  EXPECT_EQ(3, info.hbm_index);
  EXPECT_NE(0u, info.physical_address);
  EXPECT_EQ(NRT_INVALID,
            api().nrt_tensor_get_device_allocation_info(made, nullptr));
  api().nrt_tensor_free(&made);
}

TEST_F(Tensor, ThreadsAllocateAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      for (int n = 0; n < 300; ++n) {
        nrt_tensor_t* made = tensor(size_t(1) << (n % 20));
        nrt_tensor_t* part = slice(made, 0, 1);
        api().nrt_tensor_free(&made);
        api().nrt_tensor_free(&part);
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(0u, used());
}

}  // namespace
}  // namespace neuronx
