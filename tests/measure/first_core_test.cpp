#include "measure/first_core.h"

#include <gtest/gtest.h>

#include <thread>

namespace fk {
namespace {

cpu_set_t allowed() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  return set;
}

int first_of(const cpu_set_t& set) {
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set)) return i;
  return -1;
}

TEST(FirstCore, AThreadStaysThereAndComesBack) {
  cpu_set_t before = allowed();
  {
    OnFirstCore pinned;
    cpu_set_t now = allowed();
    EXPECT_EQ(CPU_COUNT(&now), 1);
    EXPECT_EQ(first_of(now), first_of(before));
    EXPECT_EQ(sched_getcpu(), first_of(before));
  }
  cpu_set_t after = allowed();
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
  std::thread([&] {
    pin_to_first_core();
    cpu_set_t now = allowed();
    EXPECT_EQ(CPU_COUNT(&now), 1);
  }).join();
  after = allowed();
  EXPECT_TRUE(CPU_EQUAL(&before, &after)) << "pinning reached another thread";
}

}  // namespace
}  // namespace fk
