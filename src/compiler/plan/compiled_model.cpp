#include "compiler/plan/compiled_model.h"

#include "core/error.h"
#include "core/tuned_choice.h"
#include "graph/trace.h"
#include "ops/registry.h"
#include "ops/span_observer.h"

namespace fk {

GraphPhase phase_of(const AttentionMetadata& batch, Task task) {
  if (is_stateless(task)) return GraphPhase::kEncode;
  if (batch.decode.num_sequences == 0) return GraphPhase::kPrefill;
  return batch.prefill.num_sequences == 0 ? GraphPhase::kDecode : GraphPhase::kMixed;
}

CompiledModel::CompiledModel(Model& model, FindRegions find, const PlanOptions& options)
    : model_(model), find_(std::move(find)), options_(options) {
  arena_->device = model.device;
  options_.arena = arena_;
  options_.device = model.device;
  for (const ImplementationInfo* by : model.root->implementations()) replaceable_ = replaceable_ || !by->any_device;
  model.instead = [this](Context& ctx, Args args) { return call(ctx, args); };
}

CompiledModel::~CompiledModel() { model_.instead = {}; }

PlanExecutor& CompiledModel::prepare(GraphPhase phase) {
  std::unique_ptr<PlanExecutor>& plan = plans_.at(static_cast<size_t>(phase));
  if (plan == nullptr) {
    if (traced_ == nullptr) traced_ = build_model(model_.config, {.oracle = true});
    Graph graph = trace_graph(*traced_, model_.name, phase, model_.config.facts.dtype);
    plan = std::make_unique<PlanExecutor>(
        graph, *model_.root, [this](const std::string& path) { return model_.weight(path); }, find_, options_);
  }
  return *plan;
}

const PlanExecutor* CompiledModel::plan(GraphPhase phase) const { return plans_.at(static_cast<size_t>(phase)).get(); }

bool CompiledModel::call(Context& ctx, Args args) {
  // Whoever only hears of beginnings records the calls of compositions too, and may skip some.
  const bool observed = ctx.observer != nullptr && dynamic_cast<SpanObserver*>(ctx.observer) == nullptr;
  if (!observed && ctx.attention != nullptr) {
    if (replaceable_)
      if (const ImplementationInfo* by = model_.root->chosen(args); by != nullptr && !by->any_device) {
        calls_by_whole_ += is_trial() ? 0 : 1;
        if (whole_.empty()) whole_ = by->name;
        model_.root->call(ctx, args);
        return false;
      }
    const GraphPhase phase = phase_of(*ctx.attention, model_.config.facts.task);
    if (!left_to_tree(phase) && prepare(phase).run_if_it_fits(ctx, args)) return true;
  }
  calls_by_tree_ += is_trial() ? 0 : 1;
  model_.root->call(ctx, args);
  return false;
}

}  // namespace fk
