// The path `compiled` of verbs that run models: a model whose passes are run by plans.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/candidate_options.h"
#include "compiler/plan/compiled_model.h"
#include "compiler/plan/search_plan.h"
#include "core/json.h"

namespace fk {

// What tries generated kernels of a device: this program, with the same candidates. Nothing on the CPU.
std::vector<std::string> trial_command(const CandidateOptions& candidates, const CommonOptions& common);

class CompiledPath {
 public:
  // Makes the plans of the phases that a measurement needs: prompts and decoding, or the one of an encoder. Kernels for
  // them are searched as `search` says; nothing: plans make the calls of the tree. Without a compiler they do, too.
  // `check_every_step`: --debug-sequential. Throws Error where the model cannot be run by plans.
  CompiledPath(Model& model, const std::optional<SearchOptions>& search, bool check_every_step);

  // After a run: what was run last in each phase.
  Json to_json() const;
  // "25 steps a prompt (25 calls), 25 a token; values in 9.8 KiB, of at least 9.6; planned in 12 ms"
  std::string text() const;

 private:
  std::vector<GraphPhase> phases() const;
  std::vector<PlannedRegion> regions_of(GraphPhase phase, const GraphBody& flat);

  const Model& model_;
  std::optional<SearchOptions> search_;
  double plan_ms_ = 0;
  double find_s_ = 0, compile_s_ = 0, trial_s_ = 0;  // of plan_ms_
  int64_t measured_ = 0;                             // kernels, in this process
  std::string fingerprint_;                          // of what the plans do
  std::string no_kernels_;                           // why there are none
  std::unique_ptr<CompiledModel> compiled_;
};

}  // namespace fk
