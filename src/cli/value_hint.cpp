#include "cli/value_hint.h"

#include <algorithm>
#include <map>
#include <set>

#include "bench/scenarios/generate.h"
#include "cli/verb.h"
#include "core/device_runtime.h"
#include "core/error.h"
#include "models/catalog.h"
#include "ops/registry.h"
#include "track/store.h"

namespace fk {
namespace {

using Names = std::vector<std::string>;

// Flags of one name mean one thing in every verb. Words without a flag have no dashes.
const std::map<std::string, std::string, std::less<>> kKinds = {
    {"--target", "operators"},      {"--op", "operators"}, {"--model", "models"},   {"--scenario", "scenarios"},
    {"--filter", "scenarios"},      {"--run", "runs"},     {"--device", "devices"}, {"--category", "categories"},
    {"--architecture", "families"}, {"run", "runs"},       {"runs", "runs"},        {"verb", "verbs"},
};

Names operators() {
  Names names;
  for (const OperatorInfo* op : Registry::instance().operators()) names.emplace_back(op->name);
  return names;
}

Names of_catalog(std::string CatalogEntry::*field) {
  Names names;
  for (const CatalogEntry& entry : catalog())
    if (std::find(names.begin(), names.end(), entry.*field) == names.end()) names.push_back(entry.*field);
  return names;
}

// Those that `kernels` runs by default, since all models together have many thousand.
Names scenarios(const std::string& target) {
  ScenarioSelection selection;
  selection.target = target;
  selection.models = {"llama-3.2-1b"};
  selection.tp = {1};
  std::set<std::string> names;
  for (const Scenario& s : generate_scenarios(selection).scenarios) names.insert(s.name);
  return {names.begin(), names.end()};
}

Names runs() {
  Names names = {"last"};
  for (const RunRecord& run : open_store_reader()->runs({})) names.push_back(run.id);
  return names;
}

Names device_names() {
  Names names = {"auto", "cpu"};
  for (int i = 0; i < device_count(DeviceKind::kCuda); ++i)
    names.push_back(device_name({DeviceKind::kCuda, static_cast<int8_t>(i)}));
  return names;
}

Names verbs() {
  Names names;
  for (const Verb* verb : all_verbs()) names.push_back(verb->name());
  return names;
}

}  // namespace

ValueHint value_hint(const Flag& flag) {
  ValueHint hint;
  hint.choices = flag.choices();
  constexpr int64_t kFew = 8;
  if (flag.kind() == FlagKind::kWholeNumber && flag.range() && flag.range()->second - flag.range()->first < kFew)
    for (int64_t i = flag.range()->first; i <= flag.range()->second; ++i) hint.choices.push_back(std::to_string(i));
  if (!hint.choices.empty() || flag.kind() == FlagKind::kSwitch) return hint;
  std::string name = flag.name_list()[0];
  hint.files = flag.kind() == FlagKind::kFile || name == "files";
  hint.folders = flag.kind() == FlagKind::kFolder;
  if (auto kind = kKinds.find(name); kind != kKinds.end()) hint.ask = kind->second;
  // A checkpoint to load; others select models by name.
  hint.folders = hint.folders || (hint.ask == "models" && (flag.is_required() || flag.type_name() == "MODEL"));
  // The remaining texts called so are files: --output-json, and `history export --out`.
  if (name == "--output-json" || (name == "--out" && flag.type_name().empty())) hint.files = true;
  return hint;
}

std::vector<std::string> known_names(const std::string& kind, const std::string& target) {
  try {
    if (kind == "operators") return operators();
    if (kind == "models") return of_catalog(&CatalogEntry::name);
    if (kind == "families") return of_catalog(&CatalogEntry::family);
    if (kind == "categories") return of_catalog(&CatalogEntry::category);
    if (kind == "scenarios") return scenarios(target);
    if (kind == "runs") return runs();
    if (kind == "devices") return device_names();
    if (kind == "verbs") return verbs();
  } catch (const Error&) {  // shell completion cannot show an error
  }
  return {};
}

}  // namespace fk
