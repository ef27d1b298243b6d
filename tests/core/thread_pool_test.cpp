// The thread pool: every index exactly once, whatever the number of threads, the grain and the balance of the work.
#include "core/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <set>
#include <vector>

namespace fk {
namespace {

TEST(ThreadPool, RunsTheBodyOnceOnEachThread) {
  for (int threads = 1; threads <= 8; ++threads) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    std::vector<int> calls(static_cast<size_t>(threads), 0);
    std::vector<std::thread::id> ids(static_cast<size_t>(threads));
    pool.on_all([&](int thread) {
      ++calls[static_cast<size_t>(thread)];
      ids[static_cast<size_t>(thread)] = std::this_thread::get_id();
    });
    EXPECT_EQ(calls, std::vector<int>(static_cast<size_t>(threads), 1));
    EXPECT_EQ(ids[0], std::this_thread::get_id());
    EXPECT_EQ(std::set<std::thread::id>(ids.begin(), ids.end()).size(), static_cast<size_t>(threads));
  }
}

TEST(ThreadPool, VisitsEveryIndexOnce) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (int64_t n : {0, 1, 2, 7, 64, 1000}) {
      for (int64_t grain : {-1, 0, 1, 3, 64, 5000}) {
        std::vector<int> visits(static_cast<size_t>(n), 0);  // plain ints: an index taken twice is a race and a 2
        pool.parallel_for(n, grain, [&](int64_t begin, int64_t end) {
          ASSERT_LT(begin, end);
          for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
        });
        ASSERT_EQ(visits, std::vector<int>(static_cast<size_t>(n), 1)) << threads << " " << n << " " << grain;
      }
    }
  }
}

TEST(ThreadPool, ChunksAreNoSmallerThanTheGrainButTheLast) {
  ThreadPool pool(3);
  std::vector<int64_t> length(100, 0);
  pool.parallel_for(100, 8, [&](int64_t begin, int64_t end) { length[static_cast<size_t>(begin)] = end - begin; });
  for (size_t begin = 0; begin < 100; begin += 8) EXPECT_EQ(length[begin], begin == 96 ? 4 : 8);
}

// Results of a loop are visible to the caller and to the next loop, ten thousand times in a row.
TEST(ThreadPool, ManyTinyLoopsFollowEachOther) {
  ThreadPool pool(2);
  std::vector<int64_t> sums(2, 0);
  int64_t expected = 0;
  for (int64_t round = 0; round < 10000; ++round) {
    pool.on_all([&](int thread) { sums[static_cast<size_t>(thread)] += round; });
    expected += 2 * round;
  }
  EXPECT_EQ(sums[0] + sums[1], expected);
}

TEST(ThreadPool, UnevenWorkIsShared) {
  ThreadPool pool(2);
  std::vector<double> out(200, 0);
  pool.parallel_for(200, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      double sum = 0;
      for (int64_t k = 0; k <= (i % 10 == 0 ? 20000 : 10); ++k) sum += static_cast<double>(k);
      out[static_cast<size_t>(i)] = sum;
    }
  });
  for (size_t i = 0; i < 200; ++i) EXPECT_EQ(out[i], i % 10 == 0 ? 20000.0 * 20001 / 2 : 55.0);
}

TEST(ThreadPool, WakesAfterItsWorkersFellAsleep) {
  ThreadPool pool(3);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // far longer than the spin
    std::vector<int> visits(300, 0);
    pool.parallel_for(300, 10, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
    });
    ASSERT_EQ(std::accumulate(visits.begin(), visits.end(), 0), 300);
  }
}

// The caller sleeps on the last worker and has to be woken by it.
TEST(ThreadPool, WaitsForASlowWorker) {
  ThreadPool pool(2);
  bool done = false;
  pool.on_all([&](int thread) {
    if (thread == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    done = true;
  });
  EXPECT_TRUE(done);
}

TEST(ThreadPool, ManyPoolsStartAndStop) {
  for (int i = 0; i < 50; ++i) {
    ThreadPool idle(4);
    ThreadPool used(2);
    int calls[2] = {0, 0};
    used.on_all([&](int thread) { ++calls[thread]; });
    ASSERT_EQ(calls[0] + calls[1], 2);
  }
}

TEST(ThreadPool, KnowsTheCoresItMayUse) {
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(usable_cores(), static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace fk
