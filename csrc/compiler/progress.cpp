// SPDX-License-Identifier: Apache-2.0
#include "compiler/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/env.h"

namespace neuronx::compiler::progress {
namespace {

using Clock = std::chrono::steady_clock;

struct Running {
  const Scope* scope;
  std::string label;
  Clock::time_point since;
};

struct State {
  std::mutex mutex;
  std::optional<bool> enabled;
  std::vector<Running> running;  // oldest first
  int done = 0;
  double seconds = 0;  // of all that are done
  Clock::time_point drawn{};
  bool line = false;  // is on the terminal
};

State& state() {
  static auto* instance = new State;
  return *instance;
}

bool enabled(State& s) {
  if (!s.enabled) {
    s.enabled = env::flag("TORCH_NEURONX_PROGRESS", isatty(STDERR_FILENO));
  }
  return *s.enabled;
}

double since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

void put(const std::string& text) {
  // One write: lines of several processes do not mix.
  [[maybe_unused]] auto written =
      ::write(STDERR_FILENO, text.data(), text.size());
}

size_t width() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20) {
    return 80;
  }
  return size.ws_col;
}

void clear(State& s) {
  if (std::exchange(s.line, false)) {
    put("\r\x1b[K");
  }
}

}  // namespace

void set_enabled(bool enabled) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  s.enabled = enabled;
}

Scope::Scope(std::string label) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  s.running.push_back({this, std::move(label), Clock::now()});
}

void Scope::finished() {
  finished_ = true;
}

Scope::~Scope() {
  State& s = state();
  std::lock_guard lock(s.mutex);
  std::erase_if(s.running, [&](const Running& r) {
    if (r.scope == this && finished_) {
      ++s.done;
      s.seconds += since(r.since);
    }
    return r.scope == this;
  });
  if (s.running.empty()) {
    clear(s);
  }
}

void draw() {
  State& s = state();
  std::lock_guard lock(s.mutex);
  if (s.running.empty() || since(s.running.front().since) < 1 ||
      since(s.drawn) < 0.5 || !enabled(s)) {
    return;
  }
  s.drawn = Clock::now();
  s.line = true;
  const Running& oldest = s.running.front();
  std::string tail = fmt::format("  {:.0f} s", since(oldest.since));
  if (s.running.size() > 1) {
    tail = fmt::format("  and {} more", s.running.size() - 1) + tail;
  }
  if (s.done > 0) {
    tail += fmt::format(
        ", {} done, about {:.0f} s each", s.done, s.seconds / s.done);
  }
  std::string head = "[neuron] compiling " + oldest.label;
  const size_t room = width() - 1;
  if (head.size() + tail.size() > room) {
    const size_t kept = room > tail.size() + 3 ? room - tail.size() - 3 : 0;
    head = head.substr(0, kept) + "...";
  }
  put("\r\x1b[K" + head + tail);
}

}  // namespace neuronx::compiler::progress
