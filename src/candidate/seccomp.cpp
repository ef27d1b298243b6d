#include "candidate/seccomp.h"

#include <asm/ioctls.h>
#include <asm/sockios.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/prctl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

extern "C" {
[[gnu::weak]] extern const unsigned __rseq_size;  // of glibc 2.35 and newer; 0: nothing is registered
}

namespace fk {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#endif

constexpr long kAllowed[] = {
    // memory
    SYS_brk,
    SYS_membarrier,
    SYS_mlock,
    SYS_munlock,
    // threads
    SYS_futex,
    SYS_exit,
    SYS_exit_group,
    SYS_set_robust_list,
    SYS_set_tid_address,
    SYS_gettid,
    SYS_getpid,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_sched_setaffinity,
    SYS_sched_getparam,
    SYS_sched_getscheduler,
    SYS_getcpu,
    // its own signals
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_restart_syscall,
    // clocks and others
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
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    // files, if Landlock allows to open them
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

// Additional system calls of a GPU's driver.
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
// These would end the process, but a driver may try them without need; for it they only fail.
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
    SYS_personality,
    SYS_process_madvise,
    SYS_pkey_mprotect,
    SYS_remap_file_pages,
#if defined(__x86_64__)
    SYS_fork,
    SYS_vfork,
#endif
};

// The prctl options that the C library and honest programs use. All other changes of the process are refused, and those
// that only an attack needs end it.
constexpr uint32_t kProcessAllowed[] = {PR_SET_NAME,
                                        PR_GET_NAME,
                                        0x53564d41,  // PR_SET_VMA: names for memory in /proc
                                        PR_GET_DUMPABLE,
                                        PR_GET_NO_NEW_PRIVS,
                                        PR_GET_TIMERSLACK,
                                        PR_CAPBSET_READ,
                                        PR_GET_THP_DISABLE,
                                        51,   // PR_SVE_GET_VL
                                        56,   // PR_GET_TAGGED_ADDR_CTRL
                                        64};  // PR_SME_GET_VL
constexpr uint32_t kProcessDeadly[] = {
    PR_SET_PDEATHSIG, PR_SET_DUMPABLE,        PR_SET_SECCOMP,    PR_SET_TSC,      PR_SET_MM,
    PR_SET_PTRACER,   PR_SET_CHILD_SUBREAPER, PR_SET_TIMERSLACK, PR_SET_KEEPCAPS, 59};  // PR_SET_SYSCALL_USER_DISPATCH

constexpr uint32_t kFileAllowed[] = {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_GETLK, F_SETLK, F_SETLKW,
                                     36,   // F_OFD_GETLK
                                     37,   // F_OFD_SETLK
                                     38};  // F_OFD_SETLKW
// Signals at a time that others control: when a message arrives, when a folder changes.
constexpr uint32_t kFileDeadly[] = {F_SETOWN,
                                    10,     // F_SETSIG
                                    15,     // F_SETOWN_EX
                                    1024,   // F_SETLEASE
                                    1026};  // F_NOTIFY

// Queries about a file; the C library checks whether it is a terminal.
constexpr uint32_t kControlAllowed[] = {TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX};
constexpr uint32_t kControlDeadly[] = {FIOSETOWN, SIOCSPGRP};

void judge_mappings(SeccompProgram& program, const std::vector<AddressRange>& ours, bool drives_gpu) {
  for (long nr : {SYS_munmap, SYS_mprotect, SYS_madvise})
    program.where(static_cast<uint32_t>(nr), [&] { program.ask_if_touched(0, 1); });
  // Without MAP_FIXED the kernel chooses a free address. MAP_FIXED_NOREPLACE alone replaces nothing.
  program.where(SYS_mmap, [&] {
    // Shared memory without a file is in no account: not in the limit of a process, not in what is its own.
    if (!drives_gpu) {
      program.load_argument(3);
      program.mask(MAP_SHARED | MAP_ANONYMOUS);
      program.answer_if(MAP_SHARED | MAP_ANONYMOUS, SECCOMP_RET_ERRNO | EPERM);
    }
    program.load_argument(3);
    program.mask(MAP_FIXED);
    program.answer_if(0, SECCOMP_RET_ALLOW);
    program.ask_if_touched(0, 1);
  });
  program.where(SYS_mremap, [&] {
    program.answer_if_touched(0, 1, ours, SECCOMP_RET_KILL_PROCESS);
    program.load_argument(3);
    program.mask(MREMAP_FIXED);
    program.answer_if(0, SECCOMP_RET_ALLOW);
    program.ask_if_touched(4, 2);
  });
}

void judge_options(SeccompProgram& program, bool drives_gpu) {
  auto answer_each = [&](const auto& list, uint32_t action) {
    for (uint32_t value : list) program.answer_if(value, action);
  };
  program.where(SYS_prctl, [&] {
    program.load_argument(0);
    answer_each(kProcessAllowed, SECCOMP_RET_ALLOW);
    answer_each(kProcessDeadly, SECCOMP_RET_KILL_PROCESS);
    program.answer(SECCOMP_RET_ERRNO | EINVAL);  // like a kernel that does not support it
  });
  program.where(SYS_fcntl, [&] {
    program.load_argument(1);
    answer_each(kFileAllowed, SECCOMP_RET_ALLOW);
    answer_each(kFileDeadly, SECCOMP_RET_KILL_PROCESS);
    program.where(F_SETFL, [&] {
      program.load_argument(2);
      program.mask(O_ASYNC);
      program.answer_if(0, SECCOMP_RET_ALLOW);
      program.answer(SECCOMP_RET_KILL_PROCESS);
    });
    program.answer(SECCOMP_RET_ERRNO | EPERM);
  });
  program.where(SYS_ioctl, [&] {
    program.load_argument(1);
    answer_each(kControlDeadly, SECCOMP_RET_KILL_PROCESS);
    if (drives_gpu) return program.answer(SECCOMP_RET_ALLOW);  // all requests of a driver are made this way
    program.answer_if(FIOASYNC, SECCOMP_RET_KILL_PROCESS);
    answer_each(kControlAllowed, SECCOMP_RET_ALLOW);
    program.answer(SECCOMP_RET_ERRNO | ENOTTY);
  });
  // Limits may be read, not set: the pointer to a new limit must be null.
  program.where(SYS_prlimit64, [&] {
    program.load_argument(2);
    program.answer_unless(0, SECCOMP_RET_ERRNO | EPERM);
    program.load_high_argument(2);
    program.answer_unless(0, SECCOMP_RET_ERRNO | EPERM);
    program.answer(SECCOMP_RET_ALLOW);
  });
#if defined(__x86_64__)
  // A thread's own segment registers, and permission for matrix tiles.
  program.where(SYS_arch_prctl, [&] {
    program.load_argument(0);
    for (uint32_t value : {0x1001u, 0x1002u, 0x1003u, 0x1004u, 0x1021u, 0x1022u, 0x1023u})
      program.answer_if(value, SECCOMP_RET_ALLOW);
    program.answer_if(0x1012, SECCOMP_RET_KILL_PROCESS);  // ARCH_SET_CPUID
    program.answer(SECCOMP_RET_ERRNO | EINVAL);
  });
#endif
}

bool install(SeccompProgram& program, unsigned flags) {
  sock_fprog filter{static_cast<unsigned short>(program.code().size()), program.code().data()};
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter) == 0;
}

}  // namespace

