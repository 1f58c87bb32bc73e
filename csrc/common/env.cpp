// SPDX-License-Identifier: Apache-2.0
#include "common/env.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <stdexcept>

namespace neuronx::env {

std::optional<std::string> text(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') {
    return std::nullopt;
  }
  return value;
}

std::string text(const char* name, std::string fallback) {
  return text(name).value_or(std::move(fallback));
}

bool flag(const char* name, bool fallback) {
  auto value = text(name);
  if (!value) {
    return fallback;
  }
  const std::string written = *value;
  std::transform(value->begin(), value->end(), value->begin(), [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  for (const char* word : {"1", "true", "yes", "on"}) {
    if (*value == word) {
      return true;
    }
  }
  for (const char* word : {"0", "false", "no", "off"}) {
    if (*value == word) {
      return false;
    }
  }
  malformed(name, written, "1, true, yes, on, 0, false, no, off");
}

std::optional<int64_t> parse_integer(std::string_view digits) {
  int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc() || stop != end) {
    return std::nullopt;
  }
  return value;
}

int64_t integer(const char* name, int64_t fallback, int64_t min, int64_t max) {
  const auto value = text(name);
  if (!value) {
    return fallback;
  }
  const auto number = parse_integer(*value);
  if (!number || *number < min || *number > max) {
    malformed(name,
              *value,
              "an integer from " + std::to_string(min) + " to " +
                  std::to_string(max));
  }
  return *number;
}

void malformed(const char* name,
               std::string_view value,
               std::string_view accepted) {
  std::string message(name);
  message.append("=").append(value);
  message.append(" is not valid; accepted: ").append(accepted);
  throw std::invalid_argument(message);
}

}  // namespace neuronx::env
