// SPDX-License-Identifier: Apache-2.0
// Logging to stderr. TORCH_NEURONX_LOG_LEVEL is one of trace, debug, info,
// warning (the default), error, off.
#pragma once

#include <string_view>

namespace neuronx::log {

enum class Level { Trace, Debug, Info, Warning, Error, Off };

// Would a message of this level be written? Ask before formatting a costly one.
bool enabled(Level level);
void write(Level level, std::string_view message);

inline void debug(std::string_view message) {
  write(Level::Debug, message);
}
inline void info(std::string_view message) {
  write(Level::Info, message);
}
inline void warning(std::string_view message) {
  write(Level::Warning, message);
}
inline void error(std::string_view message) {
  write(Level::Error, message);
}

}  // namespace neuronx::log
