// LandlockRules: restricts the files that a process and its children can access. Rights are numbers here, since the
// headers of older systems lack newer ones.
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

  // Nothing is allowed at first, also no network.
  LandlockRules();
  ~LandlockRules();
  LandlockRules(const LandlockRules&) = delete;
  LandlockRules& operator=(const LandlockRules&) = delete;

  // Allows a file, or a folder and everything below it. Ignored if it does not exist.
  void allow(const std::string& path, uint64_t rights);

  // An errno if these rules cannot be enforced; 0 if they can.
  int error() const { return error_; }
  // Enforces the rules permanently for the calling thread and its children; no_new_privs must be set. Makes only one
  // system call. False, with errno, if that failed.
  bool restrict_self() const;

 private:
  uint64_t handled_ = 0;
  int ruleset_ = -1;
  int error_ = 0;
};

}  // namespace fk
