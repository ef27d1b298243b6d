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

// An operator that is judged: its candidate, or nothing in a self-test of the baseline.
struct KernelTarget {
  const OperatorInfo* op = nullptr;
  std::string source_path;
  std::vector<Scenario> scenarios = {};
  std::string source = {};
  std::optional<CompileResult> compiled = {};

  // Identifies the build: the name of the compiled object is a hash of source, flags and compiler.
  std::string identity() const;
  // The same; for a failed build, from the source and the compiler's output.
  std::string version() const;
};

// One scenario's result as in the result file.
struct KernelRow {
  Json json;
  bool passed() const { return json.value("verdict", "") == "PASSED"; }
  // Not a failure of the candidate: it refuses such a call, or the scenario cannot show errors. No credit, but no
  // error.
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

// Prints results as they come: a row when its scenario has finished; after the last row of an operator its footer and
// the failures, each sentence once. With --json everything is printed at the end.
class KernelsReport {
 public:
  // `rows` grows while it prints.
  KernelsReport(const std::vector<KernelTarget>& targets, const std::vector<KernelRow>& rows,
                const CommonOptions& common, const ReportOptions& options);
  ~KernelsReport();

  void row_added();                                                  // the last one of `rows`
  void not_run(const std::string& op, const std::string& scenario);  // left out, after --fail-fast
  // Throws Error if something could not be printed; a closed pipe is no error.
  void finish(const Json& document, const std::string& path);  // `path`: empty where there is no file

 private:
  void begin(const std::string& op, size_t first);
  void end_operator();

  struct State;
  std::unique_ptr<State> state_;
};

Json aggregate_json(const std::vector<KernelRow>& rows);
// Empty where nothing failed. In a self-test, a baseline that differs from itself is a failure too.
std::string failure_sentence(const std::vector<KernelRow>& rows, bool self_test, bool fail_fast);

}  // namespace fk
