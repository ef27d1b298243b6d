// `kernels --resume`: the results of an interrupted run that are still valid.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/kernels/result_file.h"
#include "track/records.h"

namespace fk {

class EarlierRun {
 public:
  EarlierRun() = default;  // no earlier run
  // The last run in the file's journal; older ones are ignored. `options`: how this run measures. Throws UsageError if
  // that run measured in another way, since its times cannot be compared, and Error if the journal is damaged.
  EarlierRun(const ResultFile& file, const Json& options);

  // Sets the id and the start time of the record to those of the resumed run.
  void go_on(RunRecord& run) const;

  // Its result of a scenario, made from the same candidate; null where there is none.
  Json row(std::string_view op, std::string_view scenario, std::string_view candidate) const;

 private:
  std::vector<Json> lines_;
};

}  // namespace fk
