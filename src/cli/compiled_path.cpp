#include "cli/compiled_path.h"

#include <fmt/format.h>

#include "cli/output.h"
#include "core/error.h"
#include "measure/timer.h"

namespace fk {

std::vector<std::string> trial_command(const CandidateOptions& candidates, const CommonOptions& common) {
  if (common.device == kCpu) return {};
  std::vector<std::string> words = {"/proc/self/exe", "search", "--device=" + device_name(common.device), "--quiet",
                                    candidates.disabled ? "--no-candidate-kernels" : "--allow-incorrect"};
  if (!candidates.cxxflags.empty()) words.push_back("--cxxflags=" + candidates.cxxflags);
  if (candidates.allow_libraries) words.emplace_back("--allow-libraries");
  words.emplace_back("--trial-request");
  return words;
}

CompiledPath::CompiledPath(Model& model, const std::optional<SearchOptions>& search, bool check_every_step)
    : model_(model), search_(search) {
  const int64_t start = now_ns();
  compiled_ = std::make_unique<CompiledModel>(
      model, [this](GraphPhase phase, const GraphBody& flat) { return regions_of(phase, flat); }, check_every_step);
  for (GraphPhase phase : phases()) compiled_->prepare(phase);
  plan_ms_ = static_cast<double>(now_ns() - start) / kNsPerMs;
}

std::vector<PlannedRegion> CompiledPath::regions_of(GraphPhase phase, const GraphBody& flat) {
  if (!search_) return {};
  try {
    PhasePlan plan = search_plan(flat, phase, *search_);
    find_s_ += plan.find_s;
    compile_s_ += plan.compile_s;
    trial_s_ += plan.trial_s;
    int64_t tried = 0;
    for (const KernelChoice& k : plan.kernels) tried += k.tried && !k.known ? 1 : 0;
    measured_ += tried;
    // One budget for all phases.
    if (search_->budget > 0) search_->budget -= tried;
    fingerprint_ += (fingerprint_.empty() ? "" : " ") + plan.fingerprint();
    return plan.regions;
  } catch (const Error& e) {  // no compiler, no place for what it writes
    no_kernels_ = e.what();
    return {};
  }
}

std::vector<GraphPhase> CompiledPath::phases() const {
  if (is_stateless(model_.config.facts.task)) return {GraphPhase::kEncode};
  return {GraphPhase::kPrefill, GraphPhase::kDecode};
}

Json CompiledPath::to_json() const {
  Json json = {{"plan_ms", plan_ms_},
               {"find_ms", find_s_ * 1e3},
               {"compile_ms", compile_s_ * 1e3},
               {"trial_ms", trial_s_ * 1e3},
               {"kernels_measured", measured_},
               {"fingerprint", fingerprint_},
               {"calls_by_tree", compiled_->calls_by_tree()},
               {"calls_by_whole", compiled_->calls_by_whole()},
               {"text", text()}};
  if (!no_kernels_.empty()) json["no_kernels"] = no_kernels_;
  for (GraphPhase phase : phases()) {
    const PlanReport r = compiled_->plan(phase)->report();
    json[std::string(phase_name(phase))] = {{"steps", r.steps},
                                            {"calls", r.calls},
                                            {"regions", r.regions},
                                            {"refused_regions", r.refused_regions},
                                            {"copies", r.copies},
                                            {"arena_bytes", r.arena_bytes},
                                            {"lower_bound_bytes", r.lower_bound_bytes}};
  }
  return json;
}

std::string CompiledPath::text() const {
  std::string text;
  for (GraphPhase phase : phases()) {
    const PlanReport r = compiled_->plan(phase)->report();
    if (r.layouts == 0) continue;  // no batch of it was run by the plan
    text += fmt::format("{}{}: {} steps", text.empty() ? "" : "; ", phase_name(phase), r.steps);
    if (r.regions > 0) text += fmt::format(", {} of them regions", r.regions);
    if (r.copies > 0) text += fmt::format(", {} of them copies", r.copies);
    text +=
        fmt::format(", values in {} (lower bound {})", human_bytes(r.arena_bytes), human_bytes(r.lower_bound_bytes));
  }
  text += fmt::format("; planned in {:.0f} ms", plan_ms_);
  if (search_) text += fmt::format(", {} kernels measured", measured_);
  if (!no_kernels_.empty()) text += "; no generated kernels: " + no_kernels_;
  if (compiled_->calls_by_whole() > 0)
    text += fmt::format("; {} passes run by {}, as without a plan", compiled_->calls_by_whole(), compiled_->whole());
  if (compiled_->calls_by_tree() > 0) text += fmt::format("; {} passes run by the tree", compiled_->calls_by_tree());
  return text;
}

}  // namespace fk
