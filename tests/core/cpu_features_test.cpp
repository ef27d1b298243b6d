// What we find on this CPU is what the kernel lists in /proc/cpuinfo.
#include "core/cpu_features.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

namespace fk {
namespace {

std::set<std::string> kernel_flags() {
#if defined(__aarch64__)
  constexpr const char* kTitle = "Features";
#else
  constexpr const char* kTitle = "flags";
#endif
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(kTitle, 0) != 0) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {};
}

TEST(CpuFeatures, AgreeWithTheKernel) {
  std::set<std::string> flags = kernel_flags();
  if (flags.empty()) GTEST_SKIP() << "no /proc/cpuinfo here, or that of the machine an emulator runs on";
  auto all = [&](std::initializer_list<const char*> names) {
    return std::all_of(names.begin(), names.end(), [&](const char* name) { return flags.count(name) != 0; });
  };
  const CpuFeatures& f = cpu_features();
  EXPECT_EQ(f.avx2, all({"avx2", "fma", "f16c"}));
  EXPECT_EQ(f.avx512, f.avx2 && all({"avx512f", "avx512bw", "avx512dq", "avx512vl"}));
  EXPECT_EQ(f.avx512_bf16, f.avx512 && all({"avx512_bf16"}));
  EXPECT_EQ(f.avx512_vnni, f.avx512 && all({"avx512_vnni"}));
  EXPECT_LE(f.amx_bf16, f.avx512_bf16 && all({"amx_tile", "amx_bf16"}));  // the kernel may still refuse the tiles
  EXPECT_EQ(f.neon, all({"asimd"}));
  EXPECT_EQ(f.neon_bf16, all({"asimd", "bf16"}));
  EXPECT_EQ(f.neon_i8mm, all({"asimd", "asimddp", "i8mm"}));
}

TEST(CpuFeatures, NamesAreThoseOfTheFeaturesPresent) {
  std::vector<std::string> names = cpu_feature_names();
  auto named = [&](const char* name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  EXPECT_EQ(named("avx2"), cpu_features().avx2);
  EXPECT_EQ(named("amx_bf16"), cpu_features().amx_bf16);
  EXPECT_EQ(named("neon_bf16"), cpu_features().neon_bf16);
  EXPECT_EQ(named("neon_i8mm"), cpu_features().neon_i8mm);
}

}  // namespace
}  // namespace fk
