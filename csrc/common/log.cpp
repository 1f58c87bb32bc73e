// SPDX-License-Identifier: Apache-2.0
#include "common/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <stdexcept>

#include "common/env.h"

namespace neuronx::log {
namespace {

constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::trace,
                                                 spdlog::level::debug,
                                                 spdlog::level::info,
                                                 spdlog::level::warn,
                                                 spdlog::level::err,
                                                 spdlog::level::off};

Level configured_level() {
  return env::choice("TORCH_NEURONX_LOG_LEVEL",
                     Level::Warning,
                     {{"trace", Level::Trace},
                      {"debug", Level::Debug},
                      {"info", Level::Info},
                      {"warning", Level::Warning},
                      {"error", Level::Error},
                      {"off", Level::Off}});
}

spdlog::logger& logger() {
  // Leaked: worker threads may log while the process exits.
  static spdlog::logger* const instance = [] {
    auto* made = new spdlog::logger(
        "torch_neuronx", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("[%H:%M:%S.%e] [%n] [%l] %v");
    made->flush_on(spdlog::level::trace);
    made->set_level(spdlog::level::warn);
    try {
      made->set_level(kLevels[static_cast<int>(configured_level())]);
    } catch (const std::invalid_argument& error) {
      made->warn("{}; using warning", error.what());
    }
    return made;
  }();
  return *instance;
}

}  // namespace

bool enabled(Level level) {
  return logger().should_log(kLevels[static_cast<int>(level)]);
}

void write(Level level, std::string_view message) {
  logger().log(kLevels[static_cast<int>(level)], "{}", message);
}

}  // namespace neuronx::log
