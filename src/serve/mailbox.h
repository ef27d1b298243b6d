// Mailbox: work that other threads hand to the server's thread, which does it in order.
#pragma once

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace fk {

class Mailbox {
 public:
  // From any thread. Dropped once the box is closed.
  void post(std::function<void()> job) {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    jobs_.push_back(std::move(job));
    // One wake-up for all tokens of a step: whoever empties the box takes everything in it.
    if (jobs_.size() == 1 && wake_) wake_();
  }

  // On the server's thread: does what is in the box now. Returns how many jobs that was.
  size_t run_all() {
    std::vector<std::function<void()>> jobs;
    {
      std::lock_guard lock(mutex_);
      jobs.swap(jobs_);
    }
    for (std::function<void()>& job : jobs) job();
    return jobs.size();
  }

  // `wake` is called by the thread that puts the first job into an empty box, and makes the server call run_all().
  void open(std::function<void()> wake) {
    std::lock_guard lock(mutex_);
    wake_ = std::move(wake);
    if (!jobs_.empty()) wake_();
  }
  void close() {
    std::vector<std::function<void()>> dropped;  // destroyed outside of the lock: they may own anything
    std::lock_guard lock(mutex_);
    closed_ = true;
    wake_ = nullptr;
    dropped.swap(jobs_);
  }

 private:
  std::mutex mutex_;
  std::vector<std::function<void()>> jobs_;
  std::function<void()> wake_;
  bool closed_ = false;
};

}  // namespace fk
