#include "candidate/landlock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace fk {
namespace {

constexpr uint64_t kFileRights = LandlockRules::kExecute | LandlockRules::kWriteFile | LandlockRules::kReadFile |
                                 (1u << 14) | LandlockRules::kControl;
struct Ruleset {
  uint64_t filesystem, network, scoped;
};
struct __attribute__((packed)) PathRule {
  uint64_t allowed;
  int32_t parent_fd;
};

}  // namespace

LandlockRules::LandlockRules() {
  long abi = syscall(SYS_landlock_create_ruleset, nullptr, 0, 1);
  Ruleset rules{};
  int rights = abi >= 5 ? 16 : abi >= 3 ? 15 : abi >= 2 ? 14 : 13;
  rules.filesystem = handled_ = (uint64_t{1} << rights) - 1;
  if (abi >= 4) rules.network = 3;
  if (abi >= 6) rules.scoped = 3;
  size_t size = abi >= 6 ? 24 : abi >= 4 ? 16 : 8;
  if (abi >= 1) ruleset_ = static_cast<int>(syscall(SYS_landlock_create_ruleset, &rules, size, 0));
  if (ruleset_ < 0) error_ = errno;
}

LandlockRules::~LandlockRules() {
  if (ruleset_ >= 0) close(ruleset_);
}

void LandlockRules::allow(const std::string& path, uint64_t rights) {
  if (error_ != 0) return;
  int fd = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) {
    if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) error_ = errno;
    return;
  }
  rights &= handled_;
  struct stat info {};
  if (fstat(fd, &info) == 0 && !S_ISDIR(info.st_mode)) rights &= kFileRights;
  PathRule rule{rights, fd};
  if (syscall(SYS_landlock_add_rule, ruleset_, 1, &rule, 0) != 0) error_ = errno;
  close(fd);
}

bool LandlockRules::restrict_self() const { return syscall(SYS_landlock_restrict_self, ruleset_, 0) == 0; }

}  // namespace fk
