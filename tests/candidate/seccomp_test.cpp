// The filter of system calls, each rule in a separate process: which calls end the process, fail, or are allowed.
#include "candidate/seccomp.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <thread>

#include "sandbox/loaded_memory.h"
#include "tests/sanitizer.h"

namespace fk {
namespace {

constexpr int kKilled = -1, kNoFilter = 250;

// 0 if the call succeeded, its errno if it failed, kKilled if the filter ended the process.
int outcome_of(const std::function<bool()>& call, bool after_other_cores = false) {
  pid_t child = fork();
  if (child == 0) {
    std::vector<AddressRange> ours = loaded_memory();
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (after_other_cores && !forbid_other_cores()) _exit(kNoFilter);
    if (!install_seccomp_filter(ours)) _exit(kNoFilter);
    errno = 0;
    _exit(call() ? 0 : errno);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGSYS ? kKilled : 200 + WTERMSIG(status);
  return WEXITSTATUS(status);
}

bool mapped(void* at) { return at != MAP_FAILED; }
long number(uintptr_t address) { return static_cast<long>(address); }

class Seccomp : public testing::Test {
 protected:
  void SetUp() override { FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox); }

  const size_t page_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t libc_ = reinterpret_cast<uintptr_t>(&qsort) / page_ * page_;
  void* libc() const { return reinterpret_cast<void*>(libc_); }
};

TEST_F(Seccomp, KeepsThePagesOfTheProgramAndItsLibraries) {
  EXPECT_EQ(outcome_of([&] { return mprotect(libc(), page_, PROT_READ | PROT_WRITE) == 0; }), kKilled);
  EXPECT_EQ(outcome_of([&] { return munmap(libc(), page_) == 0; }), kKilled);
  EXPECT_EQ(outcome_of([&] { return madvise(libc(), page_, MADV_DONTNEED) == 0; }), kKilled);
  constexpr int kOver = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  EXPECT_EQ(outcome_of([&] { return mapped(mmap(libc(), page_, PROT_READ, kOver, -1, 0)); }), kKilled);
  EXPECT_EQ(outcome_of([&] { return mapped(mremap(libc(), page_, page_, MREMAP_MAYMOVE)); }), kKilled);
  EXPECT_EQ(outcome_of([&] { return mapped(mremap(libc(), 0, page_, MREMAP_MAYMOVE)); }), kKilled) << "a second view";
  EXPECT_EQ(outcome_of([&] {
              void* mine = mmap(nullptr, page_, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
              return mapped(mremap(mine, page_, page_, MREMAP_MAYMOVE | MREMAP_FIXED, libc()));
            }),
            kKilled);
}

// On 64-bit ARM the kernel ignores the top byte of an address.
TEST_F(Seccomp, IsNotToldAnotherAddressThanTheKernel) {
  uintptr_t tagged = libc_ | uintptr_t{0x2A} << 56;
  EXPECT_EQ(outcome_of([&] { return syscall(SYS_mprotect, number(tagged), page_, PROT_READ) == 0; }), kKilled);
  // An end that overflows is before the start.
  EXPECT_EQ(outcome_of([&] { return syscall(SYS_mprotect, number(libc_), -4096L, PROT_READ) == 0; }), EINVAL);
  EXPECT_EQ(outcome_of([&] { return syscall(SYS_munmap, number(libc_), (1L << 56) + 4096) == 0; }), EINVAL);
}

TEST_F(Seccomp, TellsTheEdgesOfARange) {
  std::vector<AddressRange> ours = loaded_memory();
  ASSERT_FALSE(ours.empty());
  uintptr_t begin = ours[0].begin, end = ours[0].end;
  auto unmap = [&](uintptr_t at, size_t bytes) {
    return outcome_of([&] { return munmap(reinterpret_cast<void*>(at), bytes) == 0; });
  };
  EXPECT_EQ(unmap(begin - page_, page_), 0);
  EXPECT_EQ(unmap(begin - page_, page_ + 1), kKilled);
  EXPECT_EQ(unmap(begin - 16 * page_, end - begin + 32 * page_), kKilled) << "all of it, and more";
  EXPECT_EQ(unmap(end - page_, page_), kKilled);
  EXPECT_EQ(unmap(end - page_, 0), kKilled);
  EXPECT_EQ(outcome_of([] { return prctl(PR_SET_NAME, "still here") == 0; }), 0);
}

TEST_F(Seccomp, LeavesMemoryOfOnesOwnAlone) {
  EXPECT_EQ(outcome_of([&] {
              auto* own = static_cast<char*>(mmap(nullptr, 4 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
              return mprotect(own, page_, PROT_READ | PROT_WRITE | PROT_EXEC) == 0 &&
                     mapped(mmap(own, page_, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)) &&
                     mapped(mremap(own, page_, page_, MREMAP_MAYMOVE | MREMAP_FIXED, own + 2 * page_)) &&
                     madvise(own + page_, page_, MADV_DONTNEED) == 0 && munmap(own, 4 * page_) == 0;
            }),
            0);
  // Small mappings fill every free gap, those between the segments of the program too.
  EXPECT_EQ(outcome_of([&] {
              for (size_t i = 0; i < 3000; ++i) {
                void* at = mmap(nullptr, page_ * (1 + i % 20), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                if (mprotect(at, page_, PROT_READ) != 0) return false;
              }
              return true;
            }),
            0);
  EXPECT_EQ(outcome_of([] {
              for (int i = 0; i < 20; ++i) std::thread([] { free(malloc(1 << 20)); }).join();
              void* library = dlopen("libgomp.so.1", RTLD_NOW);
              return library == nullptr || dlclose(library) == 0;
            }),
            0);
}

TEST_F(Seccomp, JudgesOptions) {
  auto process = [](int option) { return outcome_of([=] { return prctl(option, 1, 0, 0, 0) == 0; }); };
  constexpr int kDispatch = 59;
  for (int deadly : {kDispatch, PR_SET_MM, PR_SET_SECCOMP, PR_SET_TSC, PR_SET_TIMERSLACK, PR_SET_PTRACER,
                     PR_SET_DUMPABLE, PR_SET_PDEATHSIG})
    EXPECT_EQ(process(deadly), kKilled) << deadly;
  EXPECT_EQ(process(12345), EINVAL);
  EXPECT_EQ(outcome_of([] { return prctl(PR_GET_DUMPABLE) >= 0; }), 0);

  auto file = [](int command, int argument) {
    return outcome_of([=] { return fcntl(STDERR_FILENO, command, argument) >= 0; });
  };
  constexpr int kSetSignal = 10, kNotify = 1026;
  for (int deadly : {F_SETOWN, kSetSignal, kNotify}) EXPECT_EQ(file(deadly, 0), kKilled) << deadly;
  EXPECT_EQ(file(F_SETFL, O_ASYNC), kKilled);
  EXPECT_EQ(file(F_SETFL, O_NONBLOCK), 0);
  EXPECT_EQ(file(F_GETFL, 0), 0);
  int on = 1;
  EXPECT_EQ(outcome_of([&] { return ioctl(STDERR_FILENO, FIOASYNC, &on) == 0; }), kKilled);
  EXPECT_EQ(outcome_of([&] { return ioctl(STDERR_FILENO, TIOCSTI, "x") == 0; }), ENOTTY);

  rlimit limit{};
  EXPECT_EQ(outcome_of([&] { return getrlimit(RLIMIT_NOFILE, &limit) == 0; }), 0);
  EXPECT_EQ(outcome_of([&] { return setrlimit(RLIMIT_NOFILE, &limit) == 0; }), EPERM);
}

TEST_F(Seccomp, StandsOnTheFilterOfCores) {
  auto ask_for_all = [] {
    cpu_set_t all;
    CPU_ZERO(&all);
    CPU_SET(0, &all);
    return sched_setaffinity(0, sizeof all, &all) == 0;
  };
  EXPECT_EQ(outcome_of(ask_for_all, true), EPERM);
  EXPECT_EQ(outcome_of([] { return prctl(PR_SET_NAME, "x") == 0; }, true), 0);
}

}  // namespace
}  // namespace fk
