// for_pieces: every piece runs once, and a thread that is slow does not delay the others.
#include "backend/cpu/for_pieces.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace fk {
namespace {

TEST(ForPieces, EveryPieceRunsOnce) {
  for (int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    for (int64_t n : {0, 1, 2, 3, 4, 7, 64, 1001}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(n));
      std::atomic<bool> known_threads = true;
      for_pieces(pool, n, [&](int thread, int64_t i) {
        if (thread < 0 || thread >= threads) known_threads = false;
        ++runs[static_cast<size_t>(i)];
      });
      EXPECT_TRUE(known_threads);
      for (int64_t i = 0; i < n; ++i) EXPECT_EQ(runs[static_cast<size_t>(i)], 1) << i << " of " << n;
    }
  }
}

TEST(ForPieces, ThePiecesOfASlowThreadAreTakenFromItsEnd) {
  ThreadPool pool(2);
  constexpr int64_t kPieces = 40;
  std::array<std::atomic<int>, kPieces> by{};
  std::atomic<int> begun = 0;           // threads that have their first piece
  std::atomic<int> left = kPieces - 1;  // all but the piece that takes long
  auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  auto wait_until = [&](auto holds) {
    while (!holds() && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
  };
  for_pieces(pool, kPieces, [&](int thread, int64_t i) {
    by[static_cast<size_t>(i)] = thread;
    // Each thread waits for the other here: on a busy machine one may begin when the other has taken every piece.
    if (i == 0 || i == kPieces / 2) {
      ++begun;
      wait_until([&] { return begun == 2; });
    }
    if (i != 0)
      --left;
    else
      wait_until([&] { return left == 0; });
  });
  EXPECT_EQ(left, 0) << "pieces waited for a slow thread";
  for (int64_t i = 1; i < kPieces; ++i) EXPECT_NE(by[static_cast<size_t>(i)], by[0]) << "piece " << i;
}

}  // namespace
}  // namespace fk
