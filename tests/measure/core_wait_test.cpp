#include "measure/core_wait.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "measure/timer.h"

namespace fk {
namespace {

TEST(CoreWait, IsTheSecondNumber) {
  EXPECT_EQ(waited_for_core_ns("348325363 60796 18\n"), 60796);
  for (const char* text : {"", "1", "1 ", "1 2", "1 x 3\n", "a b c"})
    EXPECT_EQ(waited_for_core_ns(text), std::nullopt) << text;
  EXPECT_EQ(waited_for_cores_ns(-5), std::nullopt) << "there is no such process";
}

// Busy loop on the first core this process may use.
void spin_there(double seconds) {
  cpu_set_t allowed, one;
  CPU_ZERO(&one);
  sched_getaffinity(0, sizeof allowed, &allowed);
  for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core)
    if (CPU_ISSET(core, &allowed)) CPU_SET(core, &one);
  sched_setaffinity(0, sizeof one, &one);
  Stopwatch watch;
  while (watch.elapsed_s() < seconds) {
  }
}

TEST(CoreWait, TwoThreadsOnOneCoreWaitForEachOther) {
  std::optional<int64_t> before = waited_for_cores_ns(getpid());
  if (!before) GTEST_SKIP() << "this kernel does not count it";
  std::optional<int64_t> after;
  std::vector<std::thread> threads;
  threads.emplace_back([] { spin_there(0.1); });
  threads.emplace_back([&] {
    spin_there(0.1);
    after = waited_for_cores_ns(getpid());  // while the other thread may still run
  });
  for (std::thread& t : threads) t.join();
  ASSERT_TRUE(after);
  EXPECT_GT(*after - *before, 30'000'000) << "of 100 ms each, shared";
}

}  // namespace
}  // namespace fk
