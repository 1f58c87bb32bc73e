// SPDX-License-Identifier: Apache-2.0
// Running another program to its end.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "compiler/error.h"
#include "compiler/files.h"
#include "compiler/process.h"
#include "compiler/wait.h"

namespace neuronx::compiler {
namespace {

using namespace std::chrono_literals;

Exit shell(const std::string& script, std::chrono::seconds limit = 60s) {
  const WorkDirectory work;
  return run({"/bin/sh", "-c", script}, work.path, limit);
}

bool ends(pid_t pid) {
  for (int i = 0; i < 500; ++i) {
    if (::kill(pid, 0) != 0) {
      return true;
    }
    // An orphan that was killed is a zombie until init reaps it.
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("State:\tZ")) {
        return true;
      }
    }
    std::this_thread::sleep_for(20ms);
  }
  return false;
}

TEST(ProcessTest, GivesCodeAndOutputOfBoth) {
  const Exit exit = shell("echo out; echo err >&2; exit 3");
  EXPECT_EQ(exit.code, 3);
  EXPECT_EQ(exit.output, "out\nerr\n");
  EXPECT_FALSE(exit.success());
  EXPECT_TRUE(shell("true").success());
}

TEST(ProcessTest, RunsInTheDirectoryWithoutInput) {
  EXPECT_EQ(shell("cat; basename $PWD | cut -c 1-14").output,
            "torch_neuronx.\n");
}

TEST(ProcessTest, GivesTheSignal) {
  EXPECT_EQ(shell("kill -9 $$").signal, 9);
}

TEST(ProcessTest, StopsAtTheLimitWithWhatItStarted) {
  const Exit exit = shell("sleep 600 & echo $!; wait", 1s);
  EXPECT_TRUE(exit.timed_out);
  EXPECT_TRUE(ends(std::stoi(exit.output)));
}

TEST(ProcessTest, WhatItLeftRunningIsStoppedToo) {
  const Exit exit = shell("sleep 600 >/dev/null 2>&1 & echo $!");
  EXPECT_TRUE(exit.success());
  EXPECT_TRUE(ends(std::stoi(exit.output)));
}

TEST(ProcessTest, MissingProgramIsAnError) {
  const WorkDirectory work;
  EXPECT_THROW(run({"/nonexistent"}, work.path, 1s), CompileError);
  EXPECT_EQ(find_program("/nonexistent"), "");
  EXPECT_EQ(find_program("no such program"), "");
  EXPECT_EQ(find_program("sh").substr(0, 1), "/");
}

TEST(ProcessTest, CancelEndsIt) {
  std::thread canceller([] {
    std::this_thread::sleep_for(300ms);
    cancel();
  });
  EXPECT_THROW(shell("sleep 600"), Cancelled);
  canceller.join();
}

// As when the interpreter is killed while it compiles.
TEST(ProcessTest, EndsWithItsParent) {
  const WorkDirectory work;
  const pid_t parent = ::fork();
  if (parent == 0) {
    run({"/bin/sh", "-c", "echo $$; exec sleep 600"}, work.path, 600s);
    ::_exit(0);
  }
  const fs::path log = work.path / "compiler.log";
  for (int i = 0; i < 500 && read_file(log).value_or("").empty(); ++i) {
    std::this_thread::sleep_for(20ms);
  }
  const pid_t child = std::stoi(read_file(log).value_or("0"));
  ASSERT_GT(child, 0);
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  EXPECT_TRUE(ends(child));
}

TEST(ProcessTest, ManyAtATime) {
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const std::string text = std::to_string(i);
      for (int k = 0; k < 10; ++k) {
        good += shell("echo " + text).output == text + "\n";
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(good, 80);
}

}  // namespace
}  // namespace neuronx::compiler
