// `kernels --resume`: what an interrupted run measured, as far as it still holds.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/kernels/result_file.h"
#include "track/records.h"

namespace fk {

class EarlierRun {
 public:
  EarlierRun() = default;  // none: nothing is taken over
  // The last run in the file's journal. Older ones under the same name were not gone on with then and are not now.
  // `options`: how this run measures. Throws UsageError where that run did it in another way, since such times do not
  // belong into one table, and Error where the journal is damaged.
  EarlierRun(const ResultFile& file, const Json& options);

  // Gives the record the id and the beginning of the run that is gone on with.
  void go_on(RunRecord& run) const;

  // Its result of a scenario, made from the same candidate; null where there is none.
  Json row(std::string_view op, std::string_view scenario, std::string_view candidate) const;

 private:
  std::vector<Json> lines_;
};

}  // namespace fk
