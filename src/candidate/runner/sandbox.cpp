#include "candidate/runner/sandbox.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>

#include "candidate/runner/seccomp.h"

namespace fk {
namespace {

constexpr const char* kDriverCannot = "the GPU's driver does not work behind it";

Protection outcome(std::string name, bool on) { return {std::move(name), on, on ? "" : strerror(errno)}; }

bool write_file(const char* path, const std::string& text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  int error = errno;
  close(fd);
  errno = error;
  return written;
}

// Landlock by number, since the headers of older systems lack the later rights.
namespace landlock {
constexpr uint64_t kExecute = 1, kReadFile = 1u << 2, kReadDir = 1u << 3;
constexpr uint64_t kFileRights = kExecute | (1u << 1) | kReadFile | (1u << 14) | (1u << 15);
struct Ruleset {
  uint64_t filesystem, network, scoped;
};
struct __attribute__((packed)) PathRule {
  uint64_t allowed;
  int32_t parent_fd;
};

bool allow(int ruleset, const std::string& path, uint64_t rights) {
  int fd = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT;
  struct stat info {};
  if (fstat(fd, &info) == 0 && !S_ISDIR(info.st_mode)) rights &= kFileRights;
  PathRule rule{rights, fd};
  bool added = syscall(SYS_landlock_add_rule, ruleset, 1, &rule, 0) == 0;
  close(fd);
  return added;
}

// What a driver that has already started may still open: its devices, and what it says about itself and the machine.
bool allow_gpu(int ruleset, uint64_t handled) {
  constexpr uint64_t kWriteFile = 1u << 1, kIoctl = 1u << 15;
  bool done = true;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", error))
    if (entry.path().filename().string().starts_with("nvidia"))
      done = done && allow(ruleset, entry.path().string(), (kReadFile | kWriteFile | kReadDir | kIoctl) & handled);
  for (const char* path : {"/proc/driver", "/proc/devices", "/proc/cpuinfo", "/proc/meminfo", "/proc/self",
                           "/sys/devices", "/sys/bus/pci", "/sys/class", "/sys/module"})
    done = done && allow(ruleset, path, kReadFile | kReadDir);
  return done;
}

bool restrict(const SandboxLimits& limits) {
  long abi = syscall(SYS_landlock_create_ruleset, nullptr, 0, 1);
  if (abi < 1) return false;
  Ruleset rules{};
  int rights = abi >= 5 ? 16 : abi >= 3 ? 15 : abi >= 2 ? 14 : 13;
  rules.filesystem = (uint64_t{1} << rights) - 1;
  if (abi >= 4) rules.network = 3;
  if (abi >= 6) rules.scoped = 3;
  size_t size = abi >= 6 ? 24 : abi >= 4 ? 16 : 8;
  auto ruleset = static_cast<int>(syscall(SYS_landlock_create_ruleset, &rules, size, 0));
  if (ruleset < 0) return false;
  bool done = true;
  for (const char* path : {"/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/dev/null", "/dev/zero", "/dev/urandom"})
    done = done && allow(ruleset, path, kExecute | kReadFile | kReadDir);
  if (limits.drives_gpu) done = done && allow_gpu(ruleset, rules.filesystem);
  for (const std::string& path : limits.readable) done = done && allow(ruleset, path, kExecute | kReadFile);
  if (!limits.private_tmp.empty()) done = done && allow(ruleset, limits.private_tmp, rules.filesystem & ~kExecute);
  done = done && syscall(SYS_landlock_restrict_self, ruleset, 0) == 0;
  int error = errno;
  close(ruleset);
  errno = error;
  return done;
}
}  // namespace landlock

bool limit(int which, rlim_t value) {
  rlimit r{value, value};
  return setrlimit(static_cast<__rlimit_resource>(which), &r) == 0;
}

}  // namespace

std::vector<Protection> enter_namespaces(const std::string& private_tmp, Walls walls) {
  std::vector<Protection> all;
  uid_t uid = getuid();
  gid_t gid = getgid();
  if (walls >= Walls::kNoNamespaces)
    return {{"namespaces", false, kDriverCannot}, {"private tmp", false, "it needs the namespaces"}};
  bool own_pids = walls < Walls::kNoPidNamespace;
  int wanted = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWUTS;
  bool inside = unshare(wanted | (own_pids ? CLONE_NEWPID | CLONE_NEWIPC : 0)) == 0;
  all.push_back(outcome("namespaces", inside));
  if (!own_pids) all.push_back({"pid namespace", false, kDriverCannot});
  if (!inside) {
    all.push_back({"private tmp", false, "it needs the namespaces"});
    return all;
  }
  write_file("/proc/self/setgroups", "deny");
  bool mapped = write_file("/proc/self/uid_map", "0 " + std::to_string(uid) + " 1") &&
                write_file("/proc/self/gid_map", "0 " + std::to_string(gid) + " 1");
  bool mounted = mapped && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                 mount("tmpfs", private_tmp.c_str(), "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=64m") == 0;
  all.push_back(outcome("private tmp", mounted));
  return all;
}

std::vector<Protection> restrict_self(const SandboxLimits& limits) {
  std::vector<Protection> all;
  // Private memory only: what the judge shares does not count against it.
  bool limited = limit(RLIMIT_DATA, limits.private_memory_bytes) && limit(RLIMIT_CORE, 0) &&
                 limit(RLIMIT_FSIZE, rlim_t{64} << 20) && limit(RLIMIT_NOFILE, limits.drives_gpu ? 1024 : 256);
  all.push_back(outcome("resource limits", limited));
  prctl(PR_SET_DUMPABLE, 0);
  bool fixed = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
  all.push_back(outcome("no new privileges", fixed));
  if (limits.walls < Walls::kNone)
    all.push_back(outcome("landlock", landlock::restrict(limits)));
  else
    all.push_back({"landlock", false, kDriverCannot});
  if (limits.walls < Walls::kNoSeccomp)
    all.push_back(outcome("seccomp", install_seccomp_filter(limits.drives_gpu)));
  else
    all.push_back({"seccomp", false, kDriverCannot});
  return all;
}

}  // namespace fk
