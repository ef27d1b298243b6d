// Memory and time limits, from control groups of both versions.
#include "measure/machine_limits.h"

#include <gtest/gtest.h>

#include "tests/measure/file_tree.h"

namespace fk {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

std::string gib(uint64_t count) { return std::to_string(count * kGiB); }

void add_meminfo(const FileTree& tree) {  // 64 GiB, 48 of them available
  tree.add("/proc/meminfo", "MemTotal:       67108864 kB\nMemFree:        1024 kB\nMemAvailable:   50331648 kB");
}

TEST(MachineLimits, NoGroups) {
  FileTree tree;
  add_meminfo(tree);
  MemoryInfo info = memory_info(tree.root());
  EXPECT_EQ(info.total_bytes, 64 * kGiB);
  EXPECT_EQ(info.available_bytes, 48 * kGiB);
  EXPECT_EQ(info.limit_bytes, 0u);
  EXPECT_EQ(cpu_quota(tree.root()), 0);
}

TEST(MachineLimits, VersionTwoTakesTheTightestOfAllLevels) {
  FileTree tree;
  add_meminfo(tree);
  tree.add("/proc/self/cgroup", "0::/outer/inner");
  tree.add("/sys/fs/cgroup/outer/inner/memory.max", "max");
  tree.add("/sys/fs/cgroup/outer/memory.max", gib(8));
  tree.add("/sys/fs/cgroup/outer/memory.current", gib(5));
  tree.add("/sys/fs/cgroup/outer/memory.stat", "anon 1\ninactive_file " + gib(2) + "\nactive_file 3");
  tree.add("/sys/fs/cgroup/outer/inner/cpu.max", "150000 100000");
  tree.add("/sys/fs/cgroup/outer/cpu.max", "max 100000");
  MemoryInfo info = memory_info(tree.root());
  EXPECT_EQ(info.limit_bytes, 8 * kGiB);
  EXPECT_EQ(info.available_bytes, 5 * kGiB);  // 8 - (5 - 2): cached files are freed on demand
  EXPECT_EQ(cpu_quota(tree.root()), 1.5);
}

TEST(MachineLimits, InAContainerTheRootSpeaks) {
  FileTree tree;
  add_meminfo(tree);
  tree.add("/proc/self/cgroup", "0::/only/the/host/sees/this");
  tree.add("/sys/fs/cgroup/memory.max", gib(4));
  tree.add("/sys/fs/cgroup/memory.current", gib(1));
  tree.add("/sys/fs/cgroup/cpu.max", "400000 100000");
  EXPECT_EQ(memory_info(tree.root()).limit_bytes, 4 * kGiB);
  EXPECT_EQ(memory_info(tree.root()).available_bytes, 3 * kGiB);
  EXPECT_EQ(cpu_quota(tree.root()), 4);
}

TEST(MachineLimits, VersionOne) {
  FileTree tree;
  add_meminfo(tree);
  tree.add("/proc/self/cgroup", "4:memory:/job\n3:cpu,cpuacct:/job\n0::/");
  tree.add("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", gib(16));
  tree.add("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", gib(17));
  tree.add("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");  // none
  tree.add("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "50000");
  tree.add("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000");
  tree.add("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");  // none
  tree.add("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(memory_info(tree.root()).limit_bytes, 16 * kGiB);
  EXPECT_EQ(memory_info(tree.root()).available_bytes, 0u);
  EXPECT_EQ(cpu_quota(tree.root()), 0.5);
}

TEST(MachineLimits, NonsenseIsUnknown) {
  FileTree tree;
  tree.add("/proc/meminfo", "MemTotal: lots\nMemAvailable:");
  tree.add("/proc/self/cgroup", "\n::\n:\nno colon\n0::no slash\n");
  tree.add("/sys/fs/cgroup/cpu.max", "100000 0");
  tree.add("/sys/fs/cgroup/memory.max", "x");
  EXPECT_EQ(memory_info(tree.root()).total_bytes, 0u);
  EXPECT_EQ(cpu_quota(tree.root()), 0);
}

}  // namespace
}  // namespace fk
