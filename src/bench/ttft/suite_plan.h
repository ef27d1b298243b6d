// Which rows a suite measures, in which order, and which it leaves out.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/ttft/suite_file.h"

namespace fk {

enum class SuiteMode {
  kSingle,       // one configuration with its paths
  kAllConfigs,   // every configuration with its paths
  kSearchSweep,  // the compiled path of every configuration, at every budget of its sweep
  kUrTest,       // every configuration with all paths, then the sweeps
  kUrTestFast,   // without the sweeps
};
const std::vector<std::string>& suite_mode_names();  // "single", ...
SuiteMode suite_mode_of(const std::string& name);

struct SuiteRow {
  const SuiteConfig* config = nullptr;
  std::string path;
  std::optional<int64_t> budget = std::nullopt;  // of the compiled path
  std::string skipped = {};                      // why it is not run
};

// Rows point into `configs`. `chosen`: the name of one configuration, or empty for all; `single` needs it where there
// are several. Throws UsageError.
std::vector<SuiteRow> plan_suite(const std::vector<SuiteConfig>& configs, SuiteMode mode, const std::string& chosen);

// A path that ran out of memory at one budget is not tried at higher ones.
class MemoryHistory {
 public:
  void ran_out(const SuiteRow& row, int64_t peak_bytes);
  // Why the row is left out, or nothing.
  std::string reason(const SuiteRow& row) const;

 private:
  struct Limit {
    std::optional<int64_t> budget;  // the smallest that was too much; nothing: without a limit
    int64_t peak_bytes = 0;
  };
  std::map<std::pair<const SuiteConfig*, std::string>, Limit> limits_;
};

}  // namespace fk
