#include "sandbox/deadline.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "measure/timer.h"

namespace fk {

// One thread checks all deadlines every few milliseconds, so that setting a deadline wakes no thread.
class DeadlineThread {
 public:
  static DeadlineThread& instance() {
    static DeadlineThread thread;
    return thread;
  }

  void add(Deadline* deadline) {
    std::lock_guard lock(mutex_);
    all_.push_back(deadline);
  }
  void remove(Deadline* deadline) {
    std::lock_guard lock(mutex_);
    std::erase(all_, deadline);
  }
  bool passed(const Deadline* deadline) {
    std::lock_guard lock(mutex_);
    return deadline->passed_;
  }

 private:
  DeadlineThread()
      : thread_([this](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            look();
          }
        }) {}

  void look() {
    std::lock_guard lock(mutex_);
    int64_t now = now_ns();
    for (Deadline* d : all_)
      if (!d->passed_ && now > d->deadline_ns_) {
        d->passed_ = true;
        kill(d->process_, SIGKILL);
      }
  }

  std::mutex mutex_;
  std::vector<Deadline*> all_;
  std::jthread thread_;  // last: it is stopped before the other members are destroyed
};

Deadline::Deadline(pid_t process, int64_t deadline_ns) : process_(process), deadline_ns_(deadline_ns) {
  DeadlineThread::instance().add(this);
}
Deadline::~Deadline() { DeadlineThread::instance().remove(this); }
bool Deadline::passed() const { return DeadlineThread::instance().passed(this); }

}  // namespace fk
