// SPDX-License-Identifier: Apache-2.0
// Queues, and the streams and events in front of them.
#include "runtime/queue.h"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "compiler/service.h"
#include "ir/builder.h"
#include "nrt/status.h"
#include "runtime/event.h"
#include "runtime/storage.h"
#include "runtime_fixture.h"

namespace neuronx::runtime {
namespace {

class QueueTest : public Backend {
 protected:
  const c10::Stream stream_ = default_stream(0);
  const c10::Stream other_ = new_stream(0, 0);
};

std::shared_ptr<compiler::Executable> add_executable() {
  ir::Builder b("add");
  const auto x = b.parameter({DType::Float32, {2, 3}});
  const auto y = b.parameter({DType::Float32, {2, 3}});
  return compiler::compile("aten::add.Tensor", b.finish({b.add(x, y)}), 0);
}

void launch(Queue& queue, compiler::Executable* executable, void* address) {
  queue.push([&](Launch& slot) {
    slot.executable = executable;
    for (int i = 0; i < 3; ++i) {
      slot.addresses[i] = address;
    }
  });
}

// What `call` raises as `Error`, or why it does not.
template <typename Error = c10::Error, typename Call>
std::string raised(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return std::string("another type: ") + error.what();
  }
  return "nothing";
}

TEST_F(QueueTest, AnEntryThatCannotBeFilledLeavesTheQueueUsable) {
  Queue& q = queue(stream_);
  const auto before = q.pushed();
  EXPECT_THROW(q.push([](Launch&) { throw std::runtime_error("no memory"); }),
               std::runtime_error);
  EXPECT_EQ(q.pushed(), before);
  bool ran = false;
  q.wait(q.push_task("task", [&] { ran = true; }));
  EXPECT_TRUE(ran);
}

TEST_F(QueueTest, RunsInTheOrderOfPushes) {
  Queue& q = queue(stream_);
  std::vector<int> order;
  Gate gate(q);
  for (int i = 0; i < 1000; ++i) {
    const auto ticket =
        q.push_task("task", [&order, i] { order.push_back(i); });
    EXPECT_EQ(q.pushed(), ticket);
  }
  EXPECT_FALSE(q.idle());
  gate.open();
  q.synchronize();
  EXPECT_TRUE(q.idle());
  ASSERT_EQ(1000u, order.size());
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_F(QueueTest, TakesManyProducers) {
  constexpr int kThreads = 8;
  constexpr int kTasks = 2000;  // together several times around the ring
  Queue& q = queue(other_);
  std::vector<std::pair<int, int>> ran;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kTasks; ++i) {
        q.push_task("task", [&ran, t, i] { ran.emplace_back(t, i); });
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  q.synchronize();
  ASSERT_EQ(static_cast<size_t>(kThreads * kTasks), ran.size());
  int next[kThreads] = {};
  for (const auto& [thread, i] : ran) {
    ASSERT_EQ(next[thread]++, i) << "of thread " << thread;
  }
}

TEST_F(QueueTest, WakesItsWorkerHoweverLongItWasIdle) {
  Queue& q = queue(stream_);
  std::mt19937 random(7);
  for (int i = 0; i < 500; ++i) {  // around the 40 us of spinning
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 80));
    bool ran = false;
    q.wait(q.push_task("task", [&] { ran = true; }));
    ASSERT_TRUE(ran);
  }
}

TEST_F(QueueTest, FreesWhatATaskOwnsBeforeItCountsAsFinished) {
  Queue& q = queue(stream_);
  for (int i = 0; i < 100; ++i) {
    auto owned = std::make_shared<int>(i);
    const std::weak_ptr<int> watched = owned;
    q.wait(q.push_task("task", [owned = std::move(owned)] {}));
    ASSERT_TRUE(watched.expired());
  }
}

