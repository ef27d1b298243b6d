#include "core/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "core/check.h"

namespace fk {
namespace {

// Spinning covers the serial parts of a decode step; in longer pauses the core sleeps. The limit is a time, because one
// relax() takes from 1 ns (aarch64) to 40 ns (x86-64).
constexpr std::chrono::microseconds kSpinTime(50);

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until ready() or until the time limit; returns whether it was ready.
template <class Ready>
bool spin_until(Ready ready) {
  std::optional<std::chrono::steady_clock::time_point> give_up;
  for (;;) {
    for (int i = 0; i < 32; ++i) {
      if (ready()) return true;
      relax();
    }
    auto now = std::chrono::steady_clock::now();
    if (!give_up) give_up = now + kSpinTime;
    if (now >= *give_up) return false;
  }
}

std::vector<int> allowed_cores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &set)) cores.push_back(i);
  if (cores.empty()) cores.push_back(0);
  return cores;
}

cpu_set_t only(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  return set;
}

}  // namespace

int usable_cores() { return static_cast<int>(allowed_cores().size()); }

ThreadPool::ThreadPool(int threads) {
  FK_CHECK(threads >= 1);
  std::vector<int> cores = allowed_cores();
  caller_core_ = cores[0];
  for (int i = 1; i < threads; ++i) {
    workers_.emplace_back([this, i] { work(i); });
    if (threads > static_cast<int>(cores.size())) continue;  // pinning would put several threads on one core
    cpu_set_t set = only(cores[i]);
    if (pthread_setaffinity_np(workers_.back().native_handle(), sizeof set, &set) == 0)
      worker_cores_.push_back(cores[i]);
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

// The scheduler moves waiting threads to other cores. If the caller shares a core with a pinned worker, the waiting
// thread is half of the time the worker, which cannot move. Such a caller was seen to stay for seconds, at half the
// speed.
void ThreadPool::leave_workers_cores() const {
  if (std::find(worker_cores_.begin(), worker_cores_.end(), sched_getcpu()) == worker_cores_.end()) return;
  cpu_set_t mine, first = only(caller_core_);
  if (sched_getaffinity(0, sizeof mine, &mine) != 0 || !CPU_ISSET(caller_core_, &mine)) return;
  if (sched_setaffinity(0, sizeof first, &first) == 0) sched_setaffinity(0, sizeof mine, &mine);
}

void ThreadPool::run(Task task) {
  if (workers_.empty()) return task.call(task.context, 0);
  leave_workers_cores();
  task_ = task;
  unfinished_.store(static_cast<int32_t>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  task.call(task.context, 0);
  if (spin_until([&] { return unfinished_.load(std::memory_order_acquire) == 0; })) return;
  for (int32_t left; (left = unfinished_.load(std::memory_order_acquire)) != 0;)
    unfinished_.wait(left, std::memory_order_acquire);
}

void ThreadPool::work(int thread) {
  uint32_t seen = 0;
  for (;;) {
    if (!spin_until([&] { return generation_.load(std::memory_order_acquire) != seen; }))
      generation_.wait(seen, std::memory_order_acquire);
    ++seen;  // the caller starts the next task only after this one is done, so no generation is ever skipped
    if (stop_.load(std::memory_order_relaxed)) return;
    task_.call(task_.context, thread);
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
  }
}

}  // namespace fk
