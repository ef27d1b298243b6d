// Which operators each model of the catalog uses. Needs no weights and no GPU: trees are built, not run.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "bench/scenarios/scenario.h"
#include "cli/options.h"
#include "models/model_config.h"

namespace fk {

// Operator name -> how many of it a model builds.
using OperatorUses = std::map<std::string, int64_t, std::less<>>;

OperatorUses operator_uses(const ModelConfig& config);

// Two tables: each model with its operators, and each operator with its models and whether it has a candidate. The
// selection's models, categories, level and target count. As CSV: one row for every operator of every model.
void print_operator_map(const ScenarioSelection& selection, const CommonOptions& common);

}  // namespace fk
