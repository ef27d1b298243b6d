#include "cli/compiled_path.h"

#include <fmt/format.h>

#include "cli/output.h"
#include "measure/timer.h"

namespace fk {
namespace {

// Where regions that one kernel makes come into the plans.
FindRegions planned_regions_of(const Model&) { return {}; }

}  // namespace

CompiledPath::CompiledPath(Model& model, bool check_every_step) : model_(model) {
  const int64_t start = now_ns();
  compiled_ = std::make_unique<CompiledModel>(model, planned_regions_of(model), check_every_step);
  for (GraphPhase phase : phases()) compiled_->prepare(phase);
  plan_ms_ = static_cast<double>(now_ns() - start) / kNsPerMs;
}

std::vector<GraphPhase> CompiledPath::phases() const {
  if (is_encoder(model_.config.facts.task)) return {GraphPhase::kEncode};
  return {GraphPhase::kPrefill, GraphPhase::kDecode};
}

Json CompiledPath::to_json() const {
  Json json = {{"plan_ms", plan_ms_}, {"calls_by_tree", compiled_->calls_by_tree()}, {"text", text()}};
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
    text += fmt::format("{}{}: {} steps", text.empty() ? "" : "; ", phase_name(phase), r.steps);
    if (r.regions > 0) text += fmt::format(", {} of them regions", r.regions);
    if (r.copies > 0) text += fmt::format(", {} of them copies", r.copies);
    text +=
        fmt::format(", values in {} (lower bound {})", human_bytes(r.arena_bytes), human_bytes(r.lower_bound_bytes));
  }
  text += fmt::format("; planned in {:.0f} ms", plan_ms_);
  if (compiled_->calls_by_tree() > 0) text += fmt::format("; {} passes run by the tree", compiled_->calls_by_tree());
  return text;
}

}  // namespace fk
