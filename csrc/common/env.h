// SPDX-License-Identifier: Apache-2.0
// Typed reading of environment variables. An unset or empty variable gives
// the fallback; a malformed one throws std::invalid_argument that names the
// variable, its value and what is accepted.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace neuronx::env {

std::optional<std::string> text(const char* name);
std::string text(const char* name, std::string fallback);

// 1, true, yes, on or 0, false, no, off, in any case.
bool flag(const char* name, bool fallback);

// A decimal integer in [min, max].
int64_t integer(const char* name,
                int64_t fallback,
                int64_t min = std::numeric_limits<int64_t>::min(),
                int64_t max = std::numeric_limits<int64_t>::max());

// The whole of `digits` as a decimal integer.
std::optional<int64_t> parse_integer(std::string_view digits);

// Throws the error of this header.
[[noreturn]] void malformed(const char* name,
                            std::string_view value,
                            std::string_view accepted);

template <typename Enum>
using Choices = std::initializer_list<std::pair<std::string_view, Enum>>;

template <typename Enum>
Enum choice(const char* name, Enum fallback, Choices<Enum> choices) {
  const auto value = text(name);
  if (!value) {
    return fallback;
  }
  std::string accepted;
  for (const auto& [word, meaning] : choices) {
    if (*value == word) {
      return meaning;
    }
    accepted.append(accepted.empty() ? "" : ", ").append(word);
  }
  malformed(name, *value, accepted);
}

}  // namespace neuronx::env
