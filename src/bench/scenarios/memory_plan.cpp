#include "bench/scenarios/memory_plan.h"

#include <fmt/format.h>

#include "bench/scenarios/dry_run.h"
#include "ops/materialize.h"

namespace fk {
namespace {

std::string gib(double bytes) { return fmt::format("{:.2f} GiB", bytes / (1 << 30)); }

}  // namespace

MemoryPlan plan_memory(const Scenario& scenario) {
  MemoryPlan plan;
  std::unique_ptr<Node> root = scenario.info().build(scenario.init, dry_build_options());
  std::vector<OptView> given;
  for (const auto& input : scenario_inputs(scenario)) {
    given.push_back(input ? OptView(shape_only(input->spec)) : std::nullopt);
    if (!input) continue;
    uint64_t bytes = input->spec.size_bytes();
    const ArgumentOverride* o = scenario.override_of(scenario.info().args[given.size() - 1].name);
    if (o != nullptr && !o->strides.empty())
      bytes += static_cast<uint64_t>(input->spec.shape[0] * o->strides[0]) * dtype_size(input->spec.dtype);
    plan.inputs_bytes += bytes;
  }
  for (const auto& output : root->outputs(given).specs)
    if (output) plan.outputs_bytes += output->size_bytes();
  for (const ParamSpec& p : collect_params(*root)) plan.weights_bytes += p.spec.size_bytes();
  for (const StateSpec& s : collect_states(*root))
    plan.states_bytes += state_tensor(s, state_room(scenario.workload), scenario.workload.dtype).size_bytes();
  if (scenario.info().level > 1) plan.scratch_bytes = dry_run(*root, scenario.workload);
  return plan;
}

std::string refuse_memory(const Scenario& scenario, const MemoryPlan& plan, const MemoryInfo& machine, double copies) {
  double need = copies * static_cast<double>(plan.total_bytes());
  auto have = static_cast<double>(machine.available_bytes);
  if (need <= have) return {};
  return fmt::format(
      "{} {} needs {} ({} of weights, {} of states, {} of inputs, {} of outputs, {} of scratch{}), but this machine "
      "has {} left; select smaller scenarios with --model, --tp or --filter.",
      scenario.op, scenario.name, gib(need), gib(static_cast<double>(plan.weights_bytes)),
      gib(static_cast<double>(plan.states_bytes)), gib(static_cast<double>(plan.inputs_bytes)),
      gib(static_cast<double>(plan.outputs_bytes)), gib(static_cast<double>(plan.scratch_bytes)),
      copies == 1 ? "" : fmt::format("; {} copies", copies), gib(have));
}

}  // namespace fk
