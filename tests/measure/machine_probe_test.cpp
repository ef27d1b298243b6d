// The probe within bounds that hold on a machine however fast or busy; what does not depend on speed (the arithmetic,
// the bytes, the memory kept) is exact.
#include "measure/machine_probe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "core/error.h"
#include "core/json.h"
#include "core/memory.h"
#include "measure/probe_kernels.h"
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

// A probe and the seconds it took.
struct Probed {
  MachineProbe probe;
  double seconds = 0;
};

Probed timed_probe(ThreadPool& pool, const ProbeOptions& options) {
  Stopwatch watch;
  MachineProbe probe = probe_machine(pool, options);
  return {std::move(probe), watch.elapsed_s()};
}

// From above rates are bound by physics, from below by the work that was done in the time the probe took: both hold
// however busy the machine is. Of n timed pieces half take at least the median, so the median is at most 2 / n of that
// time; the probe reads its memory at least 4 times and runs each peak kernel in at least 16 slices.
void expect_plausible(const Probed& probed) {
  const MachineProbe& probe = probed.probe;
  double seconds = probed.seconds;
  EXPECT_LT(probe.read_gbps.best, 2000);
  EXPECT_LT(probe.f32_tflops.best, kMaxF32Tflops * probe.threads);
  EXPECT_LT(probe.bf16_tflops.best, kMaxBf16Tflops * probe.threads);
  EXPECT_GE(probe.read_gbps.median, 4 / 2 * static_cast<double>(probe.read_size_bytes) * 1e-9 / seconds);
  auto least_tflops = [&](const PeakKernel& kernel) { return 16 / 2 * kernel.flops * probe.threads * 1e-12 / seconds; };
  EXPECT_GE(probe.f32_tflops.median, least_tflops(f32_peak_kernels().front()));
  EXPECT_GE(probe.bf16_tflops.median, least_tflops(bf16_peak_kernels().front()));
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

TEST(MachineProbe, SlowOneThread) {
  ThreadPool pool(1);
  Probed probed = timed_probe(pool, short_probe());
  EXPECT_EQ(probed.probe.threads, 1);
  EXPECT_GE(probed.probe.read_size_bytes, size_t{32} << 20);
  expect_plausible(probed);
}

TEST(MachineProbe, TwoThreads) {
  Buffer buffer(size_t{64} << 20);
  std::fill(buffer.data(), buffer.data() + buffer.size(), std::byte{1});
  ProbeOptions options = short_probe();
  options.memory = {buffer.data(), buffer.size()};
  ThreadPool pool(2);
  Probed probed = timed_probe(pool, options);
  EXPECT_EQ(probed.probe.threads, 2);
  EXPECT_EQ(probed.probe.read_size_bytes, buffer.size());
  expect_plausible(probed);
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
