// The output of other programs, and the whole description of the machine the tests run on.
#include "measure/machine_info.h"

#include <gtest/gtest.h>

#include "core/json.h"
#include "measure/child_output.h"
#include "measure/timer.h"

namespace fk {
namespace {

TEST(ChildOutput, PrintsAndExitCodes) {
  EXPECT_EQ(output_of({"sh", "-c", "printf 'a\\nb'"}, 60'000), "a\nb");
  EXPECT_EQ(output_of({"sh", "-c", "printf lost >&2"}, 60'000), "");
  EXPECT_EQ(output_of({"cat"}, 60'000), "");  // has no standard input to wait for
  EXPECT_EQ(output_of({"sh", "-c", "printf x; exit 3"}, 60'000), std::nullopt);
  EXPECT_EQ(output_of({"sh", "-c", "kill -9 $$"}, 60'000), std::nullopt);
  EXPECT_EQ(output_of({"no_such_program_anywhere"}, 60'000), std::nullopt);
  EXPECT_EQ(output_of({"head", "-c", "3000000", "/dev/zero"}, 60'000), std::nullopt);
}

TEST(ChildOutput, AHangingProgramIsKilled) {
  Stopwatch watch;
  EXPECT_EQ(output_of({"sleep", "60"}, 50), std::nullopt);
  EXPECT_LT(watch.elapsed_s(), 20);
}

TEST(ChildOutput, FindsProgramsOnThePathOnly) {
  ASSERT_TRUE(find_program("sh"));
  EXPECT_EQ(find_program("sh")->back(), 'h');
  EXPECT_FALSE(find_program("no_such_program_anywhere"));
}

TEST(MachineTools, NvidiaSmi) {
  auto gpus = parse_nvidia_smi("NVIDIA H200, 143771, 580.65.06, 9.0\nNVIDIA Thor, [N/A], 580.0, 11.0\n");
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].name, "NVIDIA H200");
  EXPECT_EQ(gpus[0].memory_bytes, uint64_t{143771} << 20);
  EXPECT_EQ(gpus[0].driver, "580.65.06");
  EXPECT_EQ(gpus[0].compute_capability, "9.0");
  EXPECT_EQ(gpus[1].memory_bytes, 0u);
  EXPECT_TRUE(parse_nvidia_smi("").empty());
  EXPECT_TRUE(parse_nvidia_smi("No devices were found\n").empty());
}

TEST(MachineInfo, DescribesThisMachine) {
  MachineInfo info = machine_info();
  EXPECT_GE(info.usable_cores, 1);
  EXPECT_GE(info.layout.logical, info.usable_cores);
  EXPECT_GT(info.memory.total_bytes, 0u);
  EXPECT_LE(info.memory.available_bytes, info.memory.total_bytes);
  Json json = parse_json(dump_json(to_json(info)), "the machine");
  EXPECT_EQ(json, to_json(info));
  EXPECT_EQ(json["cpu"]["usable_cores"], info.usable_cores);
  EXPECT_EQ(json["memory"]["total_bytes"], info.memory.total_bytes);
  ASSERT_FALSE(json["cpu"]["instructions"].empty());
}

TEST(MachineInfo, UnknownIsNull) {
  Json json = to_json(MachineInfo{});
  EXPECT_TRUE(json["cpu"]["model"].is_null());
  EXPECT_TRUE(json["memory"]["limit_bytes"].is_null());
  EXPECT_TRUE(json["gpus"].empty());
}

}  // namespace
}  // namespace fk
