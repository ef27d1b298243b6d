// ProfileStore: what trials of generated kernels found out, kept between runs.
//
// A file for each entry, written whole and with a hash of its text: an entry that a killed process or a full disk left
// incomplete, or that someone changed, is not read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compiler/plan/region_trial.h"

namespace fk {

class ProfileStore {
 public:
  // Empty: in the cache folder of candidates. The folder is made when something is stored.
  explicit ProfileStore(std::string folder = {});

  std::optional<TrialResult> find(const std::string& key) const;
  // False where the folder cannot be written, and for a result that says more about the machine than about the kernel
  // (TrialResult::lasts); it is then measured again next time.
  bool store(const std::string& key, const TrialResult& result) const;
  // Removes all entries; how many there were.
  int64_t clear() const;
  // Removes the entries beyond this number that were not used for the longest time.
  void prune(int64_t most = 4096) const;

  const std::string& folder() const { return folder_; }

 private:
  std::string path(const std::string& key) const;

  std::string folder_;
};

// Of a kernel in this program on this machine: another build of the baselines, another CPU or number of threads is
// another key.
std::string profile_key(const std::string& kernel, const TrialOptions& options);

}  // namespace fk
