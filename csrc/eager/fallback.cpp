// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/Tensor.h>
#include <ATen/native/CPUFallback.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <atomic>
#include <mutex>

#include "common/env.h"
#include "common/metrics.h"
#include "eager/kernel.h"
#include "eager/random.h"

namespace neuronx::eager {
namespace {

std::atomic<FallbackMode>& mode() {
  static auto* value = new std::atomic<FallbackMode>(
      env::choice("TORCH_NEURONX_FALLBACK",
                  FallbackMode::Warn,
                  {{"warn", FallbackMode::Warn},
                   {"silent", FallbackMode::Silent},
                   {"error", FallbackMode::Error}}));
  return *value;
}

std::mutex mutex;
auto& registered() {
  static auto* callback =
      new std::function<void(const std::string&, const std::string&)>;
  return *callback;
}

// Puts a generator of the host's that follows the device's in its place.
void seed_host(const OpInfo& info, torch::jit::Stack& stack) {
  const size_t first = stack.size() - info.arguments.size();
  c10::DeviceIndex device = -1;
  for (size_t i = first; i < stack.size(); ++i) {
    if (stack[i].isTensor() && stack[i].toTensor().defined() &&
        stack[i].toTensor().is_privateuseone()) {
      device = stack[i].toTensor().device().index();
    }
  }
  for (size_t i = 0; i < info.arguments.size(); ++i) {
    if (info.arguments[i].kind != ArgumentKind::Generator) {
      continue;
    }
    auto& value = stack[first + i];
    std::optional<at::Generator> given;
    if (value.isGenerator()) {
      given = value.toGenerator();
    }
    value = host_generator(given, device);
  }
}

}  // namespace

void set_fallback_mode(FallbackMode value) {
  mode().store(value);
}

void set_fallback_callback(
    std::function<void(const std::string&, const std::string&)> callback) {
  std::lock_guard lock(mutex);
  registered() = std::move(callback);
}

void run_on_host(OpInfo& info,
                 torch::jit::Stack* stack,
                 const std::string& reason) {
  if (mode().load() == FallbackMode::Error) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        false,
        fmt::format("[{}] has no device program on neuron: {}. It would run "
                    "on the CPU; TORCH_NEURONX_FALLBACK=error forbids that.",
                    info.name,
                    reason));
  }
  metrics::count(metrics::Metric::Fallbacks);
  if (info.fallen_back.fetch_add(1) == 0 &&
      mode().load() == FallbackMode::Warn) {
    std::function<void(const std::string&, const std::string&)> report;
    {
      std::lock_guard lock(mutex);
      report = registered();
    }
    if (report) {
      report(info.name, reason);
    } else {
      TORCH_WARN("[", info.name, "] ran on the CPU: ", reason);
    }
  }
  if (info.random) {
    seed_host(info, *stack);
  }
  at::native::cpu_fallback(info.handle, stack, /*error_on_views=*/true);
}

}  // namespace neuronx::eager