bool registers_restartable_sequences() { return &__rseq_size != nullptr && __rseq_size != 0; }

bool install_seccomp_filter(const std::vector<AddressRange>& ours, bool drives_gpu) {
  auto number = [](long nr) { return static_cast<uint32_t>(nr); };
  SeccompProgram program;
  program.load(offsetof(seccomp_data, arch));
  program.answer_unless(kArchitecture, SECCOMP_RET_KILL_PROCESS);
  program.load(offsetof(seccomp_data, nr));
  program.where(SYS_clone, [&] {
    program.load_argument(0);
    program.mask(CLONE_THREAD | CLONE_UNTRACED | CLONE_PTRACE);  // only threads, and none that the judge cannot trace
    program.answer_if(CLONE_THREAD, SECCOMP_RET_ALLOW);
    program.answer(SECCOMP_RET_KILL_PROCESS);
  });
  // Its flags are in memory, which a filter cannot read; the C library then uses clone().
  program.answer_if(SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS);
  program.where(SYS_tgkill, [&] {
    program.load_argument(0);
    program.answer_if(static_cast<uint32_t>(getpid()), SECCOMP_RET_ALLOW);
    program.answer(SECCOMP_RET_KILL_PROCESS);
  });
  for (long nr : kAllowed) program.answer_if(number(nr), SECCOMP_RET_ALLOW);
  if (registers_restartable_sequences())
    program.answer_if(SYS_rseq, SECCOMP_RET_ALLOW);  // for every thread, or it aborts
  judge_mappings(program, ours, drives_gpu);
  judge_options(program, drives_gpu);
  if (drives_gpu) {
    for (long nr : kDriver) program.answer_if(number(nr), SECCOMP_RET_ALLOW);
    for (long nr : kDriverTries) program.answer_if(number(nr), SECCOMP_RET_ERRNO | EPERM);
  }
  for (long nr : kDeadly) program.answer_if(number(nr), SECCOMP_RET_KILL_PROCESS);
  program.answer(SECCOMP_RET_ERRNO | EPERM);
  program.answer_touched(ours, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW);
  return install(program, SECCOMP_FILTER_FLAG_TSYNC);
}

bool forbid_other_cores() {
  SeccompProgram program;
  program.load(offsetof(seccomp_data, nr));
  program.answer_if(SYS_sched_setaffinity, SECCOMP_RET_ERRNO | EPERM);
  program.answer(SECCOMP_RET_ALLOW);
  return install(program, 0);
}

}  // namespace fk
