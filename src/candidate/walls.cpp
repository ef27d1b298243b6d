#include "candidate/walls.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "candidate/landlock.h"
#include "candidate/seccomp.h"

namespace fk {
namespace {

constexpr const char* kDriverCannot = "the GPU's driver does not work with it";

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

// What a driver may still open after its start: its devices, and information about itself and the machine.
void allow_gpu(LandlockRules& rules) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", error))
    if (entry.path().filename().string().starts_with("nvidia"))
      rules.allow(entry.path().string(), LandlockRules::kRead | LandlockRules::kWriteFile | LandlockRules::kControl);
  for (const char* path : {"/proc/driver", "/proc/devices", "/proc/cpuinfo", "/proc/meminfo", "/proc/self",
                           "/sys/devices", "/sys/bus/pci", "/sys/class", "/sys/module"})
    rules.allow(path, LandlockRules::kRead);
}

bool restrict_files(const SandboxLimits& limits) {
  LandlockRules rules;
  for (const char* path : {"/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/dev/null", "/dev/zero", "/dev/urandom"})
    rules.allow(path, LandlockRules::kRun);
  if (limits.drives_gpu) allow_gpu(rules);
  for (const std::string& path : limits.readable) rules.allow(path, LandlockRules::kExecute | LandlockRules::kReadFile);
  if (!limits.private_tmp.empty()) rules.allow(limits.private_tmp, LandlockRules::kAllButExecute);
  errno = rules.error();
  return errno == 0 && rules.restrict_self();
}

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
  // Small on a CPU: a copy of the weights in a file would be memory that is not counted as the process' own. A driver keeps
  // what it compiles there.
  const char* size = own_pids ? "size=1m" : "size=64m";
  bool mounted = mapped && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                 mount("tmpfs", private_tmp.c_str(), "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, size) == 0;
  all.push_back(outcome("private tmp", mounted));
  return all;
}

std::vector<Protection> restrict_self(const SandboxLimits& limits) {
  std::vector<Protection> all;
  // Private memory only: memory shared by the judge does not count.
  bool limited = limit(RLIMIT_DATA, limits.private_memory_bytes) && limit(RLIMIT_CORE, 0) &&
                 limit(RLIMIT_FSIZE, rlim_t{64} << 20) && limit(RLIMIT_NOFILE, limits.drives_gpu ? 1024 : 256);
  all.push_back(outcome("resource limits", limited));
  prctl(PR_SET_DUMPABLE, 0);
  bool fixed = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
  all.push_back(outcome("no new privileges", fixed));
  if (limits.walls < Walls::kNone)
    all.push_back(outcome("landlock", restrict_files(limits)));
  else
    all.push_back({"landlock", false, kDriverCannot});
  return all;
}

Protection restrict_system_calls(const SandboxLimits& limits, const std::vector<AddressRange>& ours) {
  if (limits.walls >= Walls::kNoSeccomp) return {"seccomp", false, kDriverCannot};
  return outcome("seccomp", install_seccomp_filter(ours, limits.drives_gpu));
}

}  // namespace fk
