// SPDX-License-Identifier: Apache-2.0
#include "compiler/wait.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "compiler/error.h"
#include "compiler/progress.h"

namespace neuronx::compiler {
namespace {

std::atomic<uint64_t> cancellations{0};
// Leaked: threads may wait while the process exits.
auto* sleep_for = new std::atomic<const Sleep*>{new Sleep(
    [](std::chrono::milliseconds time) { std::this_thread::sleep_for(time); })};

}  // namespace

void cancel() {
  cancellations.fetch_add(1);
}

void set_sleep(Sleep sleep) {
  // The earlier one is leaked: a thread may be in it.
  sleep_for->store(new Sleep(std::move(sleep)));
}

Wait::Wait(std::chrono::seconds limit)
    : deadline_(start_ + limit), epoch_(cancellations.load()) {}

bool Wait::over() const {
  return Clock::now() >= deadline_;
}

double Wait::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

void Wait::pause() {
  if (cancellations.load() != epoch_) {
    throw Cancelled("the compilation was cancelled");
  }
  progress::draw();
  (*sleep_for->load())(sleep_);
  sleep_ = std::min(sleep_ * 2, std::chrono::milliseconds(50));
}

}  // namespace neuronx::compiler
