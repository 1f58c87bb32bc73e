// SPDX-License-Identifier: Apache-2.0
// The compile cache's files: found whole or not at all.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "common/hash.h"
#include "compiler/neff_cache.h"

namespace neuronx::compiler {
namespace {

std::string make_neff(const std::string& body) {
  std::string bytes(1024, '\0');
  const uint64_t header = 1024, data = body.size();
  std::memcpy(bytes.data() + 8, &header, 8);
  std::memcpy(bytes.data() + 16, &data, 8);
  return bytes + body;
}

class NeffCacheTest : public testing::Test {
 protected:
  NeffCacheTest() : cache_(work_.path / "cache") {}

  std::string key(int i) const { return sha256_hex(std::to_string(i)); }
  fs::path file(const std::string& key, const char* suffix) const {
    return cache_.directory() / key.substr(0, 2) / (key + "-1.0" + suffix);
  }

  const WorkDirectory work_;
  const NeffCache cache_;
};

TEST_F(NeffCacheTest, FindsWhatWasStored) {
  const std::string neff = make_neff("body");
  cache_.store(key(1), "1.0", neff, "\"lnc\": 2");
  EXPECT_EQ(cache_.find(key(1), "1.0").neff, neff);
  EXPECT_FALSE(cache_.find(key(1), "1.1"));
  EXPECT_FALSE(cache_.find(key(2), "1.0"));
  EXPECT_EQ(*read_file(file(key(1), ".json")),
            "{\"sha256\": \"" + sha256_hex(neff) + "\", \"lnc\": 2}\n");
}

// A file cut off anywhere, or with any byte changed, is never returned.
TEST_F(NeffCacheTest, NeverReturnsChangedBytes) {
  const std::string neff = make_neff("a body of some bytes");
  cache_.store(key(1), "1.0", neff, "\"lnc\": 2");
  const std::string sidecar = *read_file(file(key(1), ".json"));
  for (const bool of_neff : {true, false}) {
    const fs::path path = file(key(1), of_neff ? ".neff" : ".json");
    const std::string& whole = of_neff ? neff : sidecar;
    const size_t digest_end = of_neff ? whole.size() : 12 + 64;
    for (size_t size = 0; size < digest_end; ++size) {
      write_file(path, whole.substr(0, size));
      const Found found = cache_.find(key(1), "1.0");
      EXPECT_FALSE(found) << path << " cut to " << size;
      EXPECT_TRUE(found.damaged);
    }
    for (size_t i = 0; i < digest_end; ++i) {
      std::string changed = whole;
      changed[i] ^= 1;
      write_file(path, changed);
      EXPECT_FALSE(cache_.find(key(1), "1.0")) << path << " byte " << i;
    }
    write_file(path, whole);
    EXPECT_EQ(cache_.find(key(1), "1.0").neff, neff);
  }
}

TEST_F(NeffCacheTest, NewestVersionCountsByNumbers) {
  for (const char* version : {"2.9.0", "2.10.0", "2.10.0+a", "1.99"}) {
    cache_.store(key(1), version, make_neff(version), "\"lnc\": 2");
  }
  EXPECT_EQ(cache_.newest_version(key(1)), "2.10.0+a");
  EXPECT_EQ(cache_.newest_version(key(2)), "");
  EXPECT_TRUE(version_less("2.9", "2.10"));
  EXPECT_TRUE(version_less("2.9", "2.9.1"));
  EXPECT_FALSE(version_less("2.9", "2.9"));
}

TEST_F(NeffCacheTest, FailuresExpireAndFutureOnesDoNotCount) {
  cache_.store_failure(key(1), "1.0", {"words\nof it", 7});
  const auto failure = cache_.find_failure(key(1), "1.0", 100);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->error, "words\nof it");
  EXPECT_EQ(failure->limit, 7);
  EXPECT_FALSE(cache_.find_failure(key(1), "1.0", 0));
  write_file(file(key(1), ".failed"),
             fmt::format("{} 0\nlater", ::time(nullptr) + 1000));
  EXPECT_FALSE(cache_.find_failure(key(1), "1.0", 100));
  for (const char* text :
       {"", "12", "x y\nz", "\n", "99999999999999999999 0\n"}) {
    write_file(file(key(1), ".failed"), text);
    EXPECT_FALSE(cache_.find_failure(key(1), "1.0", 1 << 30)) << text;
  }
}

TEST_F(NeffCacheTest, AStoredNeffEndsAFailure) {
  cache_.store_failure(key(1), "1.0", {"words", 0});
  cache_.store(key(1), "1.0", make_neff("body"), "\"lnc\": 2");
  EXPECT_FALSE(cache_.find_failure(key(1), "1.0", 100));
}

// What SIGKILL leaves at any point of a store is no entry, and a later store
// makes it one.
TEST_F(NeffCacheTest, SurvivesAKillAtAnyMoment) {
  const std::string neff = make_neff(std::string(200'000, 'x'));
  for (int i = 0; i < 60; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (;;) {
        cache_.store(key(1), "1.0", neff, "\"lnc\": 2");
      }
    }
    ::usleep(300 * i);
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    const Found found = cache_.find(key(1), "1.0");
    EXPECT_FALSE(found.damaged);
    if (found) {
      EXPECT_EQ(found.neff, neff);
    }
  }
  cache_.store(key(1), "1.0", neff, "\"lnc\": 2");
  EXPECT_EQ(cache_.find(key(1), "1.0").neff, neff);
}

// Two NEFFs of one program differ in bytes; a reader never sees a mixture.
TEST_F(NeffCacheTest, ReadersSeeWholeEntriesUnderALock) {
  const std::vector<std::string> neffs{make_neff(std::string(5000, 'a')),
                                       make_neff(std::string(9000, 'b'))};
  cache_.store(key(1), "1.0", neffs[0], "\"lnc\": 2");
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int i = 0; i < 300; ++i) {
      std::optional<FileLock> lock;
      while (!(lock = cache_.try_lock(key(1)))) {
      }
      cache_.store(key(1), "1.0", neffs[i % 2], "\"lnc\": 2");
    }
    done = true;
  });
  while (!done) {
    const Found found = cache_.find(key(1), "1.0");
    if (found) {
      EXPECT_TRUE(found.neff == neffs[0] || found.neff == neffs[1]);
    }
    if (auto lock = cache_.try_lock(key(1))) {
      EXPECT_TRUE(cache_.find(key(1), "1.0"));
    }
  }
  writer.join();
}

