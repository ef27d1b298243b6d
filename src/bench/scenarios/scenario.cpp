#include "bench/scenarios/scenario.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "core/error.h"
#include "models/catalog.h"
#include "models/family.h"

namespace fk {

const ArgumentOverride* Scenario::override_of(std::string_view argument) const {
  for (const ArgumentOverride& o : overrides)
    if (o.name == argument) return &o;
  return nullptr;
}

bool same_fields(const Fields& a, const Fields& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Field& x, const Field& y) {
    if (x.name != y.name || x.value.index() != y.value.index()) return false;
    if (const auto* nested = std::get_if<Fields>(&x.value)) return same_fields(*nested, std::get<Fields>(y.value));
    // Nested fields are dealt with above; comparing the rest by text keeps the variant free of recursion.
    return fields_text({x}) == fields_text({y});
  });
}

bool operator==(const Scenario& a, const Scenario& b) {
  return a.op == b.op && a.name == b.name && a.models == b.models && a.tp == b.tp && a.also_tp == b.also_tp &&
         same_fields(a.init, b.init) && a.workload == b.workload && a.count == b.count && a.overrides == b.overrides &&
         a.block_table == b.block_table;
}

Inputs scenario_inputs(const Scenario& scenario) {
  const OperatorInfo& info = scenario.info();
  Inputs inputs = info.inputs(scenario.init, scenario.workload);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ArgumentOverride* o = scenario.override_of(info.args[i].name);
    if (inputs[i] && o != nullptr && o->generator) inputs[i]->generator = *o->generator;
  }
  return inputs;
}

bool name_matches(std::string_view name, std::string_view filter) {
  auto in_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  // A match must not begin or end inside a word.
  auto inside_word = [&](size_t at) {
    return at > 0 && at < name.size() && in_word(name[at - 1]) && in_word(name[at]);
  };
  if (filter.empty()) return true;
  if (filter.front() == '=') return name == filter.substr(1);
  for (size_t at = name.find(filter); at != std::string_view::npos; at = name.find(filter, at + 1))
    if (!inside_word(at) && !inside_word(at + filter.size())) return true;
  return false;
}

bool selects(const ScenarioSelection& selection, const Scenario& scenario) {
  if (!selection.target.empty() && scenario.op != selection.target) return false;
  if (selection.level != 0 && scenario.info().level != selection.level) return false;
  auto tp_wanted = [&](int64_t tp) {
    return std::find(selection.tp.begin(), selection.tp.end(), tp) != selection.tp.end();
  };
  if (!selection.tp.empty() && !tp_wanted(scenario.tp) &&
      std::none_of(scenario.also_tp.begin(), scenario.also_tp.end(), tp_wanted))
    return false;
  if (!name_matches(scenario.name, selection.filter)) return false;
  if (selection.models.empty() && selection.categories.empty()) return true;
  auto contains = [](const std::vector<std::string>& list, auto&& fits) {
    return list.empty() || std::any_of(list.begin(), list.end(), fits);
  };
  return std::any_of(scenario.models.begin(), scenario.models.end(), [&](const std::string& model) {
    const CatalogEntry* known = find_catalog(model);
    return contains(selection.models, [&](const std::string& prefix) { return model.starts_with(prefix); }) &&
           contains(selection.categories,
                    [&](const std::string& category) { return known != nullptr && known->category == category; });
  });
}

void check_selection(const ScenarioSelection& selection) {
  if (!selection.target.empty()) Registry::instance().at(selection.target);
  std::vector<std::string> known = known_categories();
  for (const std::string& category : selection.categories)
    if (std::find(known.begin(), known.end(), category) == known.end())
      throw Error("No model is of the category '{}'; there is {}.", category, fmt::join(known, ", "));
}

}  // namespace fk
