// Buffer, Tensor and Arena: alignment, zeroed memory, and no allocation once a loop of steps has settled.
#include "core/memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "core/error.h"

namespace fk {
namespace {

bool aligned(const void* address, uintptr_t alignment) { return reinterpret_cast<uintptr_t>(address) % alignment == 0; }

TEST(Buffer, IsZeroAlignedAndAtLeastAsLargeAsAsked) {
  for (size_t size : {size_t{1}, size_t{4096}, size_t{65537}, size_t{2} << 20, (size_t{5} << 20) + 3}) {
    Buffer b(size);
    ASSERT_GE(b.size(), size);
    EXPECT_TRUE(aligned(b.data(), size >= (size_t{2} << 20) ? size_t{2} << 20 : 4096)) << size;
    EXPECT_TRUE(std::all_of(b.data(), b.data() + b.size(), [](std::byte x) { return x == std::byte{0}; }));
    std::fill(b.data(), b.data() + b.size(), std::byte{0xff});  // every byte of size() can be written
  }
}

TEST(Buffer, OfNothingHoldsNothing) {
  Buffer b(0);
  EXPECT_EQ(b.data(), nullptr);
  EXPECT_EQ(b.size(), 0u);
}

TEST(Buffer, MovesItsMemory) {
  Buffer a(100);
  std::byte* data = a.data();
  Buffer b(std::move(a));
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(a.data(), nullptr);  // NOLINT(bugprone-use-after-move): the moved-from state is what is tested
  Buffer c(200);
  c = std::move(b);
  EXPECT_EQ(c.data(), data);
}

TEST(Buffer, RefusesWhatNoMachineHasWithASentence) {
  for (size_t size : {std::numeric_limits<size_t>::max(), std::numeric_limits<size_t>::max() - 0xffff,
                      std::numeric_limits<size_t>::max() / 2, size_t{1} << 60}) {
    try {
      Buffer b(size);
      FAIL() << size;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("refused"), std::string::npos) << e.what();
    }
  }
}

TEST(Tensor, OwnsADenseZeroView) {
  Tensor t({3, 5}, DType::kF32);
  EXPECT_EQ(t.view().shape(), (Shape{3, 5}));
  EXPECT_TRUE(t.view().contiguous());
  for (int i = 0; i < 15; ++i) EXPECT_EQ(t.ptr<float>()[i], 0.0f);
  float* data = t.ptr<float>();
  data[7] = 3;
  Tensor moved = std::move(t);
  EXPECT_EQ(moved.ptr<float>(), data);
  EXPECT_EQ(get(moved, 1, 2), 3);
  Tensor empty({0, 5}, DType::kF32);
  EXPECT_EQ(empty.view().numel(), 0);
}

// memcpy and similar functions must not get null, not even for zero bytes.
TEST(Tensor, WithoutElementsHasAnAddress) {
  for (const Shape& shape : {Shape{0}, Shape{3, 0}, Shape{0, 16, 2}}) {
    Tensor empty(shape, DType::kF32), moved(std::move(empty));
    EXPECT_NE(moved.view().data(), nullptr);
    EXPECT_EQ(moved.view().size_bytes(), 0u);
  }
  EXPECT_NE(Arena().make({{0, 4}, DType::kBF16}).data(), nullptr);
}

TEST(Arena, TensorsAreAlignedAndDoNotOverlap) {
  Arena arena;
  std::vector<std::pair<std::byte*, std::byte*>> ranges;
  for (int64_t n : {1, 3, 64, 65, 1000, 0, 7, 3000000, 2, 600000, 600000}) {  // several chunks, some left half used
    View v = arena.make({{n}, DType::kF16});
    auto* begin = static_cast<std::byte*>(v.data());
    EXPECT_TRUE(aligned(begin, 64)) << n;
    std::fill(begin, begin + v.size_bytes(), std::byte{0xff});
    ranges.emplace_back(begin, begin + v.size_bytes());
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 0; i + 1 < ranges.size(); ++i) EXPECT_LE(ranges[i].second, ranges[i + 1].first);
}

TEST(Arena, EqualStepsGetEqualMemoryAfterTheFirst) {
  Arena arena;
  auto step = [&] {
    std::vector<void*> addresses;
    for (int64_t n : {100, 5000, 17, 1000000, 300000}) addresses.push_back(arena.make({{n}, DType::kF32}).data());
    return addresses;
  };
  step();
  arena.reset();
  std::vector<void*> settled = step();
  size_t capacity = arena.capacity_bytes();
  for (int i = 0; i < 100; ++i) {
    arena.reset();
    ASSERT_EQ(step(), settled);
  }
  EXPECT_EQ(arena.capacity_bytes(), capacity);
  EXPECT_GE(capacity, size_t{4} * (100 + 5000 + 17 + 1000000 + 300000));
}

// New memory causes page faults: a loop in steady state must have none.
TEST(Arena, SettledStepsTakeNoNewPages) {
  Arena arena;
  auto step = [&] {
    arena.reset();
    for (int i = 0; i < 8; ++i) {
      View v = arena.make({{1 << 16}, DType::kF32});
      std::fill(v.ptr<float>(), v.ptr<float>() + v.numel(), 1.0f);
    }
  };
  auto faults = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
  };
  step();
  step();
  long before = faults();
  for (int i = 0; i < 20; ++i) step();
  EXPECT_LT(faults() - before, 20 * 8);  // one step's memory alone is 512 pages
}

TEST(Arena, ReleaseGivesBackWhatCameAfterTheMark) {
  Arena arena;
  View kept = arena.make({{1000}, DType::kF32});
  kept.ptr<float>()[999] = 42;
  Arena::Mark mark = arena.mark();
  View scratch = arena.make({{1000}, DType::kF32});
  arena.release(mark);
  View again = arena.make({{1000}, DType::kF32});
  EXPECT_EQ(again.data(), scratch.data());
  EXPECT_NE(again.data(), kept.data());
  EXPECT_EQ(kept.ptr<float>()[999], 42);
}

// In the first step of a model the arena does not know its size yet; the scratch of the layers must not accumulate.
TEST(Arena, ReleasedScratchDoesNotPileUpInAStepThatGrows) {
  Arena arena;
  View kept = arena.make({{16}, DType::kF32});
  kept.ptr<float>()[0] = 7;
  constexpr int64_t kScratchBytes = 8 << 20;
  for (int layer = 0; layer < 64; ++layer) {
    Arena::Mark mark = arena.mark();
    View scratch = arena.make({{kScratchBytes}, DType::kU8});
    std::fill(scratch.ptr<uint8_t>(), scratch.ptr<uint8_t>() + 4096, uint8_t{1});
    arena.release(mark);
  }
  EXPECT_LT(arena.capacity_bytes(), static_cast<size_t>(2 * kScratchBytes));
  EXPECT_EQ(kept.ptr<float>()[0], 7);
}

}  // namespace
}  // namespace fk
