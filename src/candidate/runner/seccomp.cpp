#include "candidate/runner/seccomp.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace fk {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#endif

constexpr long kAllowed[] = {
    // memory
    SYS_mmap,
    SYS_munmap,
    SYS_mremap,
    SYS_mprotect,
    SYS_madvise,
    SYS_brk,
    SYS_membarrier,
    SYS_mlock,
    SYS_munlock,
    // threads
    SYS_futex,
    SYS_exit,
    SYS_exit_group,
    SYS_set_robust_list,
    SYS_rseq,
    SYS_set_tid_address,
    SYS_gettid,
    SYS_getpid,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_sched_setaffinity,
    SYS_sched_getparam,
    SYS_sched_getscheduler,
    SYS_getcpu,
    SYS_prctl,
    // signals of its own
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_restart_syscall,
    // clocks and rest
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_gettimeofday,
    SYS_getrusage,
    SYS_times,
    SYS_getrandom,
    SYS_uname,
    SYS_sysinfo,
    SYS_prlimit64,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    // files, as far as Landlock lets them be opened
    SYS_openat,
    SYS_close,
    SYS_read,
    SYS_pread64,
    SYS_readv,
    SYS_write,
    SYS_writev,
    SYS_pwrite64,
    SYS_lseek,
    SYS_fstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_faccessat,
    SYS_readlinkat,
    SYS_getdents64,
    SYS_fcntl,
    SYS_ioctl,
    SYS_dup,
    SYS_getcwd,
    SYS_unlinkat,
    SYS_mkdirat,
    SYS_ftruncate,
    // the channel
    SYS_recvmsg,
    SYS_sendmsg,
    SYS_ppoll,
#if defined(__x86_64__)
    SYS_arch_prctl,
    SYS_open,
    SYS_stat,
    SYS_lstat,
    SYS_access,
    SYS_readlink,
    SYS_poll,
    SYS_time,
    SYS_unlink,
    SYS_mkdir,
    SYS_getdents,
    SYS_getrlimit,
#endif
};

// What the driver of a GPU uses besides.
constexpr long kDriver[] = {
    SYS_eventfd2,
    SYS_pipe2,
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_mincore,
    SYS_get_mempolicy,
    SYS_sched_get_priority_max,
    SYS_sched_get_priority_min,
    SYS_timerfd_create,
    SYS_timerfd_settime,
    SYS_statfs,
    SYS_fstatfs,
#if defined(__x86_64__)
    SYS_pipe,
    SYS_epoll_create,
    SYS_epoll_wait,
#endif
};
// Deadly otherwise, but a driver may try them without need; they fail.
constexpr long kDriverTries[] = {SYS_socket, SYS_socketpair, SYS_connect, SYS_bind, SYS_listen, SYS_memfd_create};

constexpr long kDeadly[] = {
    SYS_execve,
    SYS_execveat,
    SYS_socket,
    SYS_socketpair,
    SYS_connect,
    SYS_bind,
    SYS_listen,
    SYS_accept,
    SYS_accept4,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_pidfd_open,
    SYS_pidfd_getfd,
    SYS_kill,
    SYS_unshare,
    SYS_setns,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_memfd_create,
    SYS_seccomp,
    SYS_keyctl,
    SYS_add_key,
#if defined(__x86_64__)
    SYS_fork,
    SYS_vfork,
#endif
};

class Program {
 public:
  void load(uint32_t offset) { code_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)); }
  void answer(uint32_t action) { code_.push_back(BPF_STMT(BPF_RET | BPF_K, action)); }
  // Answers `action` where the loaded word is `value`.
  void answer_if(uint32_t value, uint32_t action) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
    answer(action);
  }
  void answer_unless(uint32_t value, uint32_t action) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0));
    answer(action);
  }
  // Where the number is `nr`: allows it if (argument & mask) == wanted, else kills.
  void judge_argument(long nr, uint32_t argument_offset, uint32_t mask, uint32_t wanted) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(nr), 0, 5));
    load(argument_offset);
    code_.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask));
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, wanted, 0, 1));
    answer(SECCOMP_RET_ALLOW);
    answer(SECCOMP_RET_KILL_PROCESS);
  }
  std::vector<sock_filter>& code() { return code_; }

 private:
  std::vector<sock_filter> code_;
};

constexpr uint32_t argument(int i) {
  return static_cast<uint32_t>(offsetof(seccomp_data, args)) + 8u * static_cast<uint32_t>(i);  // its low half
}

}  // namespace

bool install_seccomp_filter(bool drives_gpu) {
  Program program;
  program.load(offsetof(seccomp_data, arch));
  program.answer_unless(kArchitecture, SECCOMP_RET_KILL_PROCESS);
  program.load(offsetof(seccomp_data, nr));
  program.judge_argument(SYS_clone, argument(0), CLONE_THREAD, CLONE_THREAD);
  // Its flags lie in memory, where a filter cannot look; the C library then takes clone().
  program.answer_if(SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS);
  program.judge_argument(SYS_tgkill, argument(0), ~0u, static_cast<uint32_t>(getpid()));
  for (long nr : kAllowed) program.answer_if(static_cast<uint32_t>(nr), SECCOMP_RET_ALLOW);
  if (drives_gpu) {
    for (long nr : kDriver) program.answer_if(static_cast<uint32_t>(nr), SECCOMP_RET_ALLOW);
    for (long nr : kDriverTries) program.answer_if(static_cast<uint32_t>(nr), SECCOMP_RET_ERRNO | EPERM);
  }
  for (long nr : kDeadly) program.answer_if(static_cast<uint32_t>(nr), SECCOMP_RET_KILL_PROCESS);
  program.answer(SECCOMP_RET_ERRNO | EPERM);
  sock_fprog filter{static_cast<unsigned short>(program.code().size()), program.code().data()};
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) == 0;
}

bool forbid_other_cores() {
  Program program;
  program.load(offsetof(seccomp_data, nr));
  program.answer_if(SYS_sched_setaffinity, SECCOMP_RET_ERRNO | EPERM);
  program.answer(SECCOMP_RET_ALLOW);
  sock_fprog filter{static_cast<unsigned short>(program.code().size()), program.code().data()};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

}  // namespace fk
