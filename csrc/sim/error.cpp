// SPDX-License-Identifier: Apache-2.0
#include "sim/error.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/log.h"
#include "sim/exports.h"

namespace neuronx::sim {
namespace {

std::atomic<bool> strict_mode{false};
thread_local std::string last_text;

}  // namespace

NRT_STATUS fail(NRT_STATUS status, std::string text) noexcept {
  log::debug(text);
  last_text = std::move(text);
  return status;
}

const std::string& last_error() noexcept {
  return last_text;
}

void abort_strict(std::string_view text) noexcept {
  std::fprintf(stderr,
               "libnrt_sim (strict): %.*s\n",
               static_cast<int>(text.size()),
               text.data());
  std::abort();
}

bool strict() noexcept {
  return strict_mode.load(std::memory_order_relaxed);
}
void set_strict(bool strict) noexcept {
  strict_mode = strict;
}

NRT_STATUS misuse(NRT_STATUS status, std::string text) noexcept {
  if (strict()) {
    abort_strict(text);
  }
  return fail(status, std::move(text));
}

}  // namespace neuronx::sim

namespace neuronx {

size_t nrt_sim_last_error(char* buffer, size_t size) {
  const std::string& text = sim::last_error();
  if (buffer != nullptr && size > 0) {
    const size_t copied = std::min(text.size(), size - 1);
    std::memcpy(buffer, text.data(), copied);
    buffer[copied] = '\0';
  }
  return text.size();
}

}  // namespace neuronx
