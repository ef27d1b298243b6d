// Recorder: what a benchmark tells about its run, on its way to the store and the journal.
//
// Nothing here ends a benchmark: a store that cannot be written is one warning, and the run goes on into the journal.
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
  std::string journal;          // where the run goes when the store cannot have it
  bool journal_always = false;  // also while the store can: a run that --resume goes on with
};

class Recorder {
 public:
  using Warn = std::function<void(const std::string& sentence)>;
  Recorder(RecorderOptions options, Warn warn);
  // A run that was not ended by then failed, or was left by an exception. Waits a little for MLflow: by now the results
  // are printed.
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Completes the record with id and time where they are empty. `resumed`: the run may exist, and is gone on with.
  void start(RunRecord run, bool resumed = false);
  void add(const Json& event);
  void add(const std::vector<Json>& events) {
    for (const Json& e : events) add(e);
  }
  void artifact(std::string_view path, std::string_view bytes) { add(artifact_event(path, bytes)); }
  void end(std::string_view status, std::string_view error = "");

  // The largest confirmed speed-up that the store has of a scenario on this run's device.
  std::optional<double> best_speedup(std::string_view op, std::string_view scenario);

  const RunRecord& run() const { return run_; }
  bool started() const { return started_; }
  bool stored() const { return store_ != nullptr; }  // all of it is in the store
  // The journal holds what nothing else does, or is wanted for --resume.
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
  std::vector<Json> told_;  // for a journal that begins late
  bool started_ = false, ended_ = false;
};

// Runs of this machine that say "running" though their process is gone are "interrupted". Returns how many.
size_t close_dead_runs(Store& store);

}  // namespace fk
