// SPDX-License-Identifier: Apache-2.0
#include "common/env.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>

namespace neuronx::env {
namespace {

constexpr const char* kName = "NEURONX_ENV_TEST";

class Env : public testing::Test {
 protected:
  void TearDown() override { unsetenv(kName); }
  void set(const char* value) { setenv(kName, value, 1); }
};

template <typename Read>
std::string error_of(Read&& read) {
  try {
    read();
    return "";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

TEST_F(Env, UnsetAndEmptyGiveTheFallback) {
  for (const char* value : {"", static_cast<const char*>(nullptr)}) {
    value != nullptr ? set(value) : TearDown();
    EXPECT_EQ(std::nullopt, text(kName));
    EXPECT_EQ("x", text(kName, "x"));
    EXPECT_TRUE(flag(kName, true));
    EXPECT_EQ(7, integer(kName, 7));
    EXPECT_EQ(2, choice(kName, 2, {{"one", 1}}));
  }
}

TEST_F(Env, FlagsTakeTheUsualWords) {
  for (const char* value : {"1", "true", "YES", "On"}) {
    set(value);
    EXPECT_TRUE(flag(kName, false)) << value;
  }
  for (const char* value : {"0", "False", "no", "OFF"}) {
    set(value);
    EXPECT_FALSE(flag(kName, true)) << value;
  }
  set("Maybe");
  EXPECT_EQ(
      "NEURONX_ENV_TEST=Maybe is not valid; accepted: 1, true, yes, on, 0, "
      "false, no, off",
      error_of([] { flag(kName, true); }));
}

TEST_F(Env, IntegersAreWholeAndInRange) {
  set("-12");
  EXPECT_EQ(-12, integer(kName, 0));
  for (const char* value :
       {"x", "1x", " 1", "1.5", "0", "9", "1e3", "99999999999999999999"}) {
    set(value);
    EXPECT_EQ(std::string(kName) + "=" + value +
                  " is not valid; accepted: an integer from 1 to 8",
              error_of([] { integer(kName, 1, 1, 8); }));
  }
}

TEST_F(Env, ChoicesAreListed) {
  set("two");
  EXPECT_EQ(2, choice(kName, 0, {{"one", 1}, {"two", 2}}));
  set("three");
  EXPECT_EQ("NEURONX_ENV_TEST=three is not valid; accepted: one, two",
            error_of([] { choice(kName, 0, {{"one", 1}, {"two", 2}}); }));
}

}  // namespace
}  // namespace neuronx::env
