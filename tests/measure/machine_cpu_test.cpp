// Names, layouts and caches read from texts of real machines.
#include "measure/machine_cpu.h"

#include <gtest/gtest.h>

#include "tests/measure/file_tree.h"

namespace fk {
namespace {

TEST(MachineCpu, NameOnX86) {
  CpuName name = cpu_name(
      "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 9654 96-Core Processor\n\n"
      "processor\t: 1\nvendor_id\t: other\nmodel name\t: other\n");
  EXPECT_EQ(name.model, "AMD EPYC 9654 96-Core Processor");
  EXPECT_EQ(name.vendor, "AuthenticAMD");
}

TEST(MachineCpu, NameOnArm) {
  CpuName known = cpu_name("processor\t: 0\nBogoMIPS\t: 2000.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n");
  EXPECT_EQ(known.model, "Neoverse-V2");
  EXPECT_EQ(known.vendor, "ARM");
  CpuName foreign = cpu_name("CPU implementer\t: 0x61\nCPU part\t: 0x022\n");
  EXPECT_EQ(foreign.model, "part 0x022");
  EXPECT_EQ(foreign.vendor, "Apple");
}

TEST(MachineCpu, NameOfNothingIsUnknown) {
  for (const char* text : {"", "\n\n", "no colon here", ":", "::::\n:"}) EXPECT_EQ(cpu_name(text).model, "") << text;
}

TEST(MachineCpu, CpuLists) {
  EXPECT_EQ(count_cpu_list("0"), 1);
  EXPECT_EQ(count_cpu_list("0-3,8"), 5);
  EXPECT_EQ(count_cpu_list("0-1,64-65"), 4);
  for (const char* bad : {"", "a", "3-1", "-1", "0-", "0,,1", "99999999999999"})
    EXPECT_EQ(count_cpu_list(bad), 0) << bad;
}

TEST(MachineCpu, TwoSocketsWithTwoThreadsACore) {
  FileTree tree;
  tree.add("/sys/devices/system/cpu/online", "0-7");
  tree.add("/sys/devices/system/node/online", "0-1");
  for (int cpu = 0; cpu < 8; ++cpu) {
    std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    tree.add(folder + "physical_package_id", std::to_string(cpu / 2 % 2));
    tree.add(folder + "core_id", std::to_string(cpu % 2));
  }
  tree.add("/sys/devices/system/cpu/cpufreq/policy", "not a cpu");
  CpuLayout layout = cpu_layout(tree.root());
  EXPECT_EQ(layout.logical, 8);
  EXPECT_EQ(layout.cores, 4);
  EXPECT_EQ(layout.sockets, 2);
  EXPECT_EQ(layout.numa_nodes, 2);
}

TEST(MachineCpu, Caches) {
  FileTree tree;
  auto add = [&](int index, const char* level, const char* type, const char* size, const char* shared) {
    std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    tree.add(folder + "level", level);
    tree.add(folder + "type", type);
    tree.add(folder + "size", size);
    tree.add(folder + "shared_cpu_list", shared);
  };
  add(0, "1", "Data", "48K", "0,64");
  add(2, "2", "Unified", "2M", "0,64");
  add(3, "3", "Unified", "32768K", "0-7,64-71");
  add(4, "nonsense", "Unified", "1K", "0");
  std::vector<CpuCache> caches = cpu_caches(tree.root());
  ASSERT_EQ(caches.size(), 3u);
  EXPECT_EQ(caches[0].kind, "data");
  EXPECT_EQ(caches[0].size_bytes, 48u << 10);
  EXPECT_EQ(caches[1].size_bytes, 2u << 20);
  EXPECT_EQ(caches[2].level, 3);
  EXPECT_EQ(caches[2].shared_by, 16);
}

TEST(MachineCpu, NoSysIsNoError) {
  FileTree tree;
  EXPECT_GE(cpu_layout(tree.root()).logical, 1);
  EXPECT_EQ(cpu_layout(tree.root()).cores, 0);
  EXPECT_TRUE(cpu_caches(tree.root()).empty());
}

}  // namespace
}  // namespace fk
