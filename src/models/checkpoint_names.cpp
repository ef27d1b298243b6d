#include "models/checkpoint_names.h"

#include "core/check.h"
#include "models/family.h"

namespace fk {

std::vector<ParamSpec> checkpoint_params(const Node& model, const ModelConfig& config) {
  std::vector<ParamSpec> params;
  for (ParamSpec p : collect_params(model)) {
    if (config.facts.tied_head && p.name == kHeadWeight) continue;
    for (const PackedModule& packed : config.family->packed) {
      size_t at = p.part_rows.empty() ? std::string::npos : p.name.find(packed.module);
      if (at == std::string::npos) continue;
      FK_CHECK(packed.parts.size() == p.part_rows.size(), "a stacked weight has other parts than its family says");
      for (std::string_view part : packed.parts)
        p.part_names.push_back(std::string(p.name).replace(at, packed.module.size(), part));
    }
    params.push_back(std::move(p));
  }
  return params;
}

std::string loaded_name(const std::string& param, const ModelConfig& config) {
  return config.facts.tied_head && param == kHeadWeight ? std::string(kEmbeddingWeight) : param;
}

}  // namespace fk
