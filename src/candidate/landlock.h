// LandlockRules: which files a process, and all it starts, may still reach. By number, since the headers of older
// systems lack the later rights.
#pragma once

#include <cstdint>
#include <string>

namespace fk {

class LandlockRules {
 public:
  static constexpr uint64_t kExecute = 1, kWriteFile = 1u << 1, kReadFile = 1u << 2, kReadFolder = 1u << 3,
                            kControl = 1u << 15;
  static constexpr uint64_t kRead = kReadFile | kReadFolder, kRun = kRead | kExecute;
  static constexpr uint64_t kAllButExecute = ~kExecute;

  // Nothing is allowed yet, the network included.
  LandlockRules();
  ~LandlockRules();
  LandlockRules(const LandlockRules&) = delete;
  LandlockRules& operator=(const LandlockRules&) = delete;

  // A file, or a folder and everything below it. What is not there cannot be reached anyway.
  void allow(const std::string& path, uint64_t rights);

  // Why these rules cannot hold, as an errno; 0 where they can.
  int error() const { return error_; }
  // Puts the calling thread and all it starts under them, for good; it must have given up new privileges. Makes one
  // system call and nothing else. False, with errno, where that failed.
  bool restrict_self() const;

 private:
  uint64_t handled_ = 0;
  int ruleset_ = -1;
  int error_ = 0;
};

}  // namespace fk
