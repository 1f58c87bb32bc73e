// SPDX-License-Identifier: Apache-2.0
#include "sim/queue.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <utility>

#include "sim/error.h"

namespace neuronx::sim {

NRT_STATUS Queue::push(std::function<NRT_STATUS()> work,
                       NRT_STATUS* status,
                       nrta_seq_t* sequence) {
  std::lock_guard lock(mutex_);
  if (stopping_) {
    return fail(NRT_CLOSED, "the queue is closed");
  }
  if (issued_ - completed_.load() >= kQueueDepth) {
    return fail(
        NRT_QUEUE_FULL,
        "the queue holds " + std::to_string(kQueueDepth) + " requests already");
  }
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { this->work(); });
  }
  requests_.push_back({std::move(work), status});
  *sequence = prefix_ | ++issued_;
  accepted_.notify_one();
  return NRT_SUCCESS;
}

Queue::State Queue::state(nrta_seq_t sequence) {
  const uint64_t counter = sequence & kSequenceMask;
  std::lock_guard lock(mutex_);
  if (counter == 0 || counter > issued_) {
    return {false, false};
  }
  if (counter == failed_) {
    fail(NRT_FAILURE, failure_);
  }
  return {true, counter <= completed_.load(std::memory_order_acquire)};
}

nrta_seq_t Queue::last_completed() const {
  return prefix_ | completed_.load(std::memory_order_acquire);
}

bool Queue::watch(nrta_seq_t sequence, int fd) {
  const uint64_t counter = sequence & kSequenceMask;
  std::lock_guard lock(mutex_);
  if (counter == 0 || counter > issued_) {
    return false;
  }
  std::erase_if(watches_, [counter](const Watch& watch) {
    return watch.counter == counter;
  });
  if (fd >= 0) {
    if (counter <= completed_.load()) {
      eventfd_write(fd, 1);
    } else {
      watches_.push_back({counter, fd});
    }
  }
  return true;
}

void Queue::watch_all(int fd) {
  std::lock_guard lock(mutex_);
  fd_ = fd;
}

void Queue::drain() {
  std::unique_lock lock(mutex_);
  const uint64_t last = issued_;
  done_.wait(lock, [&] { return completed_.load() >= last; });
}

void Queue::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    accepted_.notify_one();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

void Queue::complete(uint64_t counter, std::string error) {
  std::lock_guard lock(mutex_);
  if (!error.empty()) {
    failed_ = counter;
    failure_ = std::move(error);
  }
  completed_.store(counter, std::memory_order_release);
  std::erase_if(watches_, [counter](const Watch& watch) {
    if (watch.counter == counter) {
      eventfd_write(watch.fd, 1);
    }
    return watch.counter == counter;
  });
  if (fd_ >= 0) {
    eventfd_write(fd_, 1);
  }
  done_.notify_all();
}

void Queue::work() {
  for (;;) {
    Request request;
    {
      std::unique_lock lock(mutex_);
      accepted_.wait(lock, [&] { return stopping_ || !requests_.empty(); });
      if (requests_.empty()) {
        return;
      }
      request = std::move(requests_.front());
      requests_.pop_front();
    }
    const NRT_STATUS status = request.work();
    // What it holds is released before the host hears of the completion.
    request.work = nullptr;
    if (request.status != nullptr) {
      *request.status = status;
    }
    complete(completed_.load() + 1, status == NRT_SUCCESS ? "" : last_error());
  }
}

}  // namespace neuronx::sim
