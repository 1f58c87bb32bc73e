// SPDX-License-Identifier: Apache-2.0
#include "compiler/neff_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <ctime>

#include "common/hash.h"

namespace neuronx::compiler {
namespace {

// How a sidecar begins; the digest follows.
constexpr std::string_view kPrefix = "{\"sha256\": \"";
constexpr size_t kDigest = 64;
constexpr size_t kKey = 64;
// Uses within this time are one: a hit need not write.
constexpr int64_t kUseResolution = 600;
// Temporary files of running writers are younger.
constexpr int64_t kAbandoned = 3600;

void touch(const fs::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) == 0) {
    const int64_t age = ::time(nullptr) - status.st_mtime;
    if (age > kUseResolution || age < 0) {
      ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
    }
  }
}

int64_t size_of(const fs::path& path) {
  std::error_code failed;
  const auto size = fs::file_size(path, failed);
  return failed ? 0 : static_cast<int64_t>(size);
}

void remove_file(const fs::path& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
}

// Everything in a directory, nothing if it cannot be read.
template <typename Visit>
void for_each(const fs::path& directory, Visit visit) {
  std::error_code failed;
  for (fs::directory_iterator it(directory, failed), end; !failed && it != end;
       it.increment(failed)) {
    visit(it->path());
  }
}

// The number at the start of `text`, which loses it.
int64_t take_number(std::string_view& text) {
  int64_t number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(end - text.data());
  return number;
}

}  // namespace

bool is_neff(std::string_view bytes) {
  if (bytes.size() < 1024) {
    return false;
  }
  uint64_t header_size, data_size;
  std::memcpy(&header_size, bytes.data() + 8, 8);
  std::memcpy(&data_size, bytes.data() + 16, 8);
  return header_size == 1024 && data_size == bytes.size() - 1024;
}

bool version_less(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    const bool digits = std::isdigit(static_cast<unsigned char>(a[0])) &&
                        std::isdigit(static_cast<unsigned char>(b[0]));
    if (digits) {
      const int64_t x = take_number(a), y = take_number(b);
      if (x != y) {
        return x < y;
      }
    } else if (a[0] != b[0]) {
      return a[0] < b[0];
    } else {
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  return a.size() < b.size();
}

NeffCache::NeffCache(fs::path directory) : directory_(std::move(directory)) {}

fs::path NeffCache::path(const std::string& key,
                         const std::string& version,
                         const char* suffix) const {
  return directory_ / key.substr(0, 2) /
         fmt::format("{}-{}{}", key, version, suffix);
}

Found NeffCache::find(const std::string& key,
                      const std::string& version) const {
  Found found;
  const fs::path sidecar = path(key, version, ".json");
  const auto text = read_file(sidecar);
  if (!text) {
    return found;
  }
  auto neff = read_file(path(key, version, ".neff"));
  if (!neff || !text->starts_with(kPrefix) ||
      text->compare(kPrefix.size(), kDigest, sha256_hex(*neff)) != 0 ||
      !is_neff(*neff)) {
    found.damaged = true;
    return found;
  }
  touch(sidecar);
  found.neff = std::move(*neff);
  // What store() puts around them.
  const size_t begin = kPrefix.size() + kDigest + 3;
  const size_t end = text->rfind('}');
  if (end != std::string::npos && begin <= end) {
    found.details = text->substr(begin, end - begin);
  }
  return found;
}

std::string NeffCache::newest_version(const std::string& key) const {
  std::string newest;
  for_each(directory_ / key.substr(0, 2), [&](const fs::path& path) {
    if (path.extension() == ".json" &&
        path.filename().string().starts_with(key + "-")) {
      const std::string version = path.stem().string().substr(key.size() + 1);
      if (newest.empty() || version_less(newest, version)) {
        newest = version;
      }
    }
  });
  return newest;
}

void NeffCache::store(const std::string& key,
                      const std::string& version,
                      std::string_view neff,
                      std::string_view details) const {
  write_atomically(path(key, version, ".neff"), neff);
  write_atomically(
      path(key, version, ".json"),
      fmt::format("{}{}\", {}}}\n", kPrefix, sha256_hex(neff), details));
  remove_file(path(key, version, ".failed"));
}

void NeffCache::remove(const std::string& key,
                       const std::string& version) const {
  for (const char* suffix : {".json", ".neff", ".failed"}) {
    remove_file(path(key, version, suffix));
  }
}

std::optional<Failure> NeffCache::find_failure(const std::string& key,
                                               const std::string& version,
                                               int64_t keep) const {
  const auto text = read_file(path(key, version, ".failed"));
  if (!text) {
    return std::nullopt;
  }
  // "created limit\nerror"
  std::string_view rest = *text;
  const int64_t created = take_number(rest);
  rest.remove_prefix(std::min<size_t>(rest.size(), 1));
  Failure failure;
  failure.limit = take_number(rest);
  const int64_t age = ::time(nullptr) - created;
  if (age < 0 || age >= keep || !rest.starts_with('\n')) {
    return std::nullopt;
  }
  failure.error = rest.substr(1);
  return failure;
}

void NeffCache::store_failure(const std::string& key,
                              const std::string& version,
                              const Failure& failure) const {
  write_atomically(
      path(key, version, ".failed"),
      fmt::format("{} {}\n{}", ::time(nullptr), failure.limit, failure.error));
}

std::optional<FileLock> NeffCache::try_lock(const std::string& key) const {
  fs::create_directories(directory_);
  uint64_t byte = 0;
  std::from_chars(key.data(), key.data() + 15, byte, 16);
  return FileLock::try_acquire(directory_ / "locks", byte);
}

NeffCache::Pruned NeffCache::prune(int64_t bytes,
                                   int64_t seconds,
                                   int64_t keep) const {
  struct Item {
    std::string key, version;
    int64_t used, bytes;
  };
  std::vector<Item> items;
  int64_t total = 0;
  const int64_t now = ::time(nullptr);
  for_each(directory_, [&](const fs::path& shard) {
    for_each(shard, [&](const fs::path& path) {
      const std::string name = path.stem().string();
      struct stat status{};
      if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
        return;
      }
      const auto extension = path.extension();
      const int64_t age = now - status.st_mtime;
      if (name.size() < kKey + 2) {
        return;
      }
      if (extension == ".json") {
        fs::path neff = path;
        const int64_t size =
            status.st_size + size_of(neff.replace_extension(".neff"));
        items.push_back({name.substr(0, kKey),
                         name.substr(kKey + 1),
                         status.st_mtime,
                         size});
        total += size;
      } else if (extension == ".failed" ? (keep >= 0 && age >= keep)
                                        : age > kAbandoned) {
        fs::path sidecar = path;
        if (extension != ".neff" ||
            !fs::exists(sidecar.replace_extension(".json"))) {
          remove_file(path);
        }
      }
    });
  });
  std::ranges::sort(items, {}, &Item::used);
  Pruned pruned;
  for (const Item& item : items) {
    const bool too_much = bytes >= 0 && total > bytes;
    const bool too_old = seconds >= 0 && now - item.used > seconds;
    // One that is being compiled, or repaired, is in use.
    const auto lock = too_much || too_old ? try_lock(item.key) : std::nullopt;
    if (!lock) {
      ++pruned.kept_programs;
      pruned.kept_bytes += item.bytes;
      continue;
    }
    remove(item.key, item.version);
    total -= item.bytes;
    ++pruned.programs;
    pruned.bytes += item.bytes;
  }
  return pruned;
}

}  // namespace neuronx::compiler
