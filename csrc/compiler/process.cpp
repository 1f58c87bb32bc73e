// SPDX-License-Identifier: Apache-2.0
#include "compiler/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/env.h"
#include "compiler/error.h"
#include "compiler/files.h"
#include "compiler/wait.h"

extern char** environ;

namespace neuronx::compiler {
namespace {

// What the child does between vfork and exec: system calls only, since it
// runs in our memory. Returns only on failure, with errno.
void become(char* const* argv,
            const char* directory,
            pid_t parent,
            const sigset_t& signals) {
  ::setpgid(0, 0);
  // posix_spawn has no way to ask for this: a compiler outlives nobody.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent || ::chdir(directory) != 0) {
    return;
  }
  const int null = ::open("/dev/null", O_RDONLY);
  const int log =
      ::open("compiler.log", O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
  if (null < 0 || log < 0 || ::dup2(null, 0) < 0 || ::dup2(log, 1) < 0 ||
      ::dup2(log, 2) < 0) {
    return;
  }
  struct sigaction standard{};
  standard.sa_handler = SIG_DFL;
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) {
    ::sigaction(number, &standard, nullptr);
  }
  ::sigprocmask(SIG_SETMASK, &signals, nullptr);
  ::execve(argv[0], argv, environ);
}

// The child's id, or -1 with errno.
pid_t start(const std::vector<std::string>& arguments,
            const std::string& directory) {
  std::vector<char*> argv;
  for (const auto& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  // No handler of ours may run in the child, which shares our memory.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t parent = ::getpid();
  volatile int failure = 0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  const pid_t child = ::vfork();
#pragma GCC diagnostic pop
  if (child == 0) {
    become(argv.data(), directory.c_str(), parent, before);
    failure = errno;
    ::_exit(127);
  }
  const int error = child < 0 ? errno : failure;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (child > 0 && error != 0) {
    ::waitpid(child, nullptr, 0);
  }
  errno = error;
  return error == 0 ? child : -1;
}

// A running child. At its end, or the scope's, what it started is killed too.
struct Child {
  pid_t pid;
  bool running = true;
  int status = 0;

  bool poll() {
    siginfo_t info{};
    // The group's number is ours until the child is reaped.
    if (running &&
        ::waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == pid) {
      end();
    }
    return running;
  }
  void end() {
    ::kill(-pid, SIGKILL);
    ::waitpid(pid, &status, 0);
    running = false;
  }
  ~Child() {
    if (running) {
      end();
    }
  }
};

}  // namespace

Exit run(const std::vector<std::string>& arguments,
         const std::filesystem::path& directory,
         std::chrono::seconds limit) {
  const pid_t pid = start(arguments, directory);
  if (pid < 0) {
    throw CompileError(fmt::format("the program '{}' cannot be started: {}",
                                   arguments[0],
                                   std::strerror(errno)));
  }
  Exit result;
  {
    Child child{pid};
    Wait wait(limit);
    while (child.poll() && !wait.over()) {
      wait.pause();
    }
    result.timed_out = child.running;
    if (WIFEXITED(child.status)) {
      result.code = WEXITSTATUS(child.status);
    } else {
      result.signal = WTERMSIG(child.status);
    }
  }
  result.output = read_file(directory / "compiler.log").value_or("");
  return result;
}

std::string find_program(const std::string& name) {
  const auto usable = [](const fs::path& path) {
    std::error_code failed;
    return fs::is_regular_file(path, failed) &&
           ::access(path.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string::npos) {
    return usable(name) ? fs::absolute(name).string() : "";
  }
  std::string path = env::text("PATH", "/usr/local/bin:/usr/bin:/bin");
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    const fs::path candidate = fs::path(path.substr(begin, end - begin)) / name;
    if (usable(candidate)) {
      return fs::absolute(candidate).string();
    }
    begin = end + 1;
  }
  return "";
}

}  // namespace neuronx::compiler
