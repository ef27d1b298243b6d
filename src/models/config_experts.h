// The experts' part of config.json, as several families spell it.
#pragma once

#include "models/family_fields.h"
#include "ops/l4/expert_layers.h"
#include "ops/l4/grouped_experts.h"

namespace fk {

inline constexpr int64_t kMaxExperts = 1 << 14;

// How many experts there are and how many of them a token uses, which must not be more. `key`: how this family spells
// the first. Defaults are those of the configuration class in transformers.
struct ExpertCounts {
  int64_t experts = 0;
  int64_t per_token = 0;
};
ExpertCounts read_expert_counts(const FamilyFields& fields, std::string_view key, const ExpertCounts& defaults);

// Everything in ExpertLayers, with the keys of Qwen's configs.
struct ExpertDefaults {
  ExpertCounts counts;
  int64_t moe_intermediate_size = 0;
};
void read_expert_layers(const FamilyFields& fields, const ExpertDefaults& defaults, int64_t layers,
                        ExpertLayers& experts);

// Everything in GroupedExperts, with the keys of DeepSeek's and GLM's configs. `defaults` has those of the family's
// configuration class.
void read_grouped_experts(const FamilyFields& fields, const GroupedExperts& defaults, GroupedExperts& experts);
// Refuses groups that do not divide the experts, and those that have fewer than the two they are compared by.
void check_groups(const FamilyFields& fields, const GroupedExperts& experts);

}  // namespace fk
