// SPDX-License-Identifier: Apache-2.0
// The asynchronous interface of the third generation.
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <deque>
#include <thread>

#include "sim_fixture.h"

namespace neuronx {
namespace {

constexpr uint64_t kCounter = kSequenceMask;

class Async : public Running {
 protected:
  void SetUp() override {
    Running::SetUp();
    if (api().async != nrt::AsyncGeneration::Gen3) {
      GTEST_SKIP() << "the library has no nrta_* of generation 3";
    }
  }

  static void wait(nrta_seq_t sequence) {
    bool completed = false;
    while (!completed) {
      ASSERT_EQ(NRT_SUCCESS, api().nrta_is_completed(sequence, &completed));
      std::this_thread::yield();
    }
  }

  static bool readable(int fd, int timeout_ms = 0) {
    pollfd waited{fd, POLLIN, 0};
    return poll(&waited, 1, timeout_ms) == 1;
  }
};

TEST_F(Async, TransfersComplete) {
  nrt_tensor_t* a = filled({0, 0});
  nrt_tensor_t* b = filled({0, 0});
  const float sent[2] = {3, 4};
  float received[2] = {};
  NRT_STATUS status[3] = {NRT_FAILURE, NRT_FAILURE, NRT_FAILURE};
  nrta_seq_t sequence[3];
  ASSERT_EQ(
      NRT_SUCCESS,
      api().nrta_tensor_write(a, sent, 0, 8, 0, 0, &status[0], &sequence[0]));
  ASSERT_EQ(
      NRT_SUCCESS,
      api().nrta_tensor_copy(a, 0, b, 0, 8, 0, 0, &status[1], &sequence[1]));
  ASSERT_EQ(NRT_SUCCESS,
            api().nrta_tensor_read(
                received, b, 0, 8, 0, 0, &status[2], &sequence[2]));
  EXPECT_EQ((sequence[0] & kCounter) + 1, sequence[1] & kCounter);
  EXPECT_EQ(sequence[0] >> 48, sequence[2] >> 48);
  wait(sequence[2]);
  for (const auto written : status) {
    EXPECT_EQ(NRT_SUCCESS, written);
  }
  EXPECT_EQ(4, received[1]);
  nrta_seq_t last = 0;
  EXPECT_EQ(NRT_SUCCESS,
            api().nrta_get_sequence(0, NRTA_XU_TENSOR_OP, 0, &last));
  EXPECT_EQ(sequence[2], last);
}

TEST_F(Async, ExecutionsRunInOrder) {
  nrt_model_t* model = load(add_in_place_program(1));
  nrt_tensor_t* total = filled({0});
  nrt_tensor_set_t* out = set({{"output0", total}});
  std::deque<NRT_STATUS> statuses;
  nrta_seq_t sequence = 0;
  for (int i = 1; i <= 20; ++i) {
    // Each request keeps the tensors of the time it was scheduled.
    nrt_tensor_t* step = filled({float(i)});
    nrt_tensor_set_t* in = set({{"input0", total}, {"input1", step}});
    statuses.push_back(NRT_FAILURE);
    ASSERT_EQ(NRT_SUCCESS,
              api().nrta_execute_schedule(
                  model, in, out, 0, &statuses.back(), &sequence))
        << last_error();
  }
  wait(sequence);
  EXPECT_EQ(210, values(total)[0]);
  for (const auto status : statuses) {
    EXPECT_EQ(NRT_SUCCESS, status);
  }
}

TEST_F(Async, ASetMayBePatchedAfterScheduling) {
  nrt_model_t* model = load(add_program(1));
  nrt_tensor_t* one = filled({1});
  nrt_tensor_t* two = filled({2});
  nrt_tensor_t* first = filled({0});
  nrt_tensor_t* second = filled({0});
  nrt_tensor_set_t* in = set({{"input0", one}, {"input1", one}});
  nrt_tensor_set_t* out = set({{"output0", first}});
  NRT_STATUS status[2];
  nrta_seq_t sequence;
  ASSERT_EQ(
      NRT_SUCCESS,
      api().nrta_execute_schedule(model, in, out, 0, &status[0], &sequence));
  api().nrt_add_tensor_to_tensor_set(in, "input0", two);
  api().nrt_add_tensor_to_tensor_set(out, "output0", second);
  ASSERT_EQ(
      NRT_SUCCESS,
      api().nrta_execute_schedule(model, in, out, 0, &status[1], &sequence));
  wait(sequence);
  EXPECT_EQ(2, values(first)[0]);
  EXPECT_EQ(3, values(second)[0]);
}

TEST_F(Async, AFullQueueRefuses) {
  // Large copies keep the queue busy while it is filled.
  constexpr size_t kBytes = 32 << 20;
  nrt_tensor_t* a = tensor(kBytes);
  nrt_tensor_t* b = tensor(kBytes);
  std::deque<NRT_STATUS> statuses;
  nrta_seq_t sequence = 0;
  NRT_STATUS scheduled = NRT_SUCCESS;
  int accepted = 0;
  while (scheduled == NRT_SUCCESS && accepted < 1000) {
    statuses.push_back(NRT_FAILURE);
    scheduled = api().nrta_tensor_copy(
        a, 0, b, 0, kBytes, 0, 0, &statuses.back(), &sequence);
    accepted += scheduled == NRT_SUCCESS;
  }
  EXPECT_EQ(NRT_QUEUE_FULL, scheduled);
  EXPECT_GE(accepted, 2);
  wait(sequence);
  EXPECT_EQ(
      NRT_SUCCESS,
      api().nrta_tensor_copy(a, 0, b, 0, 8, 0, 0, &statuses.back(), &sequence));
  wait(sequence);
}

TEST_F(Async, AFailureDoesNotStopLaterRequests) {
  nrt_tensor_t* a = filled({1});
  float read = 0;
  NRT_STATUS failed = NRT_SUCCESS;
  NRT_STATUS fine = NRT_FAILURE;
  nrta_seq_t first, second;
  ASSERT_EQ(NRT_SUCCESS, api().nrt_sim_inject("read:1:6"));
  ASSERT_EQ(NRT_SUCCESS,
            api().nrta_tensor_read(&read, a, 0, 4, 0, 1, &failed, &first));
  ASSERT_EQ(NRT_SUCCESS,
            api().nrta_tensor_read(&read, a, 0, 4, 0, 1, &fine, &second));
  wait(second);
  EXPECT_EQ(NRT_HW_ERROR, failed);
  EXPECT_EQ(NRT_SUCCESS, fine);
  bool completed = false;
  EXPECT_EQ(NRT_SUCCESS, api().nrta_is_completed(first, &completed));
  EXPECT_TRUE(completed);
  EXPECT_NE(std::string::npos, last_error().find("injected"));
}

TEST_F(Async, EventsSignalARequest) {
  nrt_tensor_t* a = filled({1});
  float read = 0;
  NRT_STATUS status;
  nrta_seq_t sequence;
  const int fd = eventfd(0, EFD_NONBLOCK);
  ASSERT_EQ(NRT_SUCCESS,
            api().nrta_tensor_read(&read, a, 0, 4, 0, 0, &status, &sequence));
  EXPECT_EQ(NRT_SUCCESS,
            api().nrta_event_register_seq_id_completion(sequence, fd));
  EXPECT_TRUE(readable(fd, 5000));
  eventfd_t count = 0;
  eventfd_read(fd, &count);
  EXPECT_EQ(NRT_SUCCESS,
            api().nrta_event_register_seq_id_completion(sequence, fd));
  EXPECT_TRUE(readable(fd)) << "complete already: signalled at once";
  EXPECT_EQ(NRT_SUCCESS,
            api().nrta_event_register_seq_id_completion(sequence, -1));
  EXPECT_EQ(NRT_INVALID,
            api().nrta_event_register_seq_id_completion(sequence + 1, fd));
  close(fd);
}

TEST_F(Async, EventsSignalAnExecutionUnit) {
  nrt_tensor_t* a = filled({1});
  float read = 0;
  NRT_STATUS status;
  nrta_seq_t sequence;
  const int fd = eventfd(0, EFD_NONBLOCK);
  const auto watch = api().nrta_event_register_xu_completion;
  EXPECT_EQ(NRT_SUCCESS, watch(0, NRTA_XU_TENSOR_OP, 1, fd));
  ASSERT_EQ(NRT_SUCCESS,
            api().nrta_tensor_read(&read, a, 0, 4, 0, 0, &status, &sequence));
  wait(sequence);
  EXPECT_FALSE(readable(fd)) << "another queue";
  ASSERT_EQ(NRT_SUCCESS,
            api().nrta_tensor_read(&read, a, 0, 4, 0, 1, &status, &sequence));
  EXPECT_TRUE(readable(fd, 5000));
  eventfd_t count = 0;
  eventfd_read(fd, &count);
  EXPECT_EQ(NRT_SUCCESS, watch(0, NRTA_XU_TENSOR_OP, 1, -1));
  ASSERT_EQ(NRT_SUCCESS,
            api().nrta_tensor_read(&read, a, 0, 4, 0, 1, &status, &sequence));
  wait(sequence);
  EXPECT_FALSE(readable(fd)) << "deregistered";
  EXPECT_EQ(NRT_INVALID, watch(9, NRTA_XU_COMPUTE, 0, fd));
  EXPECT_EQ(NRT_INVALID, watch(0, NRTA_XU_COMPUTE, 1, fd));
  EXPECT_EQ(NRT_INVALID, watch(0, NRTA_XU_NUM, 0, fd));
  close(fd);
}

TEST_F(Async, QueuesAreThoseOfTheHardware) {
  nrta_seq_t last = 0;
  for (const auto& [unit, count] : {std::pair{NRTA_XU_TENSOR_OP, 2},
                                    {NRTA_XU_COMPUTE, 1},
                                    {NRTA_XU_COLLECTIVES, 3}}) {
    EXPECT_EQ(NRT_SUCCESS, api().nrta_get_sequence(3, unit, count - 1, &last));
    EXPECT_EQ(0u, last & kCounter);
    EXPECT_EQ(NRT_INVALID, api().nrta_get_sequence(3, unit, count, &last));
    EXPECT_EQ(NRT_INVALID, api().nrta_get_sequence(3, unit, -1, &last));
  }
  EXPECT_EQ(NRT_INVALID, api().nrta_get_sequence(4, NRTA_XU_COMPUTE, 0, &last));
  EXPECT_EQ(NRT_INVALID,
            api().nrta_get_sequence(0, NRTA_XU_COMPUTE, 0, nullptr));
}

TEST_F(Async, ChecksItsArguments) {
  nrt_tensor_t* a = filled({1});
  nrt_tensor_t* far = filled({1}, 1);
  float value = 0;
  NRT_STATUS status;
  nrta_seq_t sequence;
  const auto write = api().nrta_tensor_write;
  EXPECT_EQ(NRT_INVALID,
            write(nullptr, &value, 0, 4, 0, 0, &status, &sequence));
  EXPECT_EQ(NRT_INVALID, write(a, &value, 0, 4, 0, 2, &status, &sequence));
  EXPECT_EQ(NRT_INVALID, write(a, &value, 0, 4, 4, 0, &status, &sequence));
  EXPECT_EQ(NRT_INVALID, write(far, &value, 0, 4, 0, 0, &status, &sequence));
  EXPECT_EQ(NRT_INVALID, write(a, &value, 0, 4, 0, 0, nullptr, &sequence));
  EXPECT_EQ(NRT_INVALID, write(a, &value, 0, 4, 0, 0, &status, nullptr));
  nrt_model_t* model = load(add_program(1));
  const auto schedule = api().nrta_execute_schedule;
  EXPECT_EQ(NRT_INVALID,
            schedule(nullptr, set({}), set({}), 0, &status, &sequence));
  EXPECT_EQ(NRT_EXEC_BAD_INPUT,
            schedule(model, set({}), set({}), 0, &status, &sequence));
  EXPECT_EQ(NRT_INVALID,
            schedule(model, set({}), set({}), 1, &status, &sequence));
  bool completed = false;
  EXPECT_EQ(NRT_INVALID, api().nrta_is_completed(0, &completed));
  EXPECT_EQ(NRT_INVALID, api().nrta_is_completed(~uint64_t{0}, &completed));
}

TEST_F(Async, DrainWaitsForExecutions) {
  nrt_model_t* model = load(add_in_place_program(1));
  nrt_tensor_t* total = filled({0});
  nrt_tensor_t* one = filled({1});
  nrt_tensor_set_t* in = set({{"input0", total}, {"input1", one}});
  nrt_tensor_set_t* out = set({{"output0", total}});
  NRT_STATUS status[30];
  nrta_seq_t sequence;
  for (auto& slot : status) {
    ASSERT_EQ(NRT_SUCCESS,
              api().nrta_execute_schedule(model, in, out, 0, &slot, &sequence));
  }
  EXPECT_EQ(NRT_SUCCESS, api().nrt_async_drain_queued_execs(0));
  EXPECT_EQ(30, values(total)[0]);
  EXPECT_EQ(NRT_INVALID, api().nrt_async_drain_queued_execs(9));
}

TEST_F(Async, CloseCompletesWhatIsQueued) {
  nrt_tensor_t* a = filled({1, 2});
  float read[2] = {};
  NRT_STATUS status = NRT_FAILURE;
  nrta_seq_t sequence;
  ASSERT_EQ(NRT_SUCCESS,
            api().nrta_tensor_read(read, a, 0, 8, 0, 0, &status, &sequence));
  api().nrt_close();
  EXPECT_EQ(NRT_SUCCESS, status);
  EXPECT_EQ(2, read[1]);
}

}  // namespace
}  // namespace neuronx