TEST_F(QueueTest, BlocksProducersWhileItIsFull) {
  Queue& q = queue(stream_);
  std::atomic<int> ran = 0;
  constexpr int kTasks = 3 * static_cast<int>(Queue::kCapacity);
  Gate gate(q);
  gate.reached();
  const auto start = q.pushed();
  std::thread producer([&] {
    for (int i = 0; i < kTasks; ++i) {
      q.push_task("task", [&] { ++ran; });
    }
  });
  // The gate's entry takes one place of the ring.
  const auto full = start + Queue::kCapacity - 1;
  EXPECT_TRUE(eventually([&] { return q.pushed() == full; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(full, q.pushed());
  EXPECT_EQ(0, ran);
  gate.open();
  producer.join();
  q.synchronize();
  EXPECT_EQ(kTasks, ran);
}

TEST_F(QueueTest, RaisesAFailureOnceAtTheNextSynchronisation) {
  const auto executable = add_executable();
  Queue& q = queue(stream_);
  int on_host[6];
  bool later = false;
  launch(q, executable.get(), on_host);
  q.push_task("second", [] { throw std::runtime_error("the second failure"); });
  q.wait(q.push_task("later", [&] { later = true; }));  // does not raise
  EXPECT_TRUE(later);
  const auto text = raised([&] { synchronize_stream(stream_); });
  for (const char* part : {"is not in neuron device memory",
                           "[aten::add.Tensor] on (float32[2, 3], "
                           "float32[2, 3])"}) {
    EXPECT_NE(std::string::npos, text.find(part)) << text;
  }
  EXPECT_EQ("nothing", raised([&] { synchronize_stream(stream_); }));
  EXPECT_EQ("nothing", raised([&] { synchronize_device(0); }));
}

TEST_F(QueueTest, RaisesFailuresAsTheTypesThatPyTorchUsersKnow) {
  Queue& q = queue(stream_);
  const auto fail = [&](auto error) {
    q.push_task("copy to device", [error] { throw error; });
    return [&] { q.synchronize(); };
  };
  EXPECT_EQ("[copy to device] no", raised(fail(std::runtime_error("no"))));
  EXPECT_TRUE(raised<c10::OutOfMemoryError>(
                  fail(nrt::OutOfMemory(NRT_RESOURCE, "full")))
                  .starts_with("[copy to device] "));
  EXPECT_TRUE(
      raised<c10::IndexError>(fail(nrt::IndexOutOfRange(NRT_EXEC_OOB, "row 9")))
          .starts_with("[copy to device] "));
}

TEST_F(QueueTest, KeepsFailuresWithTheirStream) {
  queue(other_).push_task("task", [] { throw std::runtime_error("failed"); });
  queue(other_).wait(queue(other_).pushed());
  EXPECT_EQ("nothing", raised([&] { synchronize_stream(stream_); }));
  EXPECT_EQ("nothing", raised([&] { drain_device(0); }));
  EXPECT_EQ("[task] failed", raised([] { synchronize_device(0); }));
  EXPECT_EQ("nothing", raised([&] { synchronize_stream(other_); }));
}

TEST_F(QueueTest, RunsAnExecutableAgainAfterAFailure) {
  const auto executable = add_executable();
  Queue& q = queue(stream_);
  const auto data = allocate(6 * sizeof(float), 0);
  const std::vector<float> ones(6, 1);
  copy_to_device(data.get(), ones.data(), 6 * sizeof(float), 0, false);
  int on_host[6];
  launch(q, executable.get(), on_host);
  EXPECT_NE("nothing", raised([&] { q.synchronize(); }));
  auto sum = allocate(6 * sizeof(float), 0);
  q.push([&](Launch& slot) {
    slot.executable = executable.get();
    slot.addresses[0] = data.get();
    slot.addresses[1] = data.get();
    slot.addresses[2] = sum.get();
  });
  std::vector<float> read(6);
  copy_to_host(read.data(), sum.get(), 6 * sizeof(float), 0, false);
  EXPECT_EQ(std::vector<float>(6, 2), read);
}

TEST_F(QueueTest, AStreamWaitsForAnotherStreamsEvent) {
  std::atomic<bool> first = false;
  Gate gate(queue(stream_));
  queue(stream_).push_task("first", [&] { first = true; });
  Event event(0, false);
  EXPECT_FALSE(event.recorded());
  EXPECT_TRUE(event.query());  // never recorded: nothing to wait for
  event.record(stream_);
  event.block(other_);
  bool ordered = false;
  queue(other_).push_task("second", [&] { ordered = first; });
  EXPECT_FALSE(event.query());
  EXPECT_FALSE(query_stream(other_));
  gate.open();
  synchronize_stream(other_);
  EXPECT_TRUE(ordered);
  EXPECT_TRUE(event.query());
  event.synchronize();
}

TEST_F(QueueTest, AnEventMeansItsLastRecording) {
  Event event(0, false);
  event.record(stream_);
  event.synchronize();
  EXPECT_TRUE(event.query());
  Gate gate(queue(other_));
  event.record(other_);
  EXPECT_FALSE(event.query());
  gate.open();
  event.synchronize();
  EXPECT_TRUE(event.query());
}

TEST_F(QueueTest, AnEventMayGoBeforeItsTasks) {
  bool ran = false;
  Gate gate(queue(stream_));
  {
    Event event(0, false);
    event.record(stream_);
    event.block(other_);
  }
  queue(other_).push_task("task", [&] { ran = true; });
  gate.open();
  synchronize_stream(other_);
  EXPECT_TRUE(ran);
}

TEST_F(QueueTest, SynchronisingAnEventRaisesItsStreamsFailure) {
  queue(stream_).push_task("task", [] { throw std::runtime_error("failed"); });
  Event event(0, false);
  event.record(stream_);
  EXPECT_EQ("[task] failed", raised([&] { event.synchronize(); }));
  EXPECT_EQ("nothing", raised([&] { event.synchronize(); }));
}

TEST_F(QueueTest, TimesOnlyEventsThatAskedForIt) {
  Event start(0, true), end(0, true), plain(0, false);
  const auto elapsed = [](const Event& a, const Event& b) {
    return raised([&] { Event::elapsed_ms(a, b); });
  };
  EXPECT_NE(std::string::npos, elapsed(start, end).find("must be recorded"));
  start.record(stream_);
  Gate gate(queue(stream_));
  end.record(stream_);
  plain.record(stream_);
  EXPECT_NE(std::string::npos, elapsed(start, end).find("must be completed"));
  EXPECT_NE(std::string::npos, elapsed(start, plain).find("enable_timing"));
  gate.open();
  end.synchronize();
  EXPECT_GE(Event::elapsed_ms(start, end), 0);
}

TEST_F(QueueTest, RefusesStreamsThatDoNotExist) {
  for (const int64_t id : {-1, 17, 1000000}) {
    const c10::Stream stream(c10::Stream::UNSAFE, c10::Device(kNeuron, 0), id);
    EXPECT_NE(std::string::npos,
              raised([&] { queue(stream); }).find("is not a neuron stream"));
    EXPECT_EQ(nullptr, existing_queue(stream));
  }
  const c10::Stream nowhere(c10::Stream::UNSAFE, c10::Device(kNeuron, 100), 0);
  EXPECT_NE(std::string::npos,
            raised([&] { queue(nowhere); }).find("invalid device ordinal"));
}

// What the environment decides once is tested in processes of their own.
class QueueProcess : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(QueueProcess, LaunchBlockingRaisesAtTheCall) {
  setenv("NEURON_LAUNCH_BLOCKING", "1", 1);
  EXPECT_EXIT(
      {
        Queue& q = queue(default_stream(0));
        bool ran = false;
        q.push_task("task", [&] { ran = true; });
        const bool waited = ran && q.idle();
        const auto text = raised([&] {
          q.push_task("failing", [] { throw std::runtime_error("failed"); });
        });
        fprintf(stderr, "%d %s", waited, text.c_str());
        _exit(raised([&] { q.synchronize(); }) == "nothing" ? 0 : 1);
      },
      testing::ExitedWithCode(0),
      "1 \\[failing\\] failed");
  unsetenv("NEURON_LAUNCH_BLOCKING");
}

TEST_F(QueueProcess, WaitsAreGivenUpAfterTheTimeout) {
  const std::string before = getenv("TORCH_NEURONX_SYNC_TIMEOUT");
  setenv("TORCH_NEURONX_SYNC_TIMEOUT", "1", 1);
  EXPECT_EXIT(
      {
        Queue& q = queue(default_stream(0));
        Gate gate(q);
        const auto waiting = raised([&] { q.synchronize(); });
        const auto pushing = raised([&] {
          for (size_t i = 0; i <= Queue::kCapacity; ++i) {
            q.push_task("task", [] {});
          }
        });
        gate.open();
        const auto afterwards = raised([&] { q.synchronize(); });
        fprintf(stderr,
                "%s / %s / %s",
                waiting.c_str(),
                pushing.c_str(),
                afterwards.c_str());
        _exit(0);
      },
      testing::ExitedWithCode(0),
      "\\[synchronize\\] the device did not finish within 1 s.*/ "
      "\\[launch\\] the device did not finish within 1 s.*/ nothing");
  setenv("TORCH_NEURONX_SYNC_TIMEOUT", before.c_str(), 1);
}

}  // namespace
}  // namespace neuronx::runtime
