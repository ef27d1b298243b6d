// What `kernels` prints: the table of results, and the list of scenarios.
#pragma once

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

// A table per operator, its footer, then the sentences of what failed, each once. `path`: empty where there is no file.
void print_rows(const std::vector<KernelRow>& rows, const Json& document, const std::string& path,
                const CommonOptions& common, bool explain);

Json aggregate_json(const std::vector<KernelRow>& rows);
// Empty where nothing failed. In a self-test, a baseline that differs from itself is a failure too.
std::string failure_sentence(const std::vector<KernelRow>& rows, bool self_test);

}  // namespace fk
