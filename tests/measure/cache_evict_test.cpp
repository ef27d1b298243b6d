// Eviction is visible in the time: a pointer chase through memory that was just evicted waits for main memory at every
// step.
#include "measure/cache_evict.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "core/rng.h"
#include "measure/timer.h"

namespace fk {
namespace {

constexpr size_t kLines = 256;  // 16 KiB: fits into the first-level cache
struct alignas(64) Line {
  Line* next;
  char rest[56];
};

class Walk {
 public:
  explicit Walk(Line* lines) : lines_(lines) {
    std::vector<size_t> order(kLines);
    std::iota(order.begin(), order.end(), size_t{0});
    Stream stream(1, "walk");
    for (size_t i = kLines - 1; i > 0; --i) std::swap(order[i], order[stream.below(i, i + 1)]);
    for (size_t i = 0; i < kLines; ++i) lines_[order[i]].next = &lines_[order[(i + 1) % kLines]];
  }

  // Every load depends on the one before it, so that loads cannot overlap.
  double ns() const {
    Stopwatch watch;
    const Line* at = lines_;
    for (size_t i = 0; i < kLines; ++i) at = at->next;
    auto ns = static_cast<double>(watch.elapsed_ns());
    EXPECT_EQ(at, lines_);
    return ns;
  }

 private:
  Line* lines_;
};

TEST(CacheEvict, WalkAfterEvictionIsFarSlower) {
  std::vector<Line> lines(kLines);
  Walk walk(lines.data());
  double warm = 1e18, cold = 1e18;
  for (int i = 0; i < 50; ++i) {
    walk.ns();
    warm = std::min(warm, walk.ns());
    evict_from_caches(lines.data(), kLines * sizeof(Line));
    cold = std::min(cold, walk.ns());
  }
  EXPECT_GT(cold, 4 * warm) << "warm " << warm << " ns, cold " << cold << " ns";
}

TEST(CacheEvict, WorksThroughAnotherMappingOfTheSamePages) {
  size_t bytes = kLines * sizeof(Line);
  int file = memfd_create("walk", 0);
  ASSERT_GE(file, 0);
  ASSERT_EQ(ftruncate(file, static_cast<off_t>(bytes)), 0);
  void* ours = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  void* theirs = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0);
  ASSERT_TRUE(ours != MAP_FAILED && theirs != MAP_FAILED);
  Walk walk(static_cast<Line*>(ours));
  double warm = 1e18, cold = 1e18;
  for (int i = 0; i < 50; ++i) {
    walk.ns();
    warm = std::min(warm, walk.ns());
    evict_from_caches(theirs, bytes);
    cold = std::min(cold, walk.ns());
  }
  EXPECT_GT(cold, 4 * warm);
  munmap(ours, bytes);
  munmap(theirs, bytes);
  close(file);
}

TEST(CacheEvict, LeavesValuesAloneAndTakesAnyRange) {
  std::vector<uint8_t> bytes(1000);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  for (size_t begin : {0u, 1u, 63u, 500u}) evict_from_caches(bytes.data() + begin, 77);
  evict_from_caches(bytes.data(), 0);
  evict_from_caches(nullptr, 0);
  for (size_t i = 0; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], static_cast<uint8_t>(i));
}

}  // namespace
}  // namespace fk
