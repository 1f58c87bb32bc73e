// SPDX-License-Identifier: Apache-2.0
// Queue: the requests of one execution unit queue, run in order by its thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "nrt/abi.h"

namespace neuronx::sim {

inline constexpr int kQueuesOfUnit[NRTA_XU_NUM] = {2, 1, 3};
// Requests accepted and not completed; one more is NRT_QUEUE_FULL.
inline constexpr size_t kQueueDepth = 64;

class Queue {
 public:
  explicit Queue(uint64_t prefix) : prefix_(prefix) {}
  ~Queue() { stop(); }

  // Accepts `work`; its status is written to `status` (may be null) before the
  // request counts as completed. NRT_QUEUE_FULL, or NRT_CLOSED after stop().
  NRT_STATUS push(std::function<NRT_STATUS()> work,
                  NRT_STATUS* status,
                  nrta_seq_t* sequence);

  // Of a sequence number of this queue; `issued` is false for one that was
  // never handed out.
  struct State {
    bool issued;
    bool completed;
  };
  State state(nrta_seq_t sequence);
  nrta_seq_t last_completed() const;

  // Signals the eventfd when the request completes, at once if it has; -1
  // removes. False for a number that was never handed out.
  bool watch(nrta_seq_t sequence, int fd);
  // Signals the eventfd at every completion; -1 removes.
  void watch_all(int fd);

  // Waits until everything accepted so far has completed.
  void drain();
  // Completes what was accepted and ends the thread.
  void stop();

 private:
  struct Request {
    std::function<NRT_STATUS()> work;
    NRT_STATUS* status;
  };
  struct Watch {
    uint64_t counter;
    int fd;
  };
  void work();
  void complete(uint64_t counter, std::string error);

  const uint64_t prefix_;  // upper 16 bits of the sequence numbers
  std::mutex mutex_;
  std::condition_variable accepted_, done_;
  std::deque<Request> requests_;
  uint64_t issued_ = 0;
  std::atomic<uint64_t> completed_{0};
  std::vector<Watch> watches_;
  int fd_ = -1;
  // The last failed request and its text, for the thread that asks about it.
  uint64_t failed_ = 0;
  std::string failure_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace neuronx::sim
