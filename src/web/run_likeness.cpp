#include "web/run_likeness.h"

namespace fk {
namespace {

// Of the "load_average" and the machine's cores, as track/environment.h records them.
bool was_busy(const Json& environment) {
  using nlohmann::literals::operator""_json_pointer;
  auto number = [&](const Json::json_pointer& at) {
    return environment.contains(at) && environment.at(at).is_number() ? environment.at(at).get<double>() : 0;
  };
  double load = number("/load_average/0"_json_pointer), cores = number("/machine/cpu/usable_cores"_json_pointer);
  return cores > 0 && load > 0.5 * cores;
}

}  // namespace

const RunLikeness::Facts& RunLikeness::of(const std::string& run_id) {
  auto [entry, unknown] = known_.try_emplace(run_id);
  if (!unknown) return entry->second;
  std::optional<RunRecord> run = store_.run(run_id);
  if (!run) return entry->second;
  Facts& facts = entry->second;
  facts.busy = was_busy(run->environment.details);
  facts.device_name = run->environment.device_name();
  facts.params = std::move(run->params);
  for (const ArtifactRecord& a : store_.artifacts(run_id))
    if (a.path.starts_with("kernels/")) facts.candidates += a.sha256 + " ";
  return facts;
}

std::string RunLikeness::param(const std::string& run_id, const std::string& key) {
  const auto& params = of(run_id).params;
  auto found = params.find(key);
  return found == params.end() ? "" : found->second;
}

}  // namespace fk
