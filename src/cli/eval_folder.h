// EvalFolder: the folder of an evaluation. Every pair has a folder in it with its task and its results, each written
// whole or not at all, so that an interrupted run can be resumed.
#pragma once

#include <string>
#include <vector>

#include "bench/eval/pair_task.h"
#include "track/records.h"

namespace fk {

class EvalFolder {
 public:
  // Creates it, or with `resume` opens that of an interrupted run. Throws Error where another evaluation runs in it,
  // and UsageError where there is nothing to resume or where one is there already.
  EvalFolder(const std::string& path, bool resume);
  ~EvalFolder();
  EvalFolder(const EvalFolder&) = delete;
  EvalFolder& operator=(const EvalFolder&) = delete;

  const std::string& path() const { return path_; }

  // Copies the candidates, so that changes during the run do not matter and other machines find them. Returns the
  // folder of the copy. When resuming throws UsageError where they are not those of the interrupted run.
  std::string take_candidates(const std::string& folder);

  // Sets the folders of the tasks and makes them. Throws UsageError where the interrupted run measured in another way.
  void set_tasks(std::vector<PairTask>& tasks);

  // Stores the run's id for a later resume, or takes that of the interrupted run.
  void keep_run(RunRecord& run);

  // The items that were finished before; a failed one is tried again.
  Json finished_item(const PairTask& task) const;

 private:
  void save() const;

  std::string path_;
  bool resume_;
  int lock_ = -1;
  Json state_ = Json::object();  // run.json
};

}  // namespace fk
