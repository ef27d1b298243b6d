// The probe stays within bounds that hold on any machine, however fast or busy; what does not depend on speed (the
// arithmetic, the bytes, the memory used) is exact.
#include "measure/machine_probe.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "core/error.h"
#include "core/json.h"
#include "core/memory.h"
#include "measure/memory_rates.h"
#include "measure/probe_kernels.h"
#include "measure/read_loops.h"
#include "measure/timer.h"
#include "tests/sanitizer.h"

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

// A probe and its time in seconds.
struct Probed {
  MachineProbe probe;
  double seconds = 0;
};

Probed timed_probe(ThreadPool& pool, const ProbeOptions& options) {
  Stopwatch watch;
  MachineProbe probe = probe_machine(pool, options);
  return {std::move(probe), watch.elapsed_s()};
}

// Upper bounds of rates come from physics, lower bounds from the work done in the time of the probe: both hold however
// busy the machine is. Of n timed pieces half take at least the median, so the median is at most 2 / n of that time;
// the probe reads its memory at least 4 times and runs each peak kernel in at least 16 slices.
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

// Memory between two guard pages: a read before or after it is a fault.
class BetweenGuards {
 public:
  explicit BetweenGuards(size_t size_bytes) : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))), size_(size_bytes) {
    all_ = mmap(nullptr, size_ + 2 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(all_, MAP_FAILED);
    EXPECT_EQ(mprotect(data(), size_, PROT_READ | PROT_WRITE), 0);
    std::fill(data(), data() + size_, std::byte{1});
  }
  ~BetweenGuards() { munmap(all_, size_ + 2 * page_); }
  BetweenGuards(const BetweenGuards&) = delete;
  BetweenGuards& operator=(const BetweenGuards&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(all_) + page_; }

 private:
  size_t page_, size_;  // the size is a multiple of the page size
  void* all_;
};

TEST(ProbeKernels, ReadsStayInside) {
  BetweenGuards memory(2 * kReadBlock);
  std::vector<ReadKernel> all = read_loops(kReadBlock);
  for (const ReadKernel& kernel : read_kernels()) all.push_back(kernel);
  for (const ReadKernel& kernel : all) {
    kernel.run(memory.data(), 0);
    kernel.run(memory.data(), 2 * kReadBlock);
  }
}

TEST(ProbeKernels, GuardsReallyFault) {
  BetweenGuards memory(2 * kReadBlock);
  auto past = [&] { read_loops(kReadBlock).front().run(memory.data() + kReadBlock, 2 * kReadBlock); };
  EXPECT_DEATH(past(), "");
}

// The memory bandwidth in doctor and ttft agrees with the rates used for the floors of kernels: no loop of those is
// faster than the probe by more than a busy machine explains.
TEST(MachineProbe, AgreesWithTheRatesOfKernels) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsFullSpeed);
  ThreadPool pool(1);
  Buffer buffer(MemoryRates::kLargest);
  std::fill(buffer.data(), buffer.data() + buffer.size(), std::byte{1});
  ProbeOptions options = short_probe();
  options.memory = {buffer.data(), buffer.size()};
  // Both are the best of what was measured, and a busy machine only makes them smaller.
  MemoryRates rates(pool);
  double probed = 0, ratio = 0;
  for (int attempt = 0; attempt < 20 && !(ratio > 0.8 && ratio < 1.25); ++attempt) {
    rates.measure({Traffic::kRead, MemoryRates::kLargest}, 0.1);
    probed = std::max(probed, probe_machine(pool, options).read_gbps.best * 1e9);
    ratio = probed / rates.rate({Traffic::kRead, MemoryRates::kLargest});
  }
  EXPECT_GT(ratio, 0.8);
  EXPECT_LT(ratio, 1.25);
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
