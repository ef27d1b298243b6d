// Ranks that share memory: every collective operation on 1 to 5 ranks gives what plain loops give, the same bits on
// every rank, and a rank that is lost ends the others' wait.
#include "core/shared_ranks.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "core/memory.h"
#include "core/rng.h"
#include "tests/core/on_ranks.h"
#include "tests/models/error_text.h"

namespace fk {
namespace {

// Element i of what a rank has: exact in every dtype, and different on every rank and in every block.
double element(int64_t rank, int64_t i) { return static_cast<double>((i * 37 + i / 251 + rank * 101) % 127 - 63); }

Tensor elements(int64_t n, DType dtype, int64_t rank) {
  Tensor t({n}, dtype);
  for (int64_t i = 0; i < n; ++i) set(t, element(rank, i), i);
  return t;
}

double sum_of(int64_t size, int64_t i) {
  double sum = 0;
  for (int64_t rank = 0; rank < size; ++rank) sum += element(rank, i);
  return sum;
}

// Elements that are empty, few, not a multiple of the ranks, and more than a slot holds.
TEST(SharedRanks, AllReduceIsTheSum) {
  for (int64_t size : {1, 2, 3, 5})
    for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kF64, DType::kI32})
      for (int64_t n : {0, 1, 77, 40001})
        on_ranks(size, [&](Communicator& ranks) {
          Tensor out({n}, dtype);
          ranks.all_reduce(elements(n, dtype, ranks.rank()), out, nullptr);
          int64_t wrong = 0;
          for (int64_t i = 0; i < n; ++i) {
            double expected = sum_of(size, i);
            wrong += !(std::abs(get(out, i) - expected) <= dtype_epsilon(dtype) * std::abs(expected));
          }
          EXPECT_EQ(wrong, 0) << size << " ranks, " << n << " of " << dtype_name(dtype);
        });
}

TEST(SharedRanks, LargeAndSmallSumsHaveTheSameBits) {
  constexpr int64_t kFew = 1000, kMany = 100000;  // above and below the size where the algorithm changes
  std::vector<float> few(kFew), many(kMany);
  on_ranks(3, [&](Communicator& ranks) {
    Tensor x({kMany}, DType::kF32), out({kMany}, DType::kF32);
    Stream stream(static_cast<uint64_t>(ranks.rank()), "x");
    for (int64_t i = 0; i < kMany; ++i) x.ptr<float>()[i] = static_cast<float>(stream.normal(static_cast<uint64_t>(i)));
    ranks.all_reduce(x, out, nullptr);
    if (ranks.rank() == 1) many.assign(out.ptr<float>(), out.ptr<float>() + kMany);
    ranks.all_reduce(x.view().narrow(0, 0, kFew), out.view().narrow(0, 0, kFew), nullptr);
    if (ranks.rank() == 2) few.assign(out.ptr<float>(), out.ptr<float>() + kFew);
  });
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
}

TEST(SharedRanks, BlocksArriveInRankOrder) {
  for (int64_t size : {2, 4})
    for (int64_t n : {3, 70001}) {
      on_ranks(size, [&](Communicator& ranks) {
        Tensor mine = elements(n, DType::kF32, ranks.rank()), all({size * n}, DType::kF32);
        ranks.all_gather(mine, all, nullptr);
        Tensor blocks = elements(size * n, DType::kF32, ranks.rank()), exchanged({size * n}, DType::kF32),
               reduced({n}, DType::kF32), sent = elements(n, DType::kF32, ranks.rank());
        ranks.all_to_all(blocks, exchanged, nullptr);
        ranks.reduce_scatter(blocks, reduced, nullptr);
        ranks.broadcast(sent, size - 1, nullptr);
        ranks.barrier();
        for (int64_t i : {int64_t{0}, n / 2, n - 1}) {
          for (int64_t r = 0; r < size; ++r) {
            EXPECT_EQ(get(all, r * n + i), element(r, i));
            EXPECT_EQ(get(exchanged, r * n + i), element(r, ranks.rank() * n + i));
          }
          EXPECT_EQ(get(reduced, i), sum_of(size, ranks.rank() * n + i));
          EXPECT_EQ(get(sent, i), element(size - 1, i));
        }
      });
    }
}

TEST(SharedRanks, ALostRankEndsTheWaitOfTheOthers) {
  expect_sentence(error_of([] {
                    on_ranks(3, [](Communicator& ranks) {
                      ranks.barrier();
                      if (ranks.rank() != 1) ranks.barrier();
                    });
                  }),
                  {"rank ended", "rank 0"});
}

TEST(SharedRanks, DifferentStepsAreAnErrorAndNoWrongResult) {
  expect_sentence(error_of([] {
                    on_ranks(2, [](Communicator& ranks) {
                      Tensor x({4 + ranks.rank()}, DType::kF32), out({8 + 2 * ranks.rank()}, DType::kF32);
                      ranks.all_gather(x, out, nullptr);
                    });
                  }),
                  {"different steps", "same command line"});
}

TEST(SharedRanks, AFileOfAnotherSizeIsRefused) {
  SharedRanks memory(2);
  expect_sentence(error_of([&] { SharedRanks(memory.file(), 3); }), {"3 ranks", "--tp"});
  expect_sentence(error_of([&] { SharedRanks(-1, 2); }), {"2 ranks", "--tp"});
}

TEST(SingleRank, CopiesWhatItIsGiven) {
  Tensor x = elements(5, DType::kBF16, 3), out({5}, DType::kBF16);
  single_rank().all_reduce(x, out, nullptr);
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(get(out, i), get(x, i));
  EXPECT_EQ(single_rank().size(), 1);
}

}  // namespace
}  // namespace fk
