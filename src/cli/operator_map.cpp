#include "cli/operator_map.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "candidate/folder.h"
#include "cli/output.h"
#include "cli/table.h"
#include "core/error.h"
#include "engine/model.h"
#include "models/catalog.h"

namespace fk {
namespace {

struct ModelUses {
  const CatalogEntry* model;
  OperatorUses uses;
};

std::vector<ModelUses> uses_of_models(const ScenarioSelection& selection) {
  std::vector<ModelUses> all;
  Scenario any;
  for (const CatalogEntry& entry : catalog()) {
    ScenarioSelection models{.models = selection.models, .categories = selection.categories};
    if (models.models == std::vector<std::string>{"all"}) models.models.clear();
    any.models = {entry.name};
    if (selects(models, any)) all.push_back({&entry, operator_uses(entry.config)});
  }
  if (all.empty())
    throw Error("No model of the catalog is named {}; `fastkernels list` shows them all.",
                fmt::join(selection.models, " or "));
  return all;
}

// The list as one cell: an array in JSON, words in text.
Cell words(const std::vector<std::string>& names) { return {Json(names), fmt::format("{}", fmt::join(names, " "))}; }

}  // namespace

OperatorUses operator_uses(const ModelConfig& config) {
  OperatorUses uses;
  std::unique_ptr<Node> root = build_model(config, {});
  walk(*root, [&](const Node& node, int) { ++uses[std::string(node.info().name)]; });
  return uses;
}

void print_operator_map(const ScenarioSelection& selection, const CommonOptions& common) {
  check_selection(selection);
  std::vector<ModelUses> models = uses_of_models(selection);
  std::vector<const OperatorInfo*> operators = Registry::instance().operators();
  std::erase_if(operators, [&](const OperatorInfo* op) {
    return (selection.level != 0 && op->level != selection.level) ||
           (!selection.target.empty() && op->name != selection.target);
  });
  std::vector<CandidateFile> candidates = find_candidates(candidate_folder());

  Table rows({{"model", "MODEL"}, {"level", "LEVEL"}, {"operator", "OPERATOR"}, {"count", "COUNT"}});
  Table by_model({{"model", "MODEL"}, {"category", "CATEGORY"}, {"operators", "OPERATORS"}});
  Table by_operator({{"level", "LEVEL"},
                     {"operator", "OPERATOR"},
                     {"class", "CLASS"},
                     {"candidate", "CANDIDATE"},
                     {"models", "MODELS"}});
  for (const ModelUses& m : models) {
    std::vector<std::string> names;
    for (const OperatorInfo* op : operators)
      if (auto use = m.uses.find(op->name); use != m.uses.end()) {
        names.emplace_back(op->name);
        rows.add_row({m.model->name, op->level, std::string(op->name), use->second});
      }
    by_model.add_row({m.model->name, m.model->category, words(names)});
  }
  for (const OperatorInfo* op : operators) {
    std::vector<std::string> names;
    for (const ModelUses& m : models)
      if (m.uses.contains(op->name)) names.push_back(m.model->name);
    if (names.empty() && !selection.models.empty()) continue;
    auto own = std::find_if(candidates.begin(), candidates.end(), [&](const CandidateFile& c) { return c.op == op; });
    by_operator.add_row({op->level, std::string(op->name), std::string(op->class_name),
                         own != candidates.end() ? Cell(own->path) : Cell(), words(names)});
  }
  if (common.csv) return print_csv(rows.to_csv());
  if (common.json)
    return print_out(dump_json({{"models", by_model.to_json()}, {"operators", by_operator.to_json()}}) + "\n");
  print_out(fmt::format("{}\n{}", by_model.to_text(), by_operator.to_text()));
}

}  // namespace fk
