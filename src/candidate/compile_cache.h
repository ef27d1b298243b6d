// The cache of compiled candidates, safe for several processes at once.
//
// A build depends on included files, which only the compiler can list. So a build writes a list of them beside its
// result. The list is named by a hash of the source, flags and compiler; the result by a hash of that and the contents
// of the listed files. As in other compiler caches, a new file that would shadow a listed one is not noticed.
//
// A process that uses a result locks it; pruning never removes locked results. A result that was damaged, by a full
// disk or a hand, is removed when it is found, and built again.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fk {

// A 128-bit hash (FNV-1a) of texts with separators. Not cryptographic.
class Fingerprint {
 public:
  Fingerprint& add(std::string_view text);
  std::string hex() const;

 private:
  uint64_t high_ = 0x6c62272e07bb0142;
  uint64_t low_ = 0x62b821756295c58d;
};

// The whole text of a file of at most 64 MiB; nothing where it cannot be read.
std::optional<std::string> file_text(const std::string& path);

// Writes a file so that readers see all of it or nothing. False where the folder cannot be written.
bool write_whole(const std::string& path, std::string_view text);

// A name beside `path` that no other process uses.
std::string temporary_name(const std::string& path);

// A result of the cache; it is not removed while this object exists.
struct HeldBuild {
  std::string path;
  std::shared_ptr<void> lock;
};

struct CacheLimits {
  uint64_t bytes = uint64_t{256} << 20;  // of all results; the least recently used are removed first
  std::chrono::hours unused{30 * 24};    // results and lists unused for this time are removed
};

class CompileCache {
 public:
  explicit CompileCache(std::string folder) : folder_(std::move(folder)) {}

  // The result of an earlier build under `key`, if every file it depended on is unchanged.
  std::optional<HeldBuild> find(const std::string& key) const;
  // Moves a finished build into the cache, with the list of its dependencies. Empty if that failed.
  std::optional<HeldBuild> store(const std::string& key, const std::string& built,
                                 const std::vector<std::string>& inputs) const;
  // Removes results that were built from files of this folder and are not in use; how many there were.
  int64_t remove_builds_from(const std::string& sources) const;
  // Removes results beyond the limits and incomplete builds of killed processes. Never throws.
  void prune(const CacheLimits& limits = {}) const;

  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

// The files named by the Makefile rule that -MD writes.
std::vector<std::string> files_in_rule(std::string_view rule);

}  // namespace fk
