// SPDX-License-Identifier: Apache-2.0
#include "compiler/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <system_error>
#include <utility>

#include "compiler/error.h"

namespace neuronx::compiler {
namespace {

// Descriptors of held locks, so that a forked child can close its copies: the
// lock is the open file's and would live on in the child.
std::array<std::atomic<int>, 4096> held;

int keep(int fd) {
  static std::once_flag once;
  std::call_once(once, [] {
    for (auto& slot : held) {
      slot = -1;
    }
    pthread_atfork(nullptr, nullptr, [] {
      for (auto& slot : held) {
        if (const int copy = slot.exchange(-1); copy >= 0) {
          ::close(copy);
        }
      }
    });
  });
  for (size_t i = 0; i < held.size(); ++i) {
    int empty = -1;
    if (held[i].compare_exchange_strong(empty, fd)) {
      return static_cast<int>(i);
    }
  }
  ::close(fd);
  throw std::system_error(EMFILE, std::generic_category(), "too many locks");
}

[[noreturn]] void fail(const char* what, const fs::path& path) {
  throw std::system_error(errno,
                          std::generic_category(),
                          fmt::format("cannot {} {}", what, path.string()));
}

void write_all(int fd, std::string_view bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      fail("write", path);
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

// A descriptor that closes with the scope.
struct File {
  int fd;
  ~File() { ::close(fd); }
};

constexpr const char* kWorkPrefix = "torch_neuronx.";
constexpr const char* kLockName = "lock";

// Work directories whose owner is gone. Young ones may not have their lock
// yet.
void remove_abandoned(const fs::path& parent) {
  std::error_code failed;
  for (fs::directory_iterator it(parent, failed), end; !failed && it != end;
       it.increment(failed)) {
    if (!it->path().filename().string().starts_with(kWorkPrefix)) {
      continue;
    }
    struct stat status{};
    if (::lstat(it->path().c_str(), &status) != 0 || !S_ISDIR(status.st_mode) ||
        status.st_uid != ::getuid() || ::time(nullptr) - status.st_mtime < 60 ||
        !fs::exists(it->path() / kLockName, failed)) {
      continue;
    }
    try {
      if (const auto lock = FileLock::try_acquire(it->path() / kLockName)) {
        std::error_code ignored;
        fs::remove_all(it->path(), ignored);
      }
    } catch (const std::system_error&) {
    }
  }
}

}  // namespace

std::optional<std::string> read_file(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return std::nullopt;
  }
  const File file{fd};
  struct stat status{};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    return std::nullopt;
  }
  std::string bytes(static_cast<size_t>(status.st_size), '\0');
  size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t got = ::read(fd, bytes.data() + size, bytes.size() - size);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return std::nullopt;
    }
    if (got == 0) {
      break;
    }
    size += static_cast<size_t>(got);
  }
  bytes.resize(size);
  return bytes;
}

void write_file(const fs::path& path, std::string_view bytes) {
  const int fd =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) {
    fail("write", path);
  }
  const File file{fd};
  write_all(fd, bytes, path);
}

void write_atomically(const fs::path& path, std::string_view bytes) {
  fs::create_directories(path.parent_path());
  std::string temporary = path.string() + ".XXXXXX.tmp";
  const int fd = ::mkostemps(temporary.data(), 4, O_CLOEXEC);
  if (fd < 0) {
    fail("write", path);
  }
  try {
    const File file{fd};
    ::fchmod(fd, 0644);
    write_all(fd, bytes, path);
    if (::fsync(fd) != 0) {
      fail("write", path);
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
      fail("write", path);
    }
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

std::string json_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 32) {
      result += fmt::format("\\u{:04x}", c);
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::optional<FileLock> FileLock::try_acquire(const fs::path& path,
                                              uint64_t byte) {
  const int fd =
      ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) {
    fail("open the lock", path);
  }
  struct flock range{};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(byte & 0x3fffffffffffffff);
  range.l_len = 1;
  if (::fcntl(fd, F_OFD_SETLK, &range) != 0) {
    const bool held_by_another = errno == EAGAIN || errno == EACCES;
    const int error = errno;
    ::close(fd);
    if (held_by_another) {
      return std::nullopt;
    }
    errno = error;
    fail("lock", path);
  }
  return FileLock(keep(fd));
}

FileLock::FileLock(FileLock&& other) noexcept
    : slot_(std::exchange(other.slot_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(slot_, other.slot_);
  return *this;
}

FileLock::~FileLock() {
  if (slot_ >= 0) {
    if (const int fd = held[slot_].exchange(-1); fd >= 0) {
      // A child that was just forked may still have its copy.
      struct flock all{};
      all.l_type = F_UNLCK;
      all.l_whence = SEEK_SET;
      ::fcntl(fd, F_OFD_SETLK, &all);
      ::close(fd);
    }
  }
}

WorkDirectory::WorkDirectory() {
  std::error_code failed;
  const fs::path parent = fs::temp_directory_path(failed);
  static std::once_flag once;
  std::call_once(once, [&] { remove_abandoned(parent); });
  std::string pattern = (parent / kWorkPrefix).string() + "XXXXXX";
  if (failed || ::mkdtemp(pattern.data()) == nullptr) {
    throw CompileError(fmt::format(
        "cannot make a work directory {}: {}; set TMPDIR to a folder that can "
        "be written",
        pattern,
        failed ? failed.message() : std::generic_category().message(errno)));
  }
  path = pattern;
  try {
    lock_ = FileLock::try_acquire(path / kLockName);
  } catch (const std::system_error&) {
    // Nobody removes a directory without the file.
  }
}

WorkDirectory::~WorkDirectory() {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

}  // namespace neuronx::compiler
