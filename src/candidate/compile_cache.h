// The cache of compiled candidates: which file a build has, whether it is there, and how it gets there without two
// processes disturbing each other.
//
// A build depends on files that only the compiler knows (what the source includes). So a build leaves a list of them
// beside its result, named by all that is known beforehand; the result itself is named by that and the contents of the
// listed files. As in other compiler caches, a new file that would shadow a listed one is not noticed.
//
// Whoever uses a result holds a lock on it; pruning leaves locked ones alone, whatever their age and size.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fk {

// A 128-bit fingerprint (FNV-1a) of texts, each set off from the next. Against accidents, not against attackers.
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

// A result of the cache that stays where it is as long as this lives.
struct HeldBuild {
  std::string path;
  std::shared_ptr<void> lock;
};

struct CacheLimits {
  uint64_t bytes = uint64_t{256} << 20;  // of all results; those unused for longest go first
  std::chrono::hours unused{30 * 24};    // a result or a list nobody asked for in this time goes
};

class CompileCache {
 public:
  explicit CompileCache(std::string folder) : folder_(std::move(folder)) {}

  // The result of an earlier build under `key`, if every file it depended on is as it was.
  std::optional<HeldBuild> find(const std::string& key) const;
  // Moves a finished build into its place, with the files it depended on. Nothing where that failed.
  std::optional<HeldBuild> store(const std::string& key, const std::string& built,
                                 const std::vector<std::string>& inputs) const;
  // Removes what is beyond the limits and what processes that were killed left half done. Never throws.
  void prune(const CacheLimits& limits = {}) const;

  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

// The files named by the Makefile rule that -MD writes.
std::vector<std::string> files_in_rule(std::string_view rule);

}  // namespace fk
