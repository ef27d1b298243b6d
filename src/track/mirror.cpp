#include "track/mirror.h"

#include <algorithm>
#include <chrono>

#include "core/error.h"

namespace fk {
namespace {

using namespace std::chrono_literals;

// The longest time that a finished benchmark waits for a server that has answered it. One that never did is asked once
// more.
constexpr auto kPatience = 10s;
constexpr auto kFirstRetry = 500ms, kLongestRetry = 30'000ms;

}  // namespace

Mirror::Mirror(std::string store_path, std::string run_id, MlflowServer server, Warn warn)
    : store_path_(std::move(store_path)),
      run_id_(std::move(run_id)),
      server_(std::move(server)),
      warn_(std::move(warn)) {
  server_.cancel = &cancel_;
  thread_ = std::thread([this] { work(); });
}

Mirror::~Mirror() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    cancel_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Mirror::wake() {
  {
    std::lock_guard lock(mutex_);
    news_ = true;
  }
  changed_.notify_all();
}

void Mirror::finish() {
  std::unique_lock lock(mutex_);
  finishing_ = news_ = true;
  changed_.notify_all();
  if (changed_.wait_for(lock, kPatience, [&] { return !finishing_; }) && trouble_.empty()) return;
  warn_(fmt::format("{} This run is kept and will be sent by the next run or by `fastkernels mlflow-ui`.",
                    trouble_.empty() ? fmt::format("MLflow at {} is slow.", server_.uri) : trouble_));
}

std::string Mirror::send_all(Store& store) {
  try {
    mirror_run(store, server_, run_id_);
    // Then runs that could not be sent earlier; running ones are sent by their own process.
    for (const std::string& id : store.pending_mirrors(server_.target)) {
      if (cancel_) break;
      std::optional<RunRecord> run = store.run(id);
      if (id != run_id_ && run && run->status != "running") mirror_run(store, server_, id);
    }
    return "";
  } catch (const std::exception& e) {
    return e.what();
  }
}

void Mirror::work() {
  std::unique_ptr<Store> store;
  auto retry = kFirstRetry;
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    bool due = changed_.wait_for(lock, trouble_.empty() ? kLongestRetry : retry, [&] { return stopped_ || news_; });
    if (stopped_) return;
    if (!due && trouble_.empty()) continue;
    // While a server does not answer, new events do not shorten the wait: each try takes a time-out.
    if (due && !trouble_.empty() && !finishing_) {
      changed_.wait_for(lock, retry, [&] { return stopped_ || finishing_; });
      if (stopped_) return;
    }
    news_ = false;
    bool last = finishing_;
    lock.unlock();
    std::string trouble;
    try {
      if (!store) store = open_store(store_path_);
      trouble = send_all(*store);
    } catch (const std::exception& e) {
      trouble = e.what();
    }
    lock.lock();
    trouble_ = trouble;
    retry = trouble.empty() ? kFirstRetry
                            : std::min<std::chrono::milliseconds>(2 * retry, finishing_ ? 2'000ms : kLongestRetry);
    answered_ = answered_ || trouble.empty();
    if (last && (trouble.empty() || !answered_)) {
      finishing_ = false;
      changed_.notify_all();
    }
  }
}

std::unique_ptr<Mirror> start_mirror(Store& store, const std::string& run_id, const Mirror::Warn& warn) {
  MlflowServer server = MlflowServer::from_environment();
  if (server.uri.empty()) return nullptr;
  if (!server.uri.starts_with("http://") && !server.uri.starts_with("https://")) {
    warn(fmt::format(
        "MLFLOW_TRACKING_URI is {}, which is no http address, so runs are not mirrored; `fastkernels mlflow-ui` "
        "starts a server.",
        server.uri));
    return nullptr;
  }
  if (std::string why = http_unavailable(); !why.empty()) {
    warn(fmt::format("Runs are not mirrored to {}: {}.", server.uri, why));
    return nullptr;
  }
  // Recorded before anything is sent, so that a run the server never got is sent later.
  store.set_mirror(server.target, run_id, store.mirror_id(server.target, run_id), false);
  return std::make_unique<Mirror>(store.path(), run_id, std::move(server), warn);
}

}  // namespace fk
