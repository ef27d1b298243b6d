// ThreadPool: pinned workers that spin, then sleep, while they wait; a parallel loop neither allocates nor locks.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace fk {

class ThreadPool {
 public:
  // `threads` counts the caller: 1 starts no worker. Workers are pinned to the cores this process may use, one each but
  // the first. The caller is not pinned; if it runs on a worker's core when a loop starts, it is moved to the first
  // core.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Runs body(thread) once on each thread, thread = 0 .. threads()-1 (0 is the caller); returns when all are done.
  // Calls from inside a body are not allowed. `body` must not throw.
  template <class Body>
  void on_all(Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    run({[](void* context, int thread) { (*static_cast<Plain*>(context))(thread); }, &body});
  }

  // Splits 0 .. n-1 into chunks of at least `grain` and runs body(begin, end) on them; chunks are distributed
  // dynamically, so uneven chunks are balanced.
  template <class Body>
  void parallel_for(int64_t n, int64_t grain, Body&& body) {
    if (n <= 0) return;
    if (grain < 1) grain = 1;
    if (threads() == 1 || n <= grain) return body(int64_t{0}, n);
    std::atomic<int64_t> next{0};
    on_all([&](int) {
      for (;;) {
        int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
        if (begin >= n) return;
        body(begin, begin + grain < n ? begin + grain : n);
      }
    });
  }

 private:
  struct Task {
    void (*call)(void*, int) = nullptr;
    void* context = nullptr;
  };

  void run(Task task);
  void work(int thread);
  void leave_workers_cores() const;

  Task task_;
  alignas(64) std::atomic<uint32_t> generation_{0};
  alignas(64) std::atomic<int32_t> unfinished_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
  std::vector<int> worker_cores_;  // empty where workers are not pinned
  int caller_core_ = 0;
};

// Cores this process is allowed to run on.
int usable_cores();

}  // namespace fk
