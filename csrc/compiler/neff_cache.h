// SPDX-License-Identifier: Apache-2.0
// NEFFs on disk, by content, shared by processes and hosts. A folder holds
//   ab/abcd...-2.28.7631.0.neff    the compiler's file; the name is the
//                                  program's key and the compiler's version
//   ab/abcd...-2.28.7631.0.json    what it is; its first member is the NEFF's
//                                  SHA-256, its mtime the last use
//   ab/abcd...-2.28.7631.0.failed  a failure, for some time
//   locks                          a byte per program
// A NEFF counts once its .json is there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/files.h"

namespace neuronx::compiler {

// A NEFF is a 1024-byte header with its own and the data's size, then data.
bool is_neff(std::string_view bytes);

struct Found {
  std::string neff;      // empty: none
  bool damaged = false;  // there was one, whose bytes have changed
  std::string details;   // that it was stored with
  explicit operator bool() const { return !neff.empty(); }
};

struct Failure {
  std::string error;
  // Seconds that the compiler was given when it did not finish, else 0: who
  // gives it more may try again.
  int64_t limit = 0;
};

class NeffCache {
 public:
  explicit NeffCache(fs::path directory);

  const fs::path& directory() const { return directory_; }

  Found find(const std::string& key, const std::string& version) const;
  // The highest version of the compiler that there is a NEFF of, or "".
  std::string newest_version(const std::string& key) const;
  // `details` are further members of the JSON object, as in "\"lnc\": 2".
  // Throws std::system_error.
  void store(const std::string& key,
             const std::string& version,
             std::string_view neff,
             std::string_view details) const;
  void remove(const std::string& key, const std::string& version) const;

  // A failure of less than `keep` seconds ago; one from the future, written
  // before a clock was set back, does not count.
  std::optional<Failure> find_failure(const std::string& key,
                                      const std::string& version,
                                      int64_t keep) const;
  // Throws std::system_error.
  void store_failure(const std::string& key,
                     const std::string& version,
                     const Failure& failure) const;

  // Excludes other compilations of the program. nullopt while another
  // process or thread holds it. Throws std::system_error.
  std::optional<FileLock> try_lock(const std::string& key) const;

  struct Pruned {
    int64_t programs = 0, bytes = 0;            // removed
    int64_t kept_programs = 0, kept_bytes = 0;  // still there
  };
  // Removes what was used least recently until at most `bytes` remain, what
  // was not used for `seconds`, failures of more than `keep` seconds ago, and
  // what killed processes left behind. Negative: no limit. Entries being
  // compiled are left alone.
  Pruned prune(int64_t bytes, int64_t seconds, int64_t keep) const;

 private:
  fs::path path(const std::string& key,
                const std::string& version,
                const char* suffix) const;
  fs::path directory_;
};

// Of versions such as "2.28.7631.0", number by number.
bool version_less(std::string_view a, std::string_view b);

}  // namespace neuronx::compiler
