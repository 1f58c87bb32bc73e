// SPDX-License-Identifier: Apache-2.0
// Files that several processes share and that survive kills.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace neuronx::compiler {

namespace fs = std::filesystem;

// nullopt if it cannot be read.
std::optional<std::string> read_file(const fs::path& path);

// Throws std::system_error that names the path.
void write_file(const fs::path& path, std::string_view bytes);

// Readers see the old or the whole new file, whenever we are killed: a
// temporary file, fsync, rename. Makes the directory. Throws
// std::system_error and leaves nothing behind.
void write_atomically(const fs::path& path, std::string_view bytes);

// A string of JSON, in quotes.
std::string json_string(std::string_view text);

// An exclusive lock on one byte of a file, which excludes other threads and
// processes and ends with the process, however it ends. A child forked
// meanwhile does not hold it.
class FileLock {
 public:
  // nullopt if another holds it. Throws std::system_error if the file cannot
  // be opened.
  static std::optional<FileLock> try_acquire(const fs::path& path,
                                             uint64_t byte = 0);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

 private:
  explicit FileLock(int slot) : slot_(slot) {}
  int slot_;  // of the table of open locks, or -1
};

// A directory of our own that goes with the scope, also when we throw. Those
// that killed processes left behind are removed.
class WorkDirectory {
 public:
  WorkDirectory();
  ~WorkDirectory();
  WorkDirectory(const WorkDirectory&) = delete;
  fs::path path;

 private:
  std::optional<FileLock> lock_;
};

}  // namespace neuronx::compiler