TEST_F(NeffCacheTest, PruneKeepsWhatWasUsedLast) {
  for (int i = 0; i < 6; ++i) {
    cache_.store(key(i), "1.0", make_neff(std::string(1000, 'x')), "\"i\": 0");
    const timespec times[2] = {{1000 + i, 0}, {1000 + i, 0}};
    ::utimensat(AT_FDCWD, file(key(i), ".json").c_str(), times, 0);
  }
  const auto all = cache_.prune(-1, -1, -1);
  EXPECT_EQ(all.kept_programs, 6);
  const auto pruned = cache_.prune(all.kept_bytes / 2, -1, -1);
  EXPECT_EQ(pruned.programs, 3);
  EXPECT_EQ(pruned.kept_bytes, all.kept_bytes / 2);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(static_cast<bool>(cache_.find(key(i), "1.0")), i >= 3) << i;
  }
}

TEST_F(NeffCacheTest, PruneLeavesWhatIsBeingCompiled) {
  cache_.store(key(1), "1.0", make_neff("body"), "\"lnc\": 2");
  {
    const auto lock = cache_.try_lock(key(1));
    EXPECT_EQ(cache_.prune(0, -1, -1).programs, 0);
  }
  EXPECT_EQ(cache_.prune(0, -1, -1).programs, 1);
}

TEST_F(NeffCacheTest, PruneOfNothingIsNothing) {
  EXPECT_EQ(NeffCache("/nonexistent").prune(0, -1, -1).programs, 0);
}

TEST(FileLockTest, ExcludesOtherBytesNot) {
  const WorkDirectory work;
  const fs::path path = work.path / "locks";
  const auto lock = FileLock::try_acquire(path, 5);
  ASSERT_TRUE(lock);
  EXPECT_FALSE(FileLock::try_acquire(path, 5));
  EXPECT_TRUE(FileLock::try_acquire(path, 6));
}

TEST(FileLockTest, EndsWithItsScope) {
  const WorkDirectory work;
  {
    const auto lock = FileLock::try_acquire(work.path / "locks");
  }
  EXPECT_TRUE(FileLock::try_acquire(work.path / "locks"));
}

// The child's copy of the descriptor would keep the lock.
TEST(FileLockTest, AForkedChildDoesNotHoldIt) {
  const WorkDirectory work;
  const fs::path path = work.path / "locks";
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  pid_t child = 0;
  {
    const auto lock = FileLock::try_acquire(path);
    child = ::fork();
    if (child == 0) {
      char byte;
      ::close(ends[1]);
      ::_exit(static_cast<int>(::read(ends[0], &byte, 1)));
    }
  }
  EXPECT_TRUE(FileLock::try_acquire(path));
  ::close(ends[1]);
  ::waitpid(child, nullptr, 0);
}

TEST(FilesTest, AtomicWriteLeavesNothingWhenItFails) {
  const WorkDirectory work;
  fs::create_directory(work.path / "taken");
  write_file(work.path / "taken" / "x", "in it");
  // A directory that is not empty cannot be replaced by a file.
  EXPECT_THROW(write_atomically(work.path / "taken", "bytes"),
               std::system_error);
  for (const auto& entry : fs::directory_iterator(work.path)) {
    EXPECT_NE(entry.path().extension(), ".tmp");
  }
  EXPECT_THROW(write_file("/dev/full", "bytes"), std::system_error);
}

TEST(FilesTest, JsonStringsAreEscaped) {
  EXPECT_EQ(json_string("a\"b\\c\n\x01"), "\"a\\\"b\\\\c\\u000a\\u0001\"");
}

}  // namespace
}  // namespace neuronx::compiler
