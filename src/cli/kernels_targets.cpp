#include "cli/kernels_targets.h"

#include <algorithm>

#include "bench/scenarios/scenario_file.h"
#include "candidate/folder.h"
#include "core/error.h"

namespace fk {
namespace {

std::vector<KernelTarget> operators_to_judge(const ScenarioSelection& select, const TargetOptions& options) {
  std::vector<KernelTarget> targets;
  auto every_operator = [&] {
    for (const OperatorInfo* op : Registry::instance().operators()) targets.push_back({op, ""});
  };
  if (!select.target.empty()) {
    const OperatorInfo& op = Registry::instance().at(select.target);
    bool baseline = options.self_test || options.list;
    targets.push_back({&op, baseline ? "" : find_candidate(candidate_folder(), op, options.device).path});
  } else if (options.self_test) {
    every_operator();
  } else {
    for (const CandidateFile& c : find_candidates(candidate_folder(), options.device))
      targets.push_back({c.op, c.path});
    if (targets.empty() && options.list) every_operator();  // the operators that candidates can be written for
    if (targets.empty()) throw Error("{}", no_candidates_sentence(candidate_folder(), options.device));
  }
  return targets;
}

bool some_for_each(const std::vector<KernelTarget>& targets, const std::vector<Scenario>& scenarios) {
  return std::all_of(targets.begin(), targets.end(), [&](const KernelTarget& t) {
    return std::any_of(scenarios.begin(), scenarios.end(), [&](const Scenario& s) { return s.op == t.op->name; });
  });
}

std::vector<Scenario> read_or_generate(ScenarioSelection& select, const std::vector<std::string>& files,
                                       const std::vector<KernelTarget>& targets) {
  std::vector<Scenario> all;
  check_selection(select);
  if (!files.empty()) {
    for (const std::string& path : files)
      for (Scenario& s : read_scenarios(path))
        if (selects(select, s)) all.push_back(std::move(s));
    return all;
  }
  bool by_default = select.models.empty() && select.categories.empty();
  if (by_default) select.models = {"llama-3.2-1b"};
  if (select.tp.empty()) select.tp = {1};
  if (select.models == std::vector<std::string>{"all"}) select.models.clear();
  all = generate_scenarios(select).scenarios;
  // For operators that no model uses, the cases of their contracts are the scenarios. Finding them needs the trees of all
  // models, so they are generated only if a target has no scenario yet.
  if (!by_default || some_for_each(targets, all)) return all;
  ScenarioSelection anywhere = select;
  anywhere.models.clear();
  for (Scenario& s : generate_scenarios(anywhere).scenarios)
    if (s.models.empty()) all.push_back(std::move(s));
  return all;
}

}  // namespace

std::vector<KernelTarget> choose_targets(ScenarioSelection& select, const TargetOptions& options) {
  std::vector<KernelTarget> targets = operators_to_judge(select, options);
  std::vector<Scenario> all = read_or_generate(select, options.scenario_files, targets);
  // A --repro command names one scenario, whose name may be a prefix of another's.
  auto named = [&](const Scenario& s) { return s.name == select.filter; };
  if (options.one_scenario && std::any_of(all.begin(), all.end(), named))
    std::erase_if(all, [&](const Scenario& s) { return !named(s); });
  for (KernelTarget& t : targets)
    for (const Scenario& s : all)
      if (s.op == t.op->name) t.scenarios.push_back(s);
  std::erase_if(targets, [](const KernelTarget& t) { return t.scenarios.empty(); });
  if (targets.empty())
    throw Error("No scenario matches; `fastkernels kernels --list --model all` shows those there are.");
  return targets;
}

}  // namespace fk
