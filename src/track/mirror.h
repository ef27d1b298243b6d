// Mirror: a thread that sends a run to the MLflow server of MLFLOW_TRACKING_URI while it is in progress.
//
// It sends the rows of the store, so nothing is lost when the server is down: missing rows are sent later by this run,
// the next one, or `mlflow-ui`.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "track/mlflow.h"

namespace fk {

class Mirror {
 public:
  using Warn = std::function<void(const std::string& sentence)>;
  Mirror(std::string store_path, std::string run_id, MlflowServer server, Warn warn);
  ~Mirror();  // cancels the current request
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  void wake();  // there is something new
  // The run has ended: waits until the server has it, a few seconds where it answered before, else warns.
  void finish();

 private:
  void work();
  std::string send_all(Store& store);  // empty, or what went wrong

  std::string store_path_, run_id_;
  MlflowServer server_;
  Warn warn_;
  std::atomic<bool> cancel_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool news_ = true, finishing_ = false, stopped_ = false;
  bool answered_ = false;  // the server has taken all that there was at some time
  std::string trouble_;
  std::thread thread_;
};

// Null if MLFLOW_TRACKING_URI is not set, or cannot be used (with one warning).
std::unique_ptr<Mirror> start_mirror(Store& store, const std::string& run_id, const Mirror::Warn& warn);

}  // namespace fk
