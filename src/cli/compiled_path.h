// The path `compiled` of verbs that run models: a model whose passes are run by plans.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/candidate_options.h"
#include "cli/output.h"
#include "compiler/plan/compiled_model.h"
#include "compiler/plan/search_plan.h"
#include "compiler/plan/step_trial.h"
#include "core/json.h"
#include "engine/batching_options.h"
#include "engine/engine.h"

namespace fk {

// What tries generated kernels of a device: this program, with the same candidates. Nothing on the CPU.
std::vector<std::string> trial_command(const CandidateOptions& candidates, const CommonOptions& common);

// Flags of verbs with plans: which kernels are searched for them.
class SearchFlags {
 public:
  // `when`: what must be given for plans, "--path compiled".
  void add(FlagSet& flags, const std::string& when);
  // Throws UsageError that names the first one that was given.
  void refuse_without_plans() const;
  // The same flags for another process of this program.
  std::vector<std::string> arguments() const;
  static std::vector<std::string> names();

  // Nothing: plans make the calls of the tree. `judged`: the candidates that are loaded.
  std::optional<SearchOptions> options(const std::vector<CandidateRecord>& judged, const CandidateOptions& candidates,
                                       const CommonOptions& common, Progress& progress) const;

 private:
  const FlagSet* flags_ = nullptr;
  std::string when_;
  bool generated_ = true;
  int64_t budget_ = -1;
  uint64_t seed_ = 0;
  std::string cache_;
};

// Batches by phase that whole steps are timed with.
using StepsToTime = std::map<GraphPhase, std::vector<StepSizes>>;
// Those of an engine, or of an encoder.
StepsToTime usual_steps(const Model& model, const BatchingOptions& options = {});

// A plan against the tree, or what the profile store knows of it. `fingerprint`: of the plan.
TrialResult time_whole_steps(CompiledModel& compiled, const Model& model, ThreadPool& pool, GraphPhase phase,
                             const std::string& fingerprint, const std::vector<StepSizes>& sizes,
                             const SearchOptions& search);

class CompiledPath {
 public:
  enum class Use : uint8_t {
    kPasses,  // of prompts, and of tokens, or of an encoder
    kEngine,  // the same, and steps with both
  };
  struct Options {
    Use use = Use::kPasses;
    bool check_every_step = false;  // --debug-sequential
  };
  // Makes the plans that the use needs. Kernels for them are searched as `search` says; nothing: plans make the calls
  // of the tree. Without a compiler they do, too. Throws Error where the model cannot be run by plans.
  CompiledPath(Model& model, const std::optional<SearchOptions>& search, const Options& options);

  // Times whole steps by the plans and by the tree, and leaves phases whose plan is slower to the tree: on all ranks, if
  // it is slower on one of them. Does nothing without a search and where every step is checked.
  void leave_slower_to_tree(ThreadPool& pool, const StepsToTime& steps, Progress& progress);

  // After a run: what was run last in each phase.
  Json to_json() const;
  // Before a run: "prefill: 41 calls of a pass become 29; decode: ...; planned in 12 ms, 10 kernels measured"
  std::string planned_text() const;
  // "25 steps a prompt (25 calls), 25 a token; values in 9.8 KiB, of at least 9.6; planned in 12 ms"
  std::string text() const;

 private:
  std::vector<GraphPhase> phases() const;
  std::string search_text() const;
  std::string left_text() const;
  std::vector<PlannedRegion> regions_of(GraphPhase phase, const GraphBody& flat);

  const Model& model_;
  const Options options_;
  std::optional<SearchOptions> search_;
  std::vector<PhasePlan> found_;             // by the search, without what runs them
  std::map<GraphPhase, double> phase_ms_;    // to plan, by phase
  std::map<GraphPhase, TrialResult> steps_;  // that were timed
  std::string no_steps_;                     // why none were
  double steps_s_ = 0;
  double plan_ms_ = 0;
  double find_s_ = 0, compile_s_ = 0, trial_s_ = 0;  // of plan_ms_
  int64_t measured_ = 0;                             // kernels, in this process
  std::string fingerprint_;                          // of what the plans do
  std::string no_kernels_;                           // why there are none
  std::unique_ptr<CompiledModel> compiled_;
};

// The plans of an engine's steps; phases whose plan is slower are left to the tree. `search`: nothing as in
// CompiledPath.
std::unique_ptr<CompiledPath> compiled_engine(Model& model, const std::optional<SearchOptions>& search,
                                              ThreadPool& pool, const BatchingOptions& options, Progress& progress);

// Throws UsageError where an option of the engine and plans exclude each other.
void refuse_with_plans(const BatchingOptions& options);

// "98.2 % of 1203 steps by plans", of an engine.
std::string compiled_share_text(const EngineStats& stats);

}  // namespace fk
