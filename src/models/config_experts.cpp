#include "models/config_experts.h"

#include "core/error.h"
#include "core/json.h"

namespace fk {

ExpertCounts read_expert_counts(const FamilyFields& fields, std::string_view key, const ExpertCounts& defaults) {
  ExpertCounts counts{fields.integer(key, 1, kMaxExperts).value_or(defaults.experts),
                      fields.integer("num_experts_per_tok", 1, kMaxExperts).value_or(defaults.per_token)};
  if (counts.per_token > counts.experts)
    throw Error("{}: num_experts_per_tok {} must not be more than {} {}.", fields.what(), counts.per_token, key,
                counts.experts);
  return counts;
}

void read_expert_layers(const FamilyFields& fields, const ExpertDefaults& defaults, int64_t layers,
                        ExpertLayers& experts) {
  // transformers 5 may write the name that other families have.
  ExpertCounts counts = read_expert_counts(
      fields, fields.has("num_local_experts") ? "num_local_experts" : "num_experts", defaults.counts);
  experts.num_experts = counts.experts;
  experts.num_experts_per_tok = counts.per_token;
  experts.moe_intermediate_size =
      fields.integer("moe_intermediate_size", 1, 1 << 22).value_or(defaults.moe_intermediate_size);
  experts.norm_topk_prob = fields.boolean("norm_topk_prob").value_or(false);
  experts.decoder_sparse_step = fields.integer("decoder_sparse_step", 1, INT32_MAX).value_or(1);
  const Json* list = fields.find("mlp_only_layers");
  if (list == nullptr) return;
  if (!list->is_array()) throw Error("{}: mlp_only_layers must be a list of layers.", fields.what());
  for (const Json& layer : *list) {
    if (!layer.is_number_integer() || layer.get<int64_t>() < 0 || layer.get<int64_t>() >= layers)
      throw Error("{}: mlp_only_layers holds {}; layers are numbered from 0 to {}.", fields.what(), layer.dump(),
                  layers - 1);
    experts.mlp_only_layers.push_back(layer.get<int64_t>());
  }
}

}  // namespace fk
