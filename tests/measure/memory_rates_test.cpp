// The computed time of bytes is a lower bound: no placement in caches and no loop is faster.
#include "measure/memory_rates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "measure/cache_evict.h"
#include "measure/stream_kernels.h"
#include "measure/timer.h"
#include "tests/sanitizer.h"

namespace fk {
namespace {

TEST(PricedBytes, AreCountedOnceAndAtTheSizeBelowThem) {
  std::vector<PricedBytes> parts = price(Traffic::kRead, 100, 8, 32);
  ASSERT_EQ(parts.size(), 3u);
  double sum = 0, from = 0;
  for (const PricedBytes& part : parts) {
    EXPECT_LE(static_cast<double>(part.rate.size_bytes), std::max(from, 8.0));
    sum += part.bytes;
    from = sum;
  }
  EXPECT_EQ(sum, 100);
  EXPECT_EQ(parts[0].bytes, 16);  // up to the next size, at the rate of the smallest
  EXPECT_EQ(parts[2].rate.size_bytes, 32u);
  EXPECT_EQ(parts[2].bytes, 100 - 64 + 32);
  EXPECT_TRUE(price(Traffic::kWrite, 0, 8, 32).empty());
}

// A machine with caches of two sizes, with the best possible placement of its data.
TEST(PricedBytes, NoPlacementIsCheaper) {
  for (double cache : {24.0, 48.0, 64.0, 100.0}) {
    auto rate_of = [&](size_t size) { return static_cast<double>(size) <= cache ? 10.0 : 1.0; };
    for (double bytes = 1; bytes < 1000; bytes *= 1.3) {
      double best = std::min(bytes, cache) / 10 + std::max(0.0, bytes - cache), priced = 0;
      for (const PricedBytes& part : price(Traffic::kRead, bytes, 16, 512))
        priced += part.bytes / rate_of(part.rate.size_bytes);
      EXPECT_LE(priced, best * (1 + 1e-9)) << bytes << " bytes, a cache of " << cache;
    }
  }
}

TEST(StreamKernels, WriteEveryByteAndNoOther) {
  Buffer memory(4 * kStreamStep);
  for (const WriteKernel& kernel : stream_write_kernels()) {
    std::memset(memory.data(), 7, memory.size());
    kernel.run(memory.data() + kStreamStep, 2 * kStreamStep);
    for (size_t i = 0; i < memory.size(); ++i) {
      bool inside = i >= kStreamStep && i < 3 * kStreamStep;
      ASSERT_EQ(memory.data()[i], std::byte(inside ? 1 : 7)) << kernel.instruction << " at " << i;
    }
  }
}

// The shortest of many runs, in s.
template <class Work>
double quickest(const Work& work) {
  double best = 1e9;
  Stopwatch all;
  for (int i = 0; i < 5 || all.elapsed_s() < 0.02; ++i) best = std::min(best, work());
  return best;
}

// Tests loops of libraries, not those that the rates come from. Another process on this core makes both slower, so a
// loop may be timed in a quiet moment and the rates in a busy one. Rates only rise: they are measured again until no loop
// is faster, and a loop that still is after that time is one that the rates do not know.
TEST(MemoryRates, NoLibraryLoopIsFaster) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsFullSpeed);
  constexpr double kError = 0.05;  // as in bench/kernels/floor_verdict.h
  constexpr double kPatienceS = 30;  // for all sizes together
  ThreadPool pool(1);
  MemoryRates rates(pool);
  Stopwatch patience;
  for (size_t size : {size_t{16} << 10, size_t{256} << 10, size_t{4} << 20, size_t{64} << 20}) {
    Buffer from(size), to(size);
    std::memset(from.data(), 1, size);
    std::memset(to.data(), 1, size);
    for (bool cold : {false, true}) {
      auto timed = [&](auto&& work) {
        return quickest([&] {
          if (cold) {
            evict_from_caches(from.data(), size);
            evict_from_caches(to.data(), size);
          }
          Stopwatch watch;
          work();
          asm volatile("" : : "r"(to.data()) : "memory");
          return watch.elapsed_s();
        });
      };
      double copy = timed([&] { std::memcpy(to.data(), from.data(), size); });
      double fill = timed([&] { std::memset(to.data(), 3, size); });
      Traffic reading = cold ? Traffic::kColdRead : Traffic::kRead;
      double read_s = 0, written_s = 0;
      do {  // as in a run: some of the rates are measured near the timed calls
        for (Traffic traffic : {reading, Traffic::kWrite})
          for (const PricedBytes& part : MemoryRates::parts(traffic, static_cast<double>(size)))
            rates.measure(part.rate, 3e-3);
        read_s = rates.least_s(reading, static_cast<double>(size));
        written_s = rates.least_s(Traffic::kWrite, static_cast<double>(size));
      } while (std::min(copy / std::max(read_s, written_s), fill / written_s) < 1 - kError &&
               patience.elapsed_s() < kPatienceS);
      EXPECT_GE(copy, (1 - kError) * std::max(read_s, written_s)) << "a copy of " << size << (cold ? " cold" : "");
      EXPECT_GE(fill, (1 - kError) * written_s) << "a fill of " << size << (cold ? " cold" : "");
    }
  }
}

}  // namespace
}  // namespace fk
