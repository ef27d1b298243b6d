// Recorder: writes the events of a benchmark run to the store and the journal.
//
// Errors here never end a benchmark: if the store cannot be written, one warning is printed and the run goes to the
// journal.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "track/events.h"
#include "track/journal.h"
#include "track/mirror.h"

namespace fk {

struct RecorderOptions {
  bool enabled = true;
  std::string db;               // empty: the default store
  std::string journal;          // used if the store cannot be written
  bool journal_always = false;  // also if the store can be written: for --resume
};

class Recorder {
 public:
  using Warn = std::function<void(const std::string& sentence)>;
  Recorder(RecorderOptions options, Warn warn);
  // A run that was not ended is marked as failed. Waits a short time for MLflow: the results are printed already.
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Completes the record with id and time where they are empty. `resumed`: the run may exist and is continued.
  void start(RunRecord run, bool resumed = false);
  void add(const Json& event);
  void add(const std::vector<Json>& events) {
    for (const Json& e : events) add(e);
  }
  void artifact(std::string_view path, std::string_view bytes) { add(artifact_event(path, bytes)); }
  void end(std::string_view status, std::string_view error = "");

  // The largest confirmed speed-up of a scenario on this run's device in the store.
  std::optional<double> best_speedup(std::string_view op, std::string_view scenario);

  const RunRecord& run() const { return run_; }
  bool started() const { return started_; }
  bool stored() const { return store_ != nullptr; }  // all of it is in the store
  // The journal is the only record of the run, or is needed for --resume.
  const std::string& journal_path() const { return options_.journal; }

 private:
  void to_journal(const Json& event);
  void lose_store(const std::string& why);

  RecorderOptions options_;
  Warn warn_;
  std::unique_ptr<Store> store_;
  std::optional<Journal> journal_;
  std::unique_ptr<Mirror> mirror_;
  RunRecord run_;
  std::vector<Json> told_;  // for a journal that is started later
  bool started_ = false, ended_ = false;
};

// Marks runs of this machine that are "running" but whose process has ended as "interrupted". Returns how many.
size_t close_dead_runs(Store& store);

}  // namespace fk
