// What `kernels` prints: the table of results, and the list of scenarios.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/scenarios/scenario.h"
#include "candidate/compile.h"
#include "cli/options.h"
#include "core/json.h"

namespace fk {

// An operator that is judged: its candidate, or nothing where the baseline plays it.
struct KernelTarget {
  const OperatorInfo* op = nullptr;
  std::string source_path;
  std::vector<Scenario> scenarios = {};
  std::string source = {};
  std::optional<CompileResult> compiled = {};

  // Names what was measured: the compiled object carries source, flags and compiler in its name.
  std::string identity() const;
  // The same; and where it was not built, by what the source was and what the compiler said.
  std::string version() const;
};

// One scenario's result as it stands in the result file.
struct KernelRow {
  Json json;
  bool passed() const { return json.value("verdict", "") == "PASSED"; }
  // Not the candidate's failure: it does not take such a call, or the scenario can tell nobody right from wrong. Earns
  // nothing, but is no error.
  bool without_credit() const {
    auto verdict = json.value("verdict", "");
    return verdict == "REFUSED" || verdict == "INVALID_TASK";
  }
};

void print_scenario_list(const std::vector<KernelTarget>& targets, const CommonOptions& common);

struct ReportOptions {
  bool explain = false;  // say what limits each candidate
  bool timed = true;     // false: a run that only checks
};

// Prints results as they come: a row when its scenario has finished, behind the last row of an operator its footer and
// the sentences of what failed, each once. With --json nothing is printed before the end.
class KernelsReport {
 public:
  // `rows` grows while it prints.
  KernelsReport(const std::vector<KernelTarget>& targets, const std::vector<KernelRow>& rows,
                const CommonOptions& common, const ReportOptions& options);
  ~KernelsReport();

  void row_added();                                                  // the last one of `rows`
  void not_run(const std::string& op, const std::string& scenario);  // left out, after --fail-fast
  // Throws Error where something could not be printed; a reader who went away is no error.
  void finish(const Json& document, const std::string& path);  // `path`: empty where there is no file

 private:
  void begin(const std::string& op, size_t first);
  void end_operator();

  struct State;
  std::unique_ptr<State> state_;
};

Json aggregate_json(const std::vector<KernelRow>& rows);
// Empty where nothing failed. In a self-test, a baseline that differs from itself is a failure too.
std::string failure_sentence(const std::vector<KernelRow>& rows, bool self_test);

}  // namespace fk
