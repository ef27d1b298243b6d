// The probe within physical bounds. The machine may be busy, so bounds are wide where they depend on speed; what does
// not depend on it (the arithmetic, the bytes, the memory kept) is exact.
#include "measure/machine_probe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>

#include "core/error.h"
#include "core/memory.h"
#include "measure/probe_kernels.h"
#include "measure/roofline.h"
#include "measure/timer.h"

namespace fk {
namespace {

ProbeOptions short_probe() {
  ProbeOptions options;
  options.budget_s = 0.3;
  return options;
}

// No core runs at more than 6 GHz; per cycle AMX does 1024 operations in bf16, two 512-bit units 64 in f32, and the
// widest NEON cores 4 x 8 in f32 and 4 x 32 in bf16.
constexpr double kMaxBf16Tflops = 6.2, kMaxF32Tflops = 0.4;

void expect_plausible(const MachineProbe& probe) {
  EXPECT_GT(probe.read_gbps.best, 0.5);
  EXPECT_LT(probe.read_gbps.best, 2000);
  EXPECT_GT(probe.f32_tflops.best, 0.0005 * probe.threads);
  EXPECT_LT(probe.f32_tflops.best, kMaxF32Tflops * probe.threads);
  EXPECT_LT(probe.bf16_tflops.best, kMaxBf16Tflops * probe.threads);
  EXPECT_GE(probe.bf16_tflops.best, 0.9 * probe.f32_tflops.best);
  for (const Rate* rate : {&probe.read_gbps, &probe.bf16_tflops, &probe.f32_tflops}) {
    EXPECT_GT(rate->median, 0);
    EXPECT_LE(rate->median, rate->best);
    EXPECT_FALSE(rate->how.empty());
  }
}

TEST(ProbeKernels, EveryInstructionOfThisCpuAddsUpRight) {
  for (const auto& kernels : {bf16_peak_kernels(), f32_peak_kernels()}) {
    ASSERT_FALSE(kernels.empty());
    for (const PeakKernel& kernel : kernels) {
      EXPECT_TRUE(kernel.run()) << kernel.instruction;
      EXPECT_TRUE(kernel.run()) << kernel.instruction;
      EXPECT_GT(kernel.flops, 0);
    }
  }
}

// Guard pages would fault on a read past the end; memory from a sanitizer's allocator does the same.
TEST(ProbeKernels, ReadsStayInside) {
  auto memory = std::unique_ptr<std::byte, decltype(&std::free)>(
      static_cast<std::byte*>(std::aligned_alloc(64, 2 * kReadBlock)), &std::free);
  for (const ReadKernel& kernel : read_kernels()) {
    kernel.run(memory.get(), 0);
    kernel.run(memory.get(), 2 * kReadBlock);
  }
}

TEST(MachineProbe, OneThread) {
  ThreadPool pool(1);
  MachineProbe probe = probe_machine(pool, short_probe());
  EXPECT_EQ(probe.threads, 1);
  EXPECT_GE(probe.read_size_bytes, size_t{32} << 20);
  expect_plausible(probe);
}

TEST(MachineProbe, TwoThreads) {
  if (usable_cores() < 2) GTEST_SKIP() << "one core";
  Buffer buffer(size_t{64} << 20);
  std::fill(buffer.data(), buffer.data() + buffer.size(), std::byte{1});
  ProbeOptions options = short_probe();
  options.memory = {buffer.data(), buffer.size()};
  ThreadPool one(1), two(2);
  MachineProbe single = probe_machine(one, options), twin = probe_machine(two, options);
  EXPECT_EQ(twin.threads, 2);
  expect_plausible(twin);
  // No upper bound: a busy machine may hold the single thread back.
  EXPECT_GT(twin.f32_tflops.best, 0.2 * single.f32_tflops.best);
  EXPECT_GT(twin.read_gbps.best, 0.2 * single.read_gbps.best);
}

TEST(MachineProbe, ReadsTheMemoryItIsGiven) {
  ThreadPool pool(1);
  Buffer buffer(size_t{4} << 20);
  for (size_t i = 0; i < buffer.size(); ++i) buffer.data()[i] = std::byte{3};
  ProbeOptions options = short_probe();
  options.memory = {buffer.data() + 3, buffer.size() - 3};  // not aligned
  std::string told;
  options.progress = [&](std::string_view what) { told += std::string(what) + "\n"; };
  MachineProbe probe = probe_machine(pool, options);
  EXPECT_LE(probe.read_size_bytes, buffer.size());
  EXPECT_GT(probe.read_size_bytes, buffer.size() * 9 / 10);
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 3);
  for (size_t i = 0; i < buffer.size(); ++i) ASSERT_EQ(buffer.data()[i], std::byte{3});
}

TEST(MachineProbe, RefusesTooLittleMemory) {
  ThreadPool pool(1);
  Buffer buffer(size_t{64} << 10);
  ProbeOptions options = short_probe();
  options.memory = {buffer.data(), 100};
  EXPECT_THROW(probe_machine(pool, options), Error);
}

TEST(MachineProbe, JsonRoundTrip) {
  MachineProbe probe;
  probe.threads = 2;
  probe.read_gbps = {38.4, 37.1, "loads"};
  Json json = parse_json(dump_json(to_json(probe)), "the probe");
  EXPECT_EQ(json, to_json(probe));
  EXPECT_EQ(json["read_gbps"]["best"], 38.4);
  EXPECT_EQ(json["read_gbps"]["how"], "loads");
}

TEST(Roofline, FloorIsTheSlowerOfReadingAndComputing) {
  MachineProbe probe;
  probe.read_gbps.best = 40;
  probe.bf16_tflops.best = 4;
  probe.f32_tflops.best = 0.5;
  // A 2.5 GB model read once at 40 GB/s: 62.5 ms. 2.5e9 operations at 4 TFLOP/s: 0.625 ms; 512 tokens: 320 ms.
  EXPECT_DOUBLE_EQ(memory_floor_ns(2.5e9, probe), 62.5e6);
  EXPECT_DOUBLE_EQ(compute_floor_ns(2.5e9, DType::kBF16, probe), 0.625e6);
  EXPECT_DOUBLE_EQ(floor_ns(2.5e9, 2.5e9, DType::kBF16, probe), 62.5e6);
  EXPECT_DOUBLE_EQ(floor_ns(2.5e9, 2.5e9 * 512, DType::kBF16, probe), 320e6);
  EXPECT_DOUBLE_EQ(floor_ns(2.5e9, 2.5e9 * 512, DType::kF32, probe), 2560e6);
  EXPECT_DOUBLE_EQ(floor_share(62.5e6, 125e6), 0.5);
  EXPECT_THROW(floor_share(1, 0), Error);
  EXPECT_THROW(floor_share(1, std::nan("")), Error);
}

TEST(Timer, DoesNotGoBack) {
  int64_t last = now_ns();
  for (int i = 0; i < 10000; ++i) {
    int64_t now = now_ns();
    ASSERT_GE(now, last);
    last = now;
  }
}

}  // namespace
}  // namespace fk
