#include "models/config_experts.h"

#include "core/error.h"
#include "core/json.h"
#include "models/in_quotes.h"

namespace fk {
namespace {

// transformers' classes ignore these keys and compute what is known here; the code published with a model obeys them.
void check_choice_of_experts(const FamilyFields& fields) {
  struct Key {
    std::string_view name, known;
  };
  for (auto [name, known] : {Key{"scoring_func", "sigmoid"}, Key{"topk_method", "noaux_tc"}})
    if (auto found = fields.string(name); found && *found != known)
      throw Error("{}: {} {} is not supported; only {} is.", fields.what(), name, in_quotes(*found), known);
  if (auto frequency = fields.integer("moe_layer_freq", 0, INT32_MAX).value_or(1); frequency != 1)
    throw Error("{}: moe_layer_freq must be 1, so that all layers behind the dense ones have experts, and is {}.",
                fields.what(), frequency);
}

}  // namespace

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

void check_groups(const FamilyFields& fields, const GroupedExperts& experts) {
  if (experts.n_routed_experts % experts.n_group != 0 || experts.n_routed_experts < 2 * experts.n_group)
    throw Error("{}: n_group {} must divide n_routed_experts {} into groups of two or more.", fields.what(),
                experts.n_group, experts.n_routed_experts);
  if (experts.topk_group > experts.n_group ||
      experts.topk_group * (experts.n_routed_experts / experts.n_group) < experts.num_experts_per_tok)
    throw Error("{}: topk_group {} of n_group {} must hold at least num_experts_per_tok {} experts.", fields.what(),
                experts.topk_group, experts.n_group, experts.num_experts_per_tok);
}

void read_grouped_experts(const FamilyFields& fields, const GroupedExperts& defaults, GroupedExperts& experts) {
  // transformers 5 may write the name that other families have.
  ExpertCounts counts =
      read_expert_counts(fields, fields.has("num_local_experts") ? "num_local_experts" : "n_routed_experts",
                         {.experts = defaults.n_routed_experts, .per_token = defaults.num_experts_per_tok});
  experts.n_routed_experts = counts.experts;
  experts.num_experts_per_tok = counts.per_token;
  experts.n_group = fields.integer("n_group", 1, kMaxExperts).value_or(defaults.n_group);
  experts.topk_group = fields.integer("topk_group", 1, kMaxExperts).value_or(defaults.topk_group);
  check_groups(fields, experts);
  check_choice_of_experts(fields);
  experts.moe_intermediate_size =
      fields.integer("moe_intermediate_size", 1, 1 << 22).value_or(defaults.moe_intermediate_size);
  experts.n_shared_experts = fields.integer("n_shared_experts", 1, kMaxExperts).value_or(defaults.n_shared_experts);
  experts.first_k_dense_replace =
      fields.integer("first_k_dense_replace", 0, INT32_MAX).value_or(defaults.first_k_dense_replace);
  experts.norm_topk_prob = fields.boolean("norm_topk_prob").value_or(defaults.norm_topk_prob);
  experts.routed_scaling_factor =
      fields.real("routed_scaling_factor", 1e-6, 1e6).value_or(defaults.routed_scaling_factor);
}

}  // namespace fk
